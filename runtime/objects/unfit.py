"""Unfit: adds the allowed choices, or the name probably meant, to msgspec's message about an invalid value.

For `[backplane.index.settings.Indexing.policy] kind = "process"` the hint is "threads" or "processes". Computed only for
values that are already refused, so it costs valid calls nothing.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from appbackplane.transport.directory import nearest

#: Names listed in a message: enough for all settings of a kernel's policy; a longer list would not be read.
NAMES_MAX = 32


def hint(problem: str, where: str, kind: Any) -> str:
    """The hint for the user; "": msgspec's message suffices. `where`: msgspec's path of the value in `kind`, without `$.`."""
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
    """Whether the message comes from the struct's own check (`__post_init__`)."""
    return isinstance(error.__cause__, ValueError) and bool(where) and bool(_fields(_fields(kind).get(where)))


def _fields(kind: Any) -> dict[str, Any]:
    """The fields of a struct, or of the first struct in a union, by the names that users write."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            hints = get_type_hints(each)
            return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(each)}
    return {}


def _choices(kind: Any) -> list[Any]:
    """The values that a Literal, an Enum, or those in a union allow."""
    found: list[Any] = []
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            found += get_args(each)
        elif isinstance(each, type) and issubclass(each, Enum):
            found += [member.value for member in each]
    return found
