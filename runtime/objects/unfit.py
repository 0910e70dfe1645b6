"""Unfit: what msgspec leaves out when it says that a value does not fit: the choices there are, and the name that was meant.

`[backplane.index.settings.Indexing.policy] kind = "process"` is answered with "threads" or "processes". Looked up only where
something is refused already, so it costs calls nothing.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from appbackplane.transport.directory import nearest

#: Names in a message: all settings of a kernel's policy; beyond that nobody reads on.
NAMES_MAX = 32


def hint(problem: str, where: str, kind: Any) -> str:
    """What to write instead; "": msgspec has said it all. `where`: as it names a place in `kind`, without `$.`."""
    for name in re.findall(r"[^.\[\]]+", re.sub(r"\[.*?\]", "", where)):
        kind = _fields(kind).get(name)
    if problem.startswith("Invalid enum value"):
        choices = _choices(kind)
        return f"expected {' or '.join(map(repr, choices))}" if 0 < len(choices) <= NAMES_MAX else ""
    if found := re.match(r"Object contains unknown field `([^`]+)`$", problem):
        fields = _fields(kind)
        if near := nearest(found[1], fields):
            return f"did you mean {near!r}?"
        return f"expected one of {', '.join(sorted(fields))}" if 0 < len(fields) <= NAMES_MAX else ""
    return ""


def says_itself(error: msgspec.ValidationError, where: str, kind: Any) -> bool:
    """Whether the sentence is that of the structure's own check (`__post_init__`)."""
    return isinstance(error.__cause__, ValueError) and bool(where) and bool(_fields(_fields(kind).get(where)))


def _fields(kind: Any) -> dict[str, Any]:
    """Of a struct, or of the one in a union; by the names that they are given by."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            hints = get_type_hints(each)
            return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(each)}
    return {}


def _choices(kind: Any) -> list[Any]:
    """That a literal, an enumeration, or those in a union allow."""
    found: list[Any] = []
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            found += get_args(each)
        elif isinstance(each, type) and issubclass(each, Enum):
            found += [member.value for member in each]
    return found
