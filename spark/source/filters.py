"""Filters: what Spark wants left out, as a mask over `Actions`. What is taken over here, Spark does not look at again.

So only what is judged exactly is taken: comparisons of numbers and names in columns that are never NULL. A filter by time
or by backplane also rules out whole files. Everything else stays with Spark, which then filters what it gets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from ..records.batch import COLUMN_OF, Actions
from ..records.segment_file import Keep
from .rows import COLUMNS

#: Of numbers: what compares a column with the value.
_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], Any]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
#: Of words.
_OF_WORDS: Final[dict[type[Filter], Callable[[str, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    In: lambda word, values: word in values,
    StringStartsWith: lambda word, value: word.startswith(value),
    StringEndsWith: lambda word, value: word.endswith(value),
    StringContains: lambda word, value: value in word,
}
#: What may be NULL, where a comparison is neither true nor false.
_MAY_BE_NULL: Final = frozenset({COLUMN_OF["margin"]})

Mask = Callable[[Actions], np.ndarray]


class Filters(NamedTuple):
    """What a reader leaves out."""

    #: Applied to each record.
    tests: tuple[tuple[tuple[str, ...], Mask], ...] = ()
    #: What rules out files.
    since_ns: int | None = None
    until_ns: int | None = None
    backplanes: frozenset[str] | None = None

    @property
    def keep(self) -> Keep | None:
        """As `read` wants it."""
        if not self.tests:
            return None
        needs: Sequence[str] = tuple(dict.fromkeys(name for fields, _ in self.tests for name in fields)) or ("start",)
        tests = [mask for _, mask in self.tests]
        return needs, lambda actions: np.logical_and.reduce([mask(actions) for mask in tests])

    def narrowed(self, by: Filter) -> Filters | None:
        """With one filter more; None: it is not taken."""
        test = test_of(by)
        if test is None:
            return None
        since, until, backplanes = self.since_ns, self.until_ns, self.backplanes
        if not isinstance(by, Not | IsNotNull):
            name, value = by.attribute[0], by.value  # type: ignore[attr-defined]
            if name == COLUMN_OF["start"]:
                if isinstance(by, GreaterThan | GreaterThanOrEqual | EqualTo | EqualNullSafe):
                    since = value if since is None else max(since, value)
                if isinstance(by, LessThan | LessThanOrEqual | EqualTo | EqualNullSafe):
                    until = value + 1 if until is None else min(until, value + 1)
            elif name == "backplane" and isinstance(by, EqualTo | EqualNullSafe | In):
                named = frozenset(value if isinstance(by, In) else [value])
                backplanes = named if backplanes is None else backplanes & named
        return Filters((*self.tests, test), since, until, backplanes)


def test_of(by: Filter) -> tuple[tuple[str, ...], Mask] | None:
    """(the fields it needs, the mask) of a filter that can be judged exactly; None otherwise."""
    if isinstance(by, Not):
        inner = test_of(by.child)
        if inner is None:
            return None
        mask_of = inner[1]
        return inner[0], lambda actions: ~mask_of(actions)
    path: tuple[str, ...] = getattr(by, "attribute", ())
    if len(path) != 1 or path[0] not in COLUMNS or path[0] in _MAY_BE_NULL:
        return None
    name = path[0]
    if isinstance(by, IsNotNull):
        return (), lambda actions: np.ones(len(actions), dtype=bool)
    value = getattr(by, "value", None)
    if COLUMNS[name].type == "string":
        return _test_of_word(name, by, value)
    return _test_of_number(name, by, value)


def _test_of_number(name: str, by: Filter, value: Any) -> tuple[tuple[str, ...], Mask] | None:
    kind = bool if COLUMNS[name].type == "boolean" else int
    values = value if isinstance(by, In) else [value]
    if any(type(each) is not kind for each in values):
        return None
    if isinstance(by, In):
        judge: Callable[[Any], Any] = lambda column: np.isin(column, list(values))  # noqa: E731
    elif type(by) in _COMPARISONS:
        compare = _COMPARISONS[type(by)]
        judge = lambda column: compare(column, value)  # noqa: E731
    else:
        return None
    fields = COLUMNS[name].fields
    if fields:
        return fields, lambda actions: judge(actions[fields[0]])
    return (), lambda actions: np.full(len(actions), bool(judge(np.int64(_constant(actions, name)))))


def _test_of_word(name: str, by: Filter, value: Any) -> tuple[tuple[str, ...], Mask] | None:
    values = value if isinstance(by, In) else [value]
    if type(by) not in _OF_WORDS or any(not isinstance(each, str) for each in values):
        return None
    judge = _OF_WORDS[type(by)]
    fields = COLUMNS[name].fields
    if not fields:
        return (), lambda actions: np.full(len(actions), judge(_constant(actions, name), value))
    if name == "component":
        return fields, lambda actions: _table(actions.component_names(), judge, value)[actions.components()]
    return fields, lambda actions: _table([word for _, word in actions.names], judge, value)[actions[name]]


def _table(words: Sequence[str], judge: Callable[[str, Any], bool], value: Any) -> np.ndarray:
    return np.array([judge(word, value) for word in words], dtype=bool)


def _constant(actions: Actions, name: str) -> Any:
    assert actions.header is not None, "records of more than one backplane were not taken apart"
    return actions.header.number if name == "segment" else getattr(actions.header, name)
