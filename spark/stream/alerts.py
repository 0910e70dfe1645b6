"""Alerts: rules over closed windows, from a TOML file; a condition that holds for n windows in a row calls a route, once.

A rule names an operation (`shop.buy`, or `shop.*` for all below) and a condition in a small language: comparisons of a figure
in the window's row with a number, joined by `and` and `or` (`and` binds closer). Nothing is ever evaluated as Python. An alert
is sent when it begins and when it is over. A window without a row, or whose row does not fulfil the condition, ends the
sequence. Late rows of closed windows are not judged. Decides only.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from appbackplane.transport.discovery import tables_of
from appbackplane.transport.errors import InvalidArgument

#: Figures that a condition may name.
FIGURES: Final = (
    "count", "errors", "rate",
    *(f"{which}_{what}_ms" for what in ("wait", "run") for which in ("p50", "p90", "p99", "max", "mean")),
)  # fmt: skip
#: Rules in a file, and watched keys (rule, component, operation): bounded, because a rule for `*` must not fill the memory.
RULES_MAX: Final = 100
WATCHED_MAX: Final = 10_000
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_TOKEN: Final = re.compile(rf"\s*(?:([a-z]\w*)|([<>]=?|[=!]=)|({_NUMBER.pattern}))")


class BadRules(InvalidArgument):
    """A file of rules that cannot be used: one line with place and reason."""


class Comparison(NamedTuple):
    """A comparison such as `p99_run_ms > 50`."""

    figure: str
    how: str
    number: float

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a window's row fulfils the comparison."""
        return _COMPARE[self.how](figure_of(row, self.figure), self.number)


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule as written in the file."""

    operation: str
    when: str
    route: str
    #: Number of consecutive windows for which the condition has to hold.
    windows: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(default=1, name="for")
    #: Key of the object to call.
    key: str | None = None
    #: Name of the alert; None: its condition.
    name: str | None = None

    def covers(self, name: str) -> bool:
        """Whether the rule applies to an operation."""
        return self.operation in ("*", name) or (self.operation.endswith(".*") and name.startswith(self.operation[:-1]))


class Call(msgspec.Struct, frozen=True):
    """A route to call with its arguments. `id` is assigned with the decision, and is the same for every attempt."""

    route: str
    key: str | None
    arguments: dict[str, Any]
    id: str = ""


class RuleWatch(msgspec.Struct, array_like=True):
    """One operation under one rule: consecutive windows, the end of the last one, and whether its alert was sent."""

    count: int
    until_ns: int
    is_told: bool


#: Identity of a rule (`words`), component, operation.
Watched = tuple[str, str, str]


class Alerts:
    """The rules, and the operations whose windows fulfil them at present."""

    def __init__(self, rules: Iterable[Rule], size_ns: int) -> None:
        self.rules = list(rules)
        self._size_ns = size_ns
        self._conditions = [parse(rule.when) for rule in self.rules]
        #: By the rule's `words`, component and operation, so that a changed file leaves unchanged rules alone.
        self.watched: dict[Watched, RuleWatch] = {}

    def after(self, closed: Iterable[Mapping[str, Any]], closed_until_ns: int) -> list[Call]:
        """Alerts to send after the given closed windows, in order, which include all that end by `closed_until_ns`."""
        calls: list[Call] = []
        for row in closed:
            for rule, condition in zip(self.rules, self._conditions, strict=True):
                if not row["late"] and rule.covers(row["operation"]):
                    calls += self._judge(rule, condition, row)
        for rule in self.rules:
            due = [
                key
                for key, watch in self.watched.items()
                if key[0] == words(rule) and watch.until_ns + self._size_ns <= closed_until_ns
            ]
            for key in due:
                calls += self._over(rule, key)
        return calls

    def restore(self, watched: Mapping[Watched, RuleWatch]) -> None:
        """Restore the state of an earlier process; rules that no longer exist are dropped."""
        known = {words(rule) for rule in self.rules}
        self.watched = {key: watch for key, watch in watched.items() if key[0] in known}

    def _judge(self, rule: Rule, condition: list[list[Comparison]], row: Mapping[str, Any]) -> list[Call]:
        key = (words(rule), row["component"], row["operation"])
        calls: list[Call] = []
        watch = self.watched.get(key)
        if watch is not None and watch.until_ns != row["window_ns"]:  # a window without a row was in between
            calls, watch = self._over(rule, key), None
        if not any(all(one.holds(row) for one in each) for each in condition):
            return calls + self._over(rule, key)
        if watch is None:
            if len(self.watched) >= WATCHED_MAX:
                return calls
            watch = self.watched[key] = RuleWatch(0, row["until_ns"], False)
        watch.count += 1
        watch.until_ns = row["until_ns"]
        if watch.count >= rule.windows and not watch.is_told:
            watch.is_told = True
            figures = {one.figure: figure_of(row, one.figure) for each in condition for one in each}
            calls.append(_call(rule, key, watch, figures))
        return calls

    def _over(self, rule: Rule, key: Watched) -> list[Call]:
        watch = self.watched.pop(key, None)
        return [] if watch is None or not watch.is_told else [_call(rule, key, watch, None)]


def figure_of(row: Mapping[str, Any], name: str) -> float:
    """Figure in a row, by a name of `FIGURES`: "p99_run_ms" is row["run_ms"]["p99"]."""
    which, _, what = name.partition("_")
    found: float = row[what][which] if what else row[name]
    return found


def words(rule: Rule) -> str:
    """Identity of a rule: all its fields as text."""
    return f"{rule.operation} {rule.when} {rule.windows} {rule.route} {rule.key} {rule.name}"


def _call(rule: Rule, key: Watched, watch: RuleWatch, figures: dict[str, float] | None) -> Call:
    arguments = {
        "alert": rule.name or f"{rule.operation}: {rule.when}",
        "component": key[1],
        "operation": key[2],
        "until_ns": watch.until_ns,
        "windows": watch.count,
        "is_over": figures is None,
        "figures": figures or {},
    }
    return Call(rule.route, rule.key, arguments)


def parse(condition: str) -> list[list[Comparison]]:
    """Parse to a disjunction of conjunctions. Raises `BadRules`."""
    tokens: list[str] = []
    at = 0
    while condition[at:].strip():
        found = _TOKEN.match(condition, at)
        if found is None:
            raise BadRules(f"{condition!r}: cannot read {condition[at:].strip()!r}")
        tokens.append(found.group().strip())
        at = found.end()
    either: list[list[Comparison]] = [[]]
    while True:
        either[-1].append(_comparison(condition, tokens[:3]))
        joint, tokens = tokens[3:4], tokens[4:]
        if not joint:
            return either
        if joint == ["or"]:
            either.append([])
        elif joint != ["and"]:
            raise BadRules(f"{condition!r}: expected 'and' or 'or' instead of {joint[0]!r}")


def _comparison(condition: str, tokens: list[str]) -> Comparison:
    if len(tokens) < 3 or tokens[1] not in _COMPARE or not _NUMBER.fullmatch(tokens[2]):
        raise BadRules(f"{condition!r}: expected a comparison like 'p99_run_ms > 50'")
    if tokens[0] not in FIGURES:
        raise BadRules(f"{condition!r}: no figure {tokens[0]!r}: one of {', '.join(FIGURES)}")
    return Comparison(tokens[0], tokens[1], float(tokens[2]))


def read_rules(text: str) -> list[Rule]:
    """The rules of a TOML file. Raises `BadRules`."""
    try:
        told = tables_of(text)
    except ValueError as error:
        raise BadRules(f"is not TOML: {error}") from error
    try:
        rules = msgspec.convert(told, _File).alert
    except msgspec.ValidationError as error:
        raise BadRules(str(error)) from error
    if len(rules) > RULES_MAX:
        raise BadRules(f"{len(rules)} rules: at most {RULES_MAX}")
    for number, rule in enumerate(rules):
        parse(rule.when)
        if words(rule) in map(words, rules[:number]):  # both would count each window in one `RuleWatch`
            raise BadRules(f"the rule {rule.name or rule.when!r} for {rule.operation!r} is there twice")
    return rules


class _File(msgspec.Struct, forbid_unknown_fields=True):
    alert: list[Rule] = []
