"""Fitting: whether the items that one stage makes can be those that the next one takes, by their annotations.

Only what is certain is refused: a type that is not annotated, or that this module does not know, fits. Items are packed on
their way, so that a list may become a tuple, and a map a dataclass.
"""

from __future__ import annotations

import inspect
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

#: Kinds that msgpack makes into each other.
_SEQUENCES = (list, tuple, set, frozenset)


def fits(made: Any, taken: Any) -> bool:
    """Whether an item of type `made` may be one of type `taken`."""
    made, taken = _bare(made), _bare(taken)
    if Any in (made, taken) or object in (made, taken) or made == taken:
        return True
    if get_origin(made) in (Union, UnionType):
        return all(fits(each, taken) for each in get_args(made))
    if get_origin(taken) in (Union, UnionType):
        return any(fits(made, each) for each in get_args(taken))
    made_kind, taken_kind = _kind(made), _kind(taken)
    if not isinstance(made_kind, type) or not isinstance(taken_kind, type):
        return True
    if not _kind_fits(made_kind, taken_kind):
        return False
    of_made, of_taken = get_args(made), get_args(taken)
    if len(of_made) != len(of_taken) or Ellipsis in of_made or Ellipsis in of_taken:
        return True
    return all(map(fits, of_made, of_taken))


def shown(annotation: Any) -> str:
    """An annotation, for an error message."""
    if annotation in (None, NoneType):
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__
    return inspect.formatannotation(annotation)


def _bare(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    return NoneType if annotation is None else annotation


def _kind(annotation: Any) -> Any:
    return dict if hasattr(annotation, "__total__") else get_origin(annotation) or annotation  # a TypedDict is a dict


def _kind_fits(made: type, taken: type) -> bool:
    if issubclass(made, taken) or (made is int and taken is float):
        return True
    if made in _SEQUENCES and taken in _SEQUENCES:
        return True
    # A map becomes a dataclass, a TypedDict or a struct, and the other way round; two of these may have the same fields.
    return _is_map(made) and _is_map(taken) and dict in (made, taken)


def _is_map(kind: type) -> bool:
    return issubclass(kind, dict) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__struct_fields__")
