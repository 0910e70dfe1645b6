"""TomlRules: a rule as it stands in the TOML, made into the `RuleSpec` that `@when` makes of a method. Pure.

Each error is one sentence that begins with the rule, and says what was expected.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import InvalidArgument

from ...execution.workers.user_functions import pause
from ...objects.app_object import AppObject
from ...objects.operation import PRIORITY_DEFAULT
from .handles import BoundThing, thing, things
from .rule import (
    ACTION,
    PROPERTY_READ,
    PROPERTY_WRITTEN,
    SECONDS_MAX,
    Cause,
    ConditionNotMet,
    RuleSpec,
    RuleTarget,
    Trigger,
    policy_of,
)

_OPTIONS: Final = ("when", "if", "do", "mode", "debounce", "cooldown", "priority", "key", "run_as")
#: By `op`: whether a field of the event and the value compare so.
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda found, several: found in several,
}
#: Parts of an event that a path such as "data.level" begins with.
_ROOTS: Final = ("data", "previous", "thing", "name", "key")
#: Steps of one rule. Longer ones are programs, which Python says better.
STEPS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """`{ field = "data.level", op = ">", value = 80 }`"""

    path: tuple[str, ...]
    op: str
    value: Any

    def holds(self, cause: Cause) -> bool:
        """False, too, if the event has no such field, or one that does not compare with the value."""
        try:
            return bool(COMPARISONS[self.op](_value_at(self.path, cause), self.value))
        except (LookupError, TypeError):
            return False


@dataclass(frozen=True, slots=True)
class PropertyCondition:
    """`{ thing = "house/sensor", property = "lux", op = "<", value = 20 }`: it is read when the run begins."""

    component: str
    key: str | None
    name: str
    op: str
    value: Any

    async def expect(self, mashup: Any) -> None:
        """Read the property. Raises `ConditionNotMet`."""
        found = await BoundThing(mashup, self.component, self.key).read(self.name)
        try:
            does_hold = bool(COMPARISONS[self.op](found, self.value))
        except TypeError:
            does_hold = False
        if not does_hold:
            where = RuleTarget(self.component, self.key, PROPERTY_READ).thing
            raise ConditionNotMet(f"{self.name} of {where} is {found!r}, not {self.op} {self.value!r}")


@dataclass(frozen=True, slots=True)
class DoStep:
    """One step: an action with `input`, a property that is written (`input` is its value), or a pause.

    `seconds`: how long the pause is, or how long the action may take.
    """

    kind: str
    component: str = ""
    key: str | None = None
    name: str = ""
    input: Any = None
    seconds: float | None = None


def rule_of(name: str, table: Any) -> RuleSpec:
    """The rule. `table`: its settings. Raises ValueError."""
    where = f"rule {name}"
    _expect_table(where, table, _OPTIONS)
    if "when" not in table or "do" not in table:
        raise ValueError(f"{where}: expected `when` (what starts it) and `do` (its steps)")
    whens = table["when"] if isinstance(table["when"], list) else [table["when"]]
    dos = table["do"] if isinstance(table["do"], list) else [table["do"]]
    ifs = table.get("if", [])
    conditions = tuple(_condition(where, each) for each in (ifs if isinstance(ifs, list) else [ifs]))
    expected = tuple(each for each in conditions if isinstance(each, PropertyCondition))
    tests = tuple(each for each in conditions if isinstance(each, FieldCondition))
    triggers = tuple(_trigger(where, each) for each in whens)
    steps = tuple(_step(where, each) for each in dos)
    if not triggers or not steps or len(steps) > STEPS_MAX:
        raise ValueError(f"{where}: expected at least one trigger, and 1 to {STEPS_MAX} steps")
    run_as = table.get("run_as")
    if run_as is not None and (not isinstance(run_as, str) or not run_as):
        raise ValueError(f"{where}: run_as = {run_as!r}: expected the name of a principal")
    policy = policy_of(
        where, mode=table.get("mode", "single"), debounce=table.get("debounce", 0), cooldown=table.get("cooldown", 0),
        priority=table.get("priority", PRIORITY_DEFAULT), key=table.get("key", "id"),
    )  # fmt: skip

    async def body(mashup: Any, cause: Cause) -> None:
        for each in expected:
            await each.expect(mashup)
        for step in steps:
            await _do(step, mashup, cause)

    def condition(cause: Cause) -> bool:
        return all(each.holds(cause) for each in tests)

    read = tuple(RuleTarget(each.component, each.key, PROPERTY_READ, each.name) for each in expected)
    targets = read + tuple(
        RuleTarget(
            step.component, step.key, step.kind, step.name, frozenset(step.input) if step.kind == ACTION else None
        )
        for step in steps
        if step.component
    )
    return RuleSpec(name, triggers, body, policy, condition if tests else None, run_as, targets)


async def _do(step: DoStep, mashup: Any, cause: Cause) -> None:
    if step.kind == "pause":
        await pause(step.seconds or 0)
    elif step.kind == PROPERTY_WRITTEN:
        await mashup.write_property(step.component, step.key, step.name, filled(step.input, cause))
    else:
        route = f"{step.component}.{step.name}"
        await AppObject.request(mashup, route, filled(step.input, cause), key=step.key, timeout=step.seconds)


def filled(given: Any, cause: Cause) -> Any:
    """The input of a step: texts such as "$data.level" stand for a part of the event; "$$" begins a text with one "$".

    Raises `InvalidArgument` if the event has no such part.
    """
    if isinstance(given, str) and given.startswith("$"):
        if given.startswith("$$"):
            return given[1:]
        try:
            return _value_at(tuple(given[1:].split(".")), cause)
        except (LookupError, TypeError):
            raise InvalidArgument(
                f"input {given!r}: the event {cause.name} of {cause.thing} has no such part"
            ) from None
    if isinstance(given, Mapping):
        return {name: filled(value, cause) for name, value in given.items()}
    if isinstance(given, list):
        return [filled(value, cause) for value in given]
    return given


def _value_at(path: tuple[str, ...], cause: Cause) -> Any:
    value = getattr(cause, path[0])
    for name in path[1:]:
        value = value[int(name)] if isinstance(value, list) and name.isdecimal() else value[name]
    return value


def _trigger(where: str, table: Any) -> Trigger:
    where = f"{where}: when"
    _expect_table(where, table, ("thing", "things", "event", "property"))
    if ("thing" in table) == ("things" in table) or ("event" in table) == ("property" in table):
        raise ValueError(
            f'{where} = {dict(table)!r}: expected one thing and one event or property: {{ thing = "house/hall", event ='
            ' "burnt_out" }; `things` is a pattern of ids'
        )
    for option, value in table.items():
        _expect_text(f"{where}: {option}", value)
    source = things(table["things"]) if "things" in table else thing(*_component_and_key(where, table["thing"]))
    return source.event(table["event"]) if "event" in table else source.change(table["property"])


def _step(where: str, table: Any) -> DoStep:
    where = f"{where}: do"
    _expect_table(where, table, ("thing", "action", "input", "timeout", "write", "value", "pause"))
    if set(table) == {"pause"}:
        return DoStep("pause", seconds=_seconds(f"{where}: pause", table["pause"]))
    is_action = set(table) - {"input", "timeout"} == {"thing", "action"}
    if not is_action and set(table) != {"thing", "write", "value"}:
        raise ValueError(
            f'{where} = {dict(table)!r}: expected {{ thing = "house/hall", action = "fade", input = {{ to = 80 }} }}, or'
            ' { thing = "house/hall", write = "brightness", value = 80 }, or { pause = 2 }'
        )
    component, key = _component_and_key(where, table["thing"])
    if not is_action:
        _expect_text(f"{where}: write", table["write"])
        _check_paths(where, table["value"])
        return DoStep(PROPERTY_WRITTEN, component, key, table["write"], table["value"])
    _expect_text(f"{where}: action", table["action"])
    given = table.get("input", {})
    if not isinstance(given, Mapping):
        raise ValueError(f"{where}: input = {given!r}: expected a table of the action's parameters")
    _check_paths(where, given)
    timeout = _seconds(f"{where}: timeout", table["timeout"]) if "timeout" in table else None
    return DoStep(ACTION, component, key, table["action"], given, timeout)


def _seconds(where: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= SECONDS_MAX:
        raise ValueError(f"{where} = {given!r}: expected seconds, 0 to {SECONDS_MAX:,.0f}")
    return given


def _condition(where: str, table: Any) -> FieldCondition | PropertyCondition:
    where = f"{where}: if"
    _expect_table(where, table, ("field", "thing", "property", "op", "value"))
    is_field = set(table) == {"field", "op", "value"}
    if not is_field and set(table) != {"thing", "property", "op", "value"}:
        raise ValueError(
            f'{where} = {dict(table)!r}: expected {{ field = "data.level", op = ">", value = 80 }}, or {{ thing ='
            ' "house/sensor", property = "lux", op = "<", value = 20 }'
        )
    if table["op"] not in COMPARISONS:
        raise ValueError(f"{where}: op = {table['op']!r}: expected one of {', '.join(COMPARISONS)}")
    if not is_field:
        _expect_text(f"{where}: property", table["property"])
        component, key = _component_and_key(where, table["thing"])
        return PropertyCondition(component, key, table["property"], table["op"], table["value"])
    _expect_text(f"{where}: field", table["field"])
    path = tuple(table["field"].split("."))
    _expect_root(where, path[0])
    return FieldCondition(path, table["op"], table["value"])


def _check_paths(where: str, given: Any) -> None:
    if isinstance(given, Mapping | list):
        for each in given.values() if isinstance(given, Mapping) else given:
            _check_paths(where, each)
    elif isinstance(given, str) and given.startswith("$") and not given.startswith("$$"):
        _expect_root(where, given[1:].partition(".")[0])


def _expect_root(where: str, root: str) -> None:
    if root not in _ROOTS:
        raise ValueError(f"{where}: {root!r} is no part of an event: one of {', '.join(_ROOTS)}")


def _component_and_key(where: str, name: Any) -> tuple[str, str | None]:
    _expect_text(f"{where}: thing", name)
    component, slash, key = name.partition("/")
    if not component or (slash and not key):
        raise ValueError(f'{where}: thing = {name!r}: expected COMPONENT/KEY, as in "house/hall", or COMPONENT')
    return component, key if slash else None


def _expect_table(where: str, table: Any, options: tuple[str, ...]) -> None:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} = {table!r}: expected a table with {', '.join(options)}")
    for option in table:
        if option not in options:
            close = nearest(option, list(options))
            raise ValueError(
                f"{where}: no option {option!r}"
                + (f" (did you mean {close!r}?)" if close else f": one of {', '.join(options)}")
            )


def _expect_text(where: str, given: Any) -> None:
    if not isinstance(given, str) or not given:
        raise ValueError(f"{where} = {given!r}: expected text")
