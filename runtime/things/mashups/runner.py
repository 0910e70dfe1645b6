"""RuleRunner: carries out what the rules of one mashup decide: runs, timers, the journal, and the check of what they name.

Used by the actions of one mashup, of which one runs at a time. No rule starts before its start is in the journal.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from appbackplane.transport.addressing import state_home
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    Cancelled,
    FailedPrecondition,
    NotFound,
    PermissionDenied,
)

from ...execution.workers.user_functions import current
from ...objects.action import Action
from ...objects.app_object import AppObject
from ...objects.interleaved import LEVELS
from ...objects.platform import TimerHandle
from .checks import problem_of
from .deciding import DONE_ALREADY, HOP_LIMIT, QueueRun, RuleEffect, RuleState, SkipTrigger, StartRun, StopRun, WakeAt
from .driving import Watched
from .hops import hops_of, trace_after
from .journal import Journal, JournalError
from .rule import PROPERTY, PROPERTY_WRITTEN, THING, Cause, ConditionNotMet, RuleSpec, RuleTarget, key_of
from .run_log import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    REFUSED,
    SKIPPED,
    STOPPED,
    RunBegun,
    RunEnded,
    RunLine,
    RunLog,
    RunRecord,
    RunStep,
    RunTaken,
    TriggerSkipped,
)

if TYPE_CHECKING:
    from .mashup import Mashup

#: Values of properties that are kept for their changes, by thing and name: some 300 bytes each.
VALUES_MAX: Final = 100_000
#: Seconds that a thing has to answer what a mashup must know before it runs. One that is down is asked again at the next tick.
ASK_S: Final = 5.0
#: Digits of a trace that are random.
_RANDOM_BYTES: Final = 19
log = logging.getLogger(__name__)


@dataclass(slots=True)
class ActiveRule:
    """A rule with its state. `refused`: why it never runs. `skipped`: triggers that started nothing, by reason."""

    spec: RuleSpec
    state: RuleState
    refused: str = ""
    unchecked: list[RuleTarget] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    timer: TimerHandle | None = None


@dataclass(slots=True)
class Run:
    """A run that has not ended. `action`: which runs it, once it has begun."""

    number: int
    rule: ActiveRule
    cause: Cause
    trace: str | None
    action: Action | None = None
    is_stopped: bool = False


class RuleRunner:
    """The rules and runs of one mashup."""

    def __init__(self, mashup: Mashup, specs: Sequence[RuleSpec], refused: Mapping[str, str]) -> None:
        """`refused`: rules that cannot be understood, with the reason."""
        self._mashup = mashup
        self.log = RunLog()
        self._journal: Journal | None = None
        self._is_open = False
        #: The last reason why the journal is closed, which is logged once.
        self._closed_because = ""
        self._refused = dict(refused)
        self.rules = {spec.name: self._active(spec) for spec in specs}
        #: By kind and name of their triggers.
        self._listening: dict[tuple[str, str], list[ActiveRule]] = {}
        for rule in self.rules.values():
            for kind, name in {(each.kind, each.name) for each in rule.spec.triggers}:
                self._listening.setdefault((kind, name), []).append(rule)
        self._runs: dict[int, Run] = {}
        self._values: dict[tuple[str, str], Any] = {}
        self._setters: dict[tuple[str, str | None], Mapping[str, str]] = {}
        #: The semantic types of the things that rules name, by id.
        self._types: dict[str, tuple[str, ...]] = {}
        self._number = 0
        self._has_told_of_strangers = False

    def _active(self, spec: RuleSpec) -> ActiveRule:
        state = RuleState(spec.policy, lambda cause: self.log.is_taken(spec.name, cause))
        return ActiveRule(spec, state, unchecked=[*spec.all_targets()])

    # Its begin

    def open(self) -> bool:
        """Read the journal, once, and go on where the last process ended. False: another process has it, or the disk fails."""
        if self._is_open:
            return True
        try:
            self._journal = self._open_journal()
            for record in self._journal.read() if self._journal is not None else ():
                self.log.apply(record)
        except (JournalError, OSError) as error:
            if str(error) != self._closed_because:
                self._closed_because = str(error)
                log.error("%s: no rule runs, because the journal cannot be used: %s", self._mashup.name, error)
            self.close()
            return False
        self._is_open = True
        self._number = self.log.last
        for name, reason in self._refused.items():
            self._log_refusal(name, reason)
        for rule in self.rules.values():
            self._check_priority(rule)
        self._recover()
        return True

    def _check_priority(self, rule: ActiveRule) -> None:
        priority, priorities = rule.spec.policy.priority, len(self._mashup._tails or ()) // LEVELS
        if priority >= priorities:
            self._refuse(rule, f"priority = {priority}: this backplane has 0 to {priorities - 1}")

    def close(self) -> None:
        """Let go of the journal, as the end of the process does."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _open_journal(self) -> Journal | None:
        mashup, host = self._mashup, self._mashup._host
        folder = mashup.journal_folder
        if folder is None:
            run_dir = Path(host.platform.run_dir)
            if not run_dir.is_dir():  # a virtual backplane
                return None
            folder = str(state_home() / "appbackplane" / run_dir.name / "mashups")
        name = mashup.name.replace("/", ".", 1)  # BACKPLANE/COMPONENT.KEY
        return Journal(Path(folder) / f"{quote(name, safe='')}.journal")

    def _recover(self) -> None:
        """End the runs that an earlier process began, and start those that it did not begin."""
        for line in [*self.log.open.values()]:
            rule = self.rules.get(line.rule)
            assert line.cause is not None
            if line.started is not None:
                last = f", before it or during it: {line.steps[-1]}" if line.steps else ", before its first step"
                reason = f"its process ended during the run{last}. It is not run again."
                log.warning("%s: run %d of rule %s: %s", self._mashup.name, line.number, line.rule, reason)
                self._record(RunEnded(line.number, INTERRUPTED, reason, self._unix_s()))
            elif rule is None or rule.refused:
                self._record(RunEnded(line.number, SKIPPED, "the mashup has no such rule any more", self._unix_s()))
            else:
                self._runs[line.number] = Run(line.number, rule, line.cause, None)
                self._carry_out(rule, rule.state.recover(line.number, line.cause))

    async def check(self) -> None:
        """Look for what the rules name. A thing that is down is looked for again, at the next call."""
        models: dict[tuple[str, str | None, str | None], Mapping[str, Any]] = {}
        for rule in self.rules.values():
            while rule.unchecked and not rule.refused:
                target, run_as = rule.unchecked[0], rule.spec.run_as
                place = (target.component, target.key, run_as)
                try:
                    if place not in models:
                        models[place] = await self._ask(f"{target.component}.describe", target.key, run_as)
                    problem = problem_of(target, models[place])
                    if problem is None:
                        await self._prepare(target, models[place], run_as)
                except (NotFound, PermissionDenied) as error:
                    problem = f"there is no thing {target.thing}: {error.message}"
                except BackplaneError:  # it is down, or starts
                    break
                rule.unchecked.pop(0)
                if problem:
                    self._refuse(rule, problem)

    async def _prepare(self, target: RuleTarget, model: Mapping[str, Any], run_as: str | None) -> None:
        """Ask for what the first run needs: the value before the first change, and the operations that write."""
        self._types[model["id"]] = tuple(each for each in model["@type"] if each != "tm:ThingModel")
        known = (model["id"], target.name)
        if target.kind == PROPERTY and known not in self._values:
            value = await self._ask(f"{target.component}.{target.name}", target.key, run_as)
            self._values.setdefault(known, value)
        elif target.kind in (PROPERTY_WRITTEN, THING):
            await self._setters_of(target.component, target.key, run_as)

    def _ask(self, route: str, key: str | None, run_as: str | None) -> Awaitable[Any]:
        return AppObject.request(self._mashup, route, {}, key=key, timeout=ASK_S, principal=run_as)

    def _refuse(self, rule: ActiveRule, reason: str) -> None:
        rule.refused = reason
        self._log_refusal(rule.spec.name, reason)
        self._carry_out(rule, rule.state.disable())

    def _log_refusal(self, name: str, reason: str) -> None:
        log.warning("%s: rule %s is not run: %s", self._mashup.name, name, reason)
        now_s = self._unix_s()
        self.log.add(RunLine(self._next(), name, None, REFUSED, now_s, ended=now_s, error=reason))

    # Triggers

    def hear(self, thing: str, kind: str, name: str, data: Any, *, is_known: bool) -> None:
        """A notification of a thing."""
        named = self._listening.get((kind, name), ())
        rules = [
            rule
            for rule in named
            if any(each.fits(thing, kind, name) for each in rule.spec.triggers) and self._may_observe(rule, thing, name)
        ]
        if not rules:
            return
        source = current().source
        if source.startswith("client:"):
            if not self._has_told_of_strangers:
                self._has_told_of_strangers = True
                log.warning(
                    "%s: a notification of %s starts no rule: things alone publish them", self._mashup.name, source
                )
            return
        previous = None
        if kind == PROPERTY:
            seen = self._values.pop((thing, name), _UNKNOWN)
            if is_known:
                if len(self._values) >= VALUES_MAX:
                    del self._values[next(iter(self._values))]
                self._values[thing, name] = data
            if not is_known or seen is _UNKNOWN or seen == data:
                return
            previous = seen
        trace = current().trace
        for rule in rules:
            key = key_of(rule.spec.policy.key, kind, data)
            # A rule may change what it gets: others, and the value that the next change is compared with, must not.
            self.trigger(rule, Cause(thing, kind, name, deepcopy(data), deepcopy(previous), key, hops_of(trace)))

    def _may_observe(self, rule: ActiveRule, thing: str, name: str) -> bool:
        """Whether the principal of a rule has the permission to hear of this. Types are known of things that a rule names."""
        types = self._types.get(thing, ())
        return self._mashup._platform.permits(rule.spec.run_as, thing, types, "observe", name)

    def trigger(self, rule: ActiveRule, cause: Cause) -> str:
        """Start a rule, if its condition holds and its state permits. Returns why not; "": it starts, now or later."""
        if rule.refused:
            return rule.refused
        if not holds(rule.spec, cause):
            return "its condition does not hold"
        number = self._next()
        self._runs[number] = Run(number, rule, cause, current().trace)
        effects = rule.state.trigger(number, cause, self._mashup._host.now_ns())
        self._carry_out(rule, effects)
        last = effects[-1]
        return last.reason if isinstance(last, SkipTrigger) else ""

    def wake(self, name: str) -> None:
        """The debounce of a rule is over."""
        rule = self.rules[name]
        self._carry_out(rule, rule.state.wake(self._mashup._host.now_ns()))

    def enable(self, rule: ActiveRule) -> None:
        """Take triggers again. What a refused rule names is looked for again."""
        rule.state.is_enabled = True
        if rule.refused:
            rule.refused, rule.unchecked = "", [*rule.spec.all_targets()]
            self._check_priority(rule)

    def disable(self, rule: ActiveRule) -> None:
        """Start no more runs."""
        self._carry_out(rule, rule.state.disable())

    def _carry_out(self, rule: ActiveRule, effects: Sequence[RuleEffect]) -> None:
        for effect in effects:
            match effect:
                case StartRun(number, cause, is_new):
                    if not is_new or self._note_taken(rule, number, cause):
                        self._post(rule, number)
                case QueueRun(number, cause):
                    self._note_taken(rule, number, cause)
                case StopRun(number):
                    self._stop(number)
                case WakeAt(at_ns):
                    if rule.timer is not None:
                        rule.timer.cancel()
                    host = self._mashup._host
                    rule.timer = host.after(
                        self._mashup,
                        at_ns - host.now_ns(),
                        self._mashup._wake,
                        (rule.spec.name,),
                        rule.spec.policy.priority,
                    )
                case SkipTrigger(number, cause, reason):
                    self._skip(rule, number, cause, reason)

    def _note_taken(self, rule: ActiveRule, number: int, cause: Cause) -> bool:
        """Write down that the rule starts. False: it could not be written, so it does not."""
        if self._record(RunTaken(number, rule.spec.name, cause, self._unix_s())):
            return True
        del self._runs[number]
        line = RunLine(number, rule.spec.name, cause, SKIPPED, self._unix_s(), error="the journal could not be written")
        line.ended = line.taken
        self.log.add(line)
        self._carry_out(rule, rule.state.ended(number))
        return False

    def _skip(self, rule: ActiveRule, number: int, cause: Cause, reason: str) -> None:
        rule.skipped[reason] = rule.skipped.get(reason, 0) + 1
        self._runs.pop(number, None)
        if reason == HOP_LIMIT:
            where = f"{self._mashup.name}: rule {rule.spec.name}"
            log.warning("%s is not run for %s of %s: %s", where, cause.name, cause.thing, reason)
        if number in self.log.open:
            self._record(RunEnded(number, SKIPPED, reason, self._unix_s()))
        elif reason == HOP_LIMIT or (cause.key is not None and reason != DONE_ALREADY):  # that one has its line already
            self._record(TriggerSkipped(number, rule.spec.name, cause, reason, self._unix_s()))

    # Runs

    def _post(self, rule: ActiveRule, number: int) -> None:
        try:
            self._mashup._host.after(self._mashup, 0, self._mashup._run, (number,), rule.spec.policy.priority)
        except Busy as error:
            self._end(self._runs[number], FAILED, error.message)

    def _stop(self, number: int) -> None:
        run = self._runs.get(number)
        if run is not None:
            run.is_stopped = True
            if run.action is not None:
                self._mashup._platform.interrupt(run.action)

    async def run(self, number: int) -> None:
        """Run a rule, as an action of its own, whose calls bear the rule's principal and the number of hops."""
        run = self._runs[number]
        if run.is_stopped:
            self._end(run, STOPPED, "before it began")
            return
        run.action = action = current()
        spec = run.rule.spec
        action.principal = spec.run_as
        action.trace = trace_after(run.cause.hops + 1, run.trace, secrets.token_hex(_RANDOM_BYTES))
        outcome, error = FAILED, ""
        try:
            if self._record(RunBegun(number, self._unix_s())):
                await Watched(spec.body(self._mashup, run.cause), lambda step: self._note_step(number, step))
                outcome = COMPLETED
            else:
                error = "the journal could not be written"
        except Cancelled as cancelled:
            outcome, error = (
                (STOPPED, "a later trigger restarted it") if run.is_stopped else (FAILED, cancelled.message)
            )
        except ConditionNotMet as unmet:
            outcome, error = SKIPPED, str(unmet)
        except BackplaneError as failed:
            error = f"{type(failed).__name__}: {failed.message}"
            log.warning("%s: run %d of rule %s failed: %s", self._mashup.name, number, spec.name, error)
        except JournalError as failed:
            error = f"the journal could not be written: {failed}"
        except Exception as failed:  # the edge: users' code
            error = f"{type(failed).__name__}: {failed}"
            log.exception("%s: run %d of rule %s failed", self._mashup.name, number, spec.name)
        self._end(run, outcome, error)

    def _end(self, run: Run, outcome: str, error: str) -> None:
        run.action = None
        del self._runs[run.number]
        self._record(RunEnded(run.number, outcome, error, self._unix_s()))
        self._carry_out(run.rule, run.rule.state.ended(run.number))
        cause = run.cause
        self._mashup._tell_ran(run.rule.spec.name, run.number, outcome, error, cause.thing, cause.key)

    def _note_step(self, number: int, step: str) -> None:
        if not self._record(RunStep(number, step)):
            raise JournalError(self._closed_because)

    # Things

    async def setter_of(self, component: str, key: str | None, name: str) -> str:
        """The operation that writes a property. Raises `NotFound`, and `FailedPrecondition` for one that is read only."""
        setters = await self._setters_of(component, key, None)
        if name not in setters:
            where = RuleTarget(component, key, THING).thing
            raise FailedPrecondition(f"{where} has no property {name!r} that can be written")
        return setters[name]

    async def _setters_of(self, component: str, key: str | None, run_as: str | None) -> Mapping[str, str]:
        if (component, key) not in self._setters:
            self._setters[component, key] = await self._ask(f"{component}.setters", key, run_as)
        return self._setters[component, key]

    # Records

    def _record(self, record: RunRecord) -> bool:
        """Write a record, then apply it. False: it could not be written. The end of a run is applied all the same."""
        is_written = self._journal is None or self._writes(self._journal, record)
        if is_written or isinstance(record, RunEnded):
            self.log.apply(record)
        return is_written

    def _writes(self, journal: Journal, record: RunRecord) -> bool:
        try:
            if journal.is_large:
                journal.rewrite(self.log.records())
            journal.append(record)
        except JournalError as error:
            if str(error) != self._closed_because:
                self._closed_because = str(error)
                log.error("%s: the journal cannot be written, so no rule runs: %s", self._mashup.name, error)
            return False
        return True

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _unix_s(self) -> float:
        return self._mashup._platform.unix_ns() / 1e9


def holds(spec: RuleSpec, cause: Cause) -> bool:
    """Whether the condition of a rule holds. One that raises does not, and the reason is logged."""
    if spec.condition is None:
        return True
    try:
        return bool(spec.condition(cause))
    except Exception:  # the edge: users' code
        log.exception("the condition of rule %s failed", spec.name)
        return False


_UNKNOWN: Final = object()
