"""Attribute search: things by text, type, place and state, such as the rooms near the hall that are warm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from appbackplane.transport.errors import InvalidArgument

from ..description import PLACE

#: Longest argument, characters, and most conditions of one search: each is looked at for each thing.
CHARACTERS_MAX: Final = 256
CONDITIONS_MAX: Final = 8

_CONDITION: Final = re.compile(r"\s*([^\s<>=!]+)\s*(<=|>=|!=|==|=|<|>)\s*(.+?)\s*")
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": lambda value, limit: bool(value < limit),
    "<=": lambda value, limit: bool(value <= limit),
    ">": lambda value, limit: bool(value > limit),
    ">=": lambda value, limit: bool(value >= limit),
    "=": lambda value, limit: bool(value == limit),
    "==": lambda value, limit: bool(value == limit),
    "!=": lambda value, limit: bool(value != limit),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a property's value: "temperature>21", "is_on=true", "mode=eco"."""

    name: str
    operator: str
    limit: float | bool | str

    def holds(self, value: Any) -> bool:
        """False for a value of another type than the limit's, whatever the operator."""
        if isinstance(self.limit, float):
            is_comparable = isinstance(value, int | float) and not isinstance(value, bool)
        else:
            is_comparable = type(value) is type(self.limit)
        return is_comparable and _COMPARE[self.operator](value, self.limit)


@dataclass(frozen=True, slots=True)
class Search:
    """What a thing must match: every word, the type, the place, and every condition. Empty ones match each thing."""

    words: tuple[str, ...] = ()
    type: str = ""
    place: str = ""
    conditions: tuple[Condition, ...] = ()

    def matches(self, description: Mapping[str, Any], value_of: Callable[[str], Any]) -> bool:
        """`value_of(name)`: the last known value of a property; None if there is none."""
        if self.type and self.type not in _list(description.get("@type", [])):
            return False
        if self.place and self.place not in place_of(description).casefold():
            return False
        if self.words:
            text = "\n".join(_texts(description)).casefold()
            if not all(word in text for word in self.words):
                return False
        # A property that this description hides must not be found out by its value.
        properties = description.get("properties", {})
        return all(
            each.name in properties and not properties[each.name].get("writeOnly") and each.holds(value_of(each.name))
            for each in self.conditions
        )


def search_of(text: str, type: str, place: str, where: Sequence[str]) -> Search:
    """Parse the arguments of a search. Raises `InvalidArgument`."""
    for name, value in (("text", text), ("type", type), ("place", place), *(("where", each) for each in where)):
        if len(value) > CHARACTERS_MAX:
            raise InvalidArgument(f"{name}: expected at most {CHARACTERS_MAX} characters")
    if len(where) > CONDITIONS_MAX:
        raise InvalidArgument(f"where: expected at most {CONDITIONS_MAX} conditions")
    return Search(
        tuple(text.casefold().split()), type.strip(), place.casefold().strip(), tuple(map(condition_of, where))
    )


def condition_of(text: str) -> Condition:
    """Parse a condition. A limit that is a number, `true` or `false` is taken as such. Raises `InvalidArgument`."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"where={text!r}: expected PROPERTY, one of < <= > >= = !=, and a value: temperature>21")
    name, operator, written = found.groups()
    limit: float | bool | str
    if written in ("true", "false"):
        limit = written == "true"
    else:
        try:
            limit = float(written)
        except ValueError:
            limit = written.strip('"')
    return Condition(name, operator, limit)


def place_of(description: Mapping[str, Any]) -> str:
    """The place of a thing: text, or an object with a name; empty: it is not said."""
    said = description.get(PLACE, "")
    if isinstance(said, Mapping):
        said = said.get("schema:name", said.get("name", ""))
    return said if isinstance(said, str) else ""


def _texts(description: Mapping[str, Any]) -> Iterator[str]:
    for name in ("id", "title", "description"):
        yield str(description.get(name, ""))
    for name in ("titles", "descriptions"):
        yield from map(str, description.get(name, {}).values())
    yield from _list(description.get("@type", []))


def _list(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said]
