"""Mashup: a thing whose rules run when other things report events and changes. `@when` declares a rule in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from appbackplane.transport.errors import InvalidArgument, NotFound

from ...objects.app_object import AppObject
from ...objects.module_state import ModuleState
from ...objects.operation import PRIORITY_DEFAULT, DeclarationError, every, subscribe
from ...permissions.thing_ids import NOTIFICATIONS
from ..declaring import action, event, prop
from ..thing import Thing
from .driving import PlannedStep, dry_steps
from .handles import ThingHandle
from .rule import THING, Cause, RulePolicy, RuleSpec, RuleTarget, Trigger, key_of, policy_of
from .run_log import RunLine, as_data
from .runner import ActiveRule, RuleRunner, holds

#: Members that no subclass may replace: they are the machinery of its rules.
_OWN = frozenset(
    (
        "disable",
        "dry_run",
        "enable",
        "look_for_things",
        "on_notification",
        "ran",
        "rules",
        "run",
        "runs",
        "write_property",
    )
)
#: The attribute of a method that `when` has decorated.
_WHEN = "__appbackplane_when__"
Body = TypeVar("Body", bound=Callable[..., Coroutine[Any, Any, Any]])


@dataclass(frozen=True, slots=True)
class WhenMark:
    """What `when` noted on a method."""

    triggers: tuple[Trigger, ...]
    policy: RulePolicy
    condition: Callable[[Cause], Any] | None


@dataclass(frozen=True, slots=True)
class GivenEvent:
    """An event as a caller gives it. Without `thing` and `name` they are those of the rule's first trigger."""

    data: Any = None
    previous: Any = None
    thing: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """A rule as the property `rules` shows it. `is_ready`: all that it names was found. `refused`: why it never runs.

    `skipped`: triggers without a run, by reason.
    """

    name: str
    mode: str
    is_enabled: bool
    is_ready: bool
    refused: str
    running: int
    queued: int
    skipped: dict[str, int]


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a rule would do. `steps`: its calls and pauses. `ends_early`: why there may be more of them; "": there are not."""

    would_run: bool
    reason: str
    steps: list[dict[str, Any]]
    ends_early: str


@dataclass(frozen=True, slots=True)
class RunNews:
    """The end of a run: the data of the event `ran`. `thing`, `key`: of the event that started it."""

    rule: str
    number: int
    outcome: str
    error: str
    thing: str
    key: str | None


def when(
    *triggers: Trigger,
    mode: str = "single",
    debounce: float = 0.0,
    cooldown: float = 0.0,
    priority: int = PRIORITY_DEFAULT,
    if_: Callable[[Cause], Any] | None = None,
    key: str = "id",
) -> Callable[[Body], Body]:
    """Declare a rule of a mashup: the `async def` method runs when one of the triggers occurs, with the `Cause`.

    mode: what a trigger does while the rule runs: "single", "queued", "restart" or "parallel" (docs/concepts/mashups.md).
    debounce: run when there was no trigger for so many seconds, with the last one. cooldown: seconds from a run's trigger
    within which others are skipped. priority: of the run, and so of its calls. if_: a function of the cause; without truth, the
    trigger counts for nothing. key: the field of an event's data that is its key. Raises `DeclarationError`.
    """

    def declare(method: Body) -> Body:
        where = f"rule {method.__qualname__}"
        if not triggers or not all(isinstance(each, Trigger) for each in triggers):
            raise DeclarationError(
                f"{where}: expected triggers, as in @when(lamp.burnt_out) or @when(lamp.change('brightness'))"
            )
        if not inspect.iscoroutinefunction(method) or len(inspect.signature(method).parameters) != 2:
            raise DeclarationError(f"{where}: expected `async def {method.__name__}(self, event)`")
        if if_ is not None and not callable(if_):
            raise DeclarationError(f"{where}: if_ = {if_!r}: expected a function of the event")
        try:
            policy = policy_of(where, mode=mode, debounce=debounce, cooldown=cooldown, priority=priority, key=key)
        except ValueError as error:
            raise DeclarationError(str(error)) from None
        setattr(method, _WHEN, WhenMark(triggers, policy, if_))
        return method

    return declare


class Mashup(Thing):
    """Subclass it, name things, declare rules by `@when`, and add it to a component: `self.add(Evening(), key="evening")`.

    It serves others while a rule waits. Rules of one mashup may therefore overlap; its own attributes need no locks.
    """

    interleaves = True
    #: The principal of all calls of its rules. None: they carry none.
    run_as: ClassVar[str | None] = None
    #: Where its journal lies. None: in the state folder of the system; in a virtual backplane, nowhere.
    journal_folder: str | None = None

    __rules__: ClassVar[tuple[RuleSpec, ...]] = ()

    #: Events of its rules.
    ran = event(RunNews, description="A run of a rule has ended.")

    _rule_runner: RuleRunner | None
    #: What a dry run of one of its rules would cast and publish; None: none is under way.
    _planned: list[PlannedStep] | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.interleaves is not True:
            raise DeclarationError(
                f"{cls.__qualname__}.interleaves: a mashup hears things while a rule waits: leave it True"
            )
        specs: list[RuleSpec] = []
        attributes = _attributes(cls)
        handles = [each for each in attributes.values() if isinstance(each, ThingHandle)]
        targets = tuple(RuleTarget(each._component or "", each._key, THING) for each in handles)
        for name, method in attributes.items():
            mark = getattr(method, _WHEN, None)
            is_taken = hasattr(Mashup, name) if isinstance(mark, WhenMark) else name in _OWN and name in vars(cls)
            if is_taken:
                raise DeclarationError(
                    f"{cls.__qualname__}.{name}: {name!r} belongs to the runtime: choose another name"
                )
            if isinstance(mark, WhenMark):
                specs.append(RuleSpec(name, mark.triggers, method, mark.policy, mark.condition, cls.run_as, targets))
        cls.__rules__ = tuple(specs)

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        self = super().__new__(cls, *arguments, **keywords)
        self._rule_runner = None
        self._planned = None
        return self

    @prop(priority=2)
    def rules(self) -> list[RuleStatus]:
        """Its rules, and why some do not run."""
        runner = self._runner
        found = [_status(rule) for rule in runner.rules.values()]
        return found + [
            RuleStatus(name, "", False, False, reason, 0, 0, {}) for name, reason in self._rules_refused().items()
        ]

    @action(safe=True, priority=2)
    def runs(self, rule: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """The last runs, the newest first; those that have not ended come before the others."""
        runner = self._runner
        if not runner.open():
            raise InvalidArgument("the journal cannot be used: see the log")
        found: list[RunLine] = []
        for line in runner.log.lines(rule):
            if len(found) >= limit:
                break
            found.append(line)
        return [as_data(line) for line in found]

    @action(safe=True, priority=2)
    async def dry_run(self, rule: str, event: GivenEvent | None = None) -> DryRun:
        """What a rule would do for an event. Nothing is called, so what depends on the results of calls is not known."""
        active = self._rule(rule)
        cause = _cause_of(active.spec, event)
        reason = active.refused or ("" if active.state.is_enabled else "the rule is disabled")
        if not reason and not holds(active.spec, cause):
            reason = "its condition does not hold"
        if not reason and self._runner.log.is_taken(rule, cause) and cause.key is not None:
            reason = "an event with this key has started the rule before"
        planned = self._planned = []
        try:
            steps, ends_early = dry_steps(active.spec.body(self, cause), planned)
        finally:
            self._planned = None
        return DryRun(not reason, reason, [_as_step(step) for step in steps], ends_early)

    @action
    def run(self, rule: str, event: GivenEvent | None = None) -> str:
        """Trigger a rule, as this event would. Returns "" if it starts, now or later, and else why not."""
        active = self._rule(rule)
        return self._runner.trigger(active, _cause_of(active.spec, event))

    @action(idempotent=True)
    def enable(self, rule: str) -> None:
        """Take triggers again, also of a rule that was refused. A new process begins with all rules enabled."""
        self._runner.enable(self._rule(rule))

    @action(idempotent=True)
    def disable(self, rule: str) -> None:
        """Start no more runs of a rule. What runs goes on; what waits is skipped."""
        self._runner.disable(self._rule(rule))

    @subscribe(NOTIFICATIONS, priority=2, states=("primary",))
    def on_notification(self, thing: str, process: str, kind: str, name: str, data: Any, is_known: bool = True) -> None:
        """A thing has published an event, or a new value."""
        runner = self._runner
        if runner.open():
            runner.hear(thing, kind, name, data, is_known=is_known)

    @every(1.0)
    async def look_for_things(self) -> None:
        """Begin, and look for the things that the rules name, until they have been found."""
        component = self._component
        if component is not None and component.state is ModuleState.PRIMARY and self._runner.open():
            await self._runner.check()

    async def write_property(self, component: str, key: str | None, name: str, value: Any) -> None:
        """Write a property of a thing: `self.lamp.write(name, value)` does. Raises `NotFound`, `FailedPrecondition`."""
        if self._planned is not None:
            self._planned.append(PlannedStep(f"{component}.{name}", key, {"value": value}))
            return
        setter = await self._runner.setter_of(component, key, name)
        await AppObject.request(self, f"{component}.{setter}", {"value": value}, key=key)

    def cast(self, route: str, /, *, key: str | None = None, priority: int | None = None, **arguments: Any) -> None:
        """As `AppObject.cast`; a dry run only lists it."""
        if self._planned is not None:
            self._planned.append(PlannedStep(route, key, arguments))
            return
        super().cast(route, key=key, priority=priority, **arguments)

    def publish(self, topic: str, /, **body: Any) -> None:
        """As `AppObject.publish`; a dry run only lists it."""
        if self._planned is not None:
            self._planned.append(PlannedStep(topic, None, body))
            return
        super().publish(topic, **body)

    def _rule_specs(self) -> tuple[RuleSpec, ...]:
        return type(self).__rules__

    def _rules_refused(self) -> Mapping[str, str]:
        """Rules that cannot be understood, with the reason."""
        return {}

    @property
    def _runner(self) -> RuleRunner:
        if self._rule_runner is None:
            self._rule_runner = RuleRunner(self, self._rule_specs(), self._rules_refused())
        return self._rule_runner

    def _rule(self, name: str) -> ActiveRule:
        runner = self._runner
        if not runner.open():
            raise InvalidArgument("the journal cannot be used: see the log")
        if name not in runner.rules:
            raise NotFound(f"no rule {name!r}: one of {', '.join(runner.rules) or 'none'}")
        return runner.rules[name]

    async def _run(self, number: int) -> None:
        await self._runner.run(number)

    def _wake(self, name: str) -> None:
        self._runner.wake(name)

    def _tell_ran(self, rule: str, number: int, outcome: str, error: str, thing: str, key: str | None) -> None:
        self.ran.emit(RunNews(rule, number, outcome, error, thing, key))


def _attributes(cls: type) -> dict[str, Any]:
    """The attributes of a class and its bases, as they were written."""
    return {
        name: value for base in reversed(cls.__mro__) for name, value in vars(base).items() if base is not AppObject
    }


def _status(rule: ActiveRule) -> RuleStatus:
    state, is_ready = rule.state, not rule.refused and not rule.unchecked
    return RuleStatus(
        rule.spec.name, rule.spec.policy.mode, state.is_enabled, is_ready, rule.refused, state.running_count,
        state.queued_count, dict(rule.skipped),
    )  # fmt: skip


def _cause_of(spec: RuleSpec, given: GivenEvent | None) -> Cause:
    given = given or GivenEvent()
    trigger = spec.triggers[0]
    thing = given.thing or trigger.id
    name = given.name or trigger.name
    return Cause(
        thing, trigger.kind, name, given.data, given.previous, key_of(spec.policy.key, trigger.kind, given.data)
    )


def _as_step(step: PlannedStep) -> dict[str, Any]:
    if step.pause is not None:
        return {"pause": step.pause}
    return {"route": step.route, "key": step.key, "input": step.input}
