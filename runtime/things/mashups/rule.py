"""Rule: what starts it, whether a second trigger starts it again, and the code that it runs. Pure.

Rules in Python (`@when`, mashup.py) and rules in TOML (toml_rules.py) are both `RuleSpec`s; nothing else distinguishes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from ...objects.operation import PRIORITY_DEFAULT

EVENT: Final = "event"
PROPERTY: Final = "property"
#: Kinds of targets beside those: a property that is read or written, an action, the thing itself.
PROPERTY_READ: Final = "read"
PROPERTY_WRITTEN: Final = "write"
ACTION: Final = "action"
THING: Final = "thing"

#: What a trigger of a rule that is running does: docs/concepts/mashups.md, "Modes".
MODES: Final = ("single", "queued", "restart", "parallel")
#: A day: longer debounces and cooldowns would be schedules, and a restart of the process forgets them.
SECONDS_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Trigger:
    """An event of a thing, or a change of an observable property. `id`: of the thing, or a pattern with `*`.

    `component`, `key`: of that thing; no component: it is a pattern, which may fit any number of things.
    """

    id: str
    kind: str
    name: str
    component: str | None = None
    key: str | None = None

    def fits(self, thing: str, kind: str, name: str) -> bool:
        """Whether a notification starts the rule."""
        return (self.kind, self.name) == (kind, name) and fnmatchcase(thing, self.id)


@dataclass(frozen=True, slots=True)
class Cause:
    """The event, or the change of a property, that starts a rule. A rule's method gets one.

    `data`: of the event, or the new value; `previous`: the value before. `key`: names this event among all of its thing; None:
    it has no key. `hops`: how many runs of rules led to it.
    """

    thing: str
    kind: str
    name: str
    data: Any = None
    previous: Any = None
    key: str | None = None
    hops: int = 0


class ConditionNotMet(Exception):
    """A condition that was looked at in the run does not hold: the run ends, and counts as skipped."""


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """When a trigger starts a run. Times in ns."""

    mode: str = "single"
    debounce_ns: int = 0
    cooldown_ns: int = 0
    priority: int = PRIORITY_DEFAULT
    #: Field of an event's data that is the key of the event.
    key: str = "id"


@dataclass(frozen=True, slots=True)
class RuleTarget:
    """A part of a thing that a rule names. `kind`: one of the constants above; a "property" is observed.

    `input`: names of the action's arguments that the rule gives; None: unknown.
    """

    component: str
    key: str | None
    kind: str
    name: str = ""
    input: frozenset[str] | None = None

    @property
    def thing(self) -> str:
        """For people: COMPONENT/KEY."""
        return self.component if self.key is None else f"{self.component}/{self.key}"


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """One rule. `body(mashup, cause)` is its work. `targets`: what it names, beside its triggers."""

    name: str
    triggers: tuple[Trigger, ...]
    body: Callable[[Any, Cause], Coroutine[Any, Any, Any]]
    policy: RulePolicy = RulePolicy()
    condition: Callable[[Cause], Any] | None = None
    run_as: str | None = None
    targets: tuple[RuleTarget, ...] = ()

    def all_targets(self) -> tuple[RuleTarget, ...]:
        """Each part of a thing that must exist."""
        named = (RuleTarget(each.component, each.key, each.kind, each.name) for each in self.triggers if each.component)
        return (*named, *self.targets)


def policy_of(
    where: str, *, mode: Any, debounce: Any, cooldown: Any, priority: Any, key: Any
) -> RulePolicy:  # what users wrote
    """The policy, with times in seconds. Raises ValueError, which begins with `where`."""
    if mode not in MODES:
        raise ValueError(f"{where}: mode = {mode!r}: expected one of {', '.join(MODES)}")
    for name, seconds in (("debounce", debounce), ("cooldown", cooldown)):
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
        if not is_number or not 0 <= seconds <= SECONDS_MAX:
            raise ValueError(f"{where}: {name} = {seconds!r}: expected seconds, 0 to {SECONDS_MAX:,.0f}")
    if type(priority) is not int or priority < 0:
        raise ValueError(f"{where}: priority = {priority!r}: expected a whole number; 0 is the highest")
    if not isinstance(key, str) or not key:
        raise ValueError(f"{where}: key = {key!r}: expected the name of a field of the event's data")
    return RulePolicy(mode, round(debounce * 1e9), round(cooldown * 1e9), priority, key)


def key_of(field: str, kind: str, data: Any) -> str | None:
    """The key of an event: the field of its data, if that is text or a whole number."""
    if kind != EVENT or not isinstance(data, Mapping):
        return None
    found = data.get(field)
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return str(found)
