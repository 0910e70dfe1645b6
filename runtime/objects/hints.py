"""Hints: the annotations of a function, with the bounds that msgspec checks (`Annotated[int, msgspec.Meta(le=100)]`).

By default `typing.get_type_hints` drops everything in `Annotated`, the bounds included. This module keeps only annotations
with a `msgspec.Meta`: other remarks (`Annotated[int, "in metres"]`) are for people, and would force a plain parameter
through msgspec (binding.py). Resolved once a class, when it is defined.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec


def hints_of(function: Any, globalns: dict[str, Any] | None = None) -> dict[str, Any]:
    """The annotations by parameter name, and "return". Raises NameError for one that cannot be resolved."""
    full = get_type_hints(function, globalns, include_extras=True)
    if not any(map(_has_remarks, full.values())):
        return full  # nearly always; resolving them again would double the time
    hints = get_type_hints(function, globalns)
    return {name: full[name] if has_bounds(full[name]) else hint for name, hint in hints.items()}


def has_bounds(annotation: Any) -> bool:
    """Whether the annotation, or a part of it, holds a `msgspec.Meta`."""
    return isinstance(annotation, msgspec.Meta) or any(has_bounds(each) for each in get_args(annotation))


def _has_remarks(annotation: Any) -> bool:
    """Whether the annotation, or a part of it, is an `Annotated`."""
    return get_origin(annotation) is Annotated or any(map(_has_remarks, getattr(annotation, "__args__", ())))
