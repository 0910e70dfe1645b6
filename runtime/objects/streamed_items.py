"""Streamed items: which parameter of an operation takes a stream, and of what items.

`rows: AsyncIterator[Row]` in an `async def` operation, `rows: Iterator[Row]` in a plain one (or `AsyncIterable`, `Iterable`,
and each of these `| None`). Found when the class is made, so that a call without a stream, and a stream for another parameter,
are refused before the object sees them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from .operation import DeclarationError

#: By annotation: whether it is for `async def` operations. A bare `Iterable` is none of these: a list is one, too.
_STREAMS: dict[Any, bool] = {AsyncIterator: True, AsyncIterable: True, Iterator: False, Iterable: False}


class StreamedItems:
    """Base of the object that an operation gets in the place of an argument that is sent item by item."""

    __slots__ = ()


class ItemConversion(NamedTuple):
    """Checks items against their annotation, and converts them. Both raise `msgspec.ValidationError`."""

    #: A list of items at once, many times faster; its error does not say reliably which item it is about.
    many: Callable[[list[Any]], list[Any]]
    one: Callable[[Any], Any]


def streamed_parameter(name: str, hints: dict[str, Any], *, is_async: bool) -> tuple[str, Any] | None:
    """The parameter of function `name` that takes a stream, and the annotation of its items; None: there is none. Replaces its
    hint by one that msgspec can check. `is_async`: whether the function is `async def`. Raises `DeclarationError`.
    """
    found: tuple[str, Any] | None = None
    for parameter, annotation in hints.items():
        kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        streams = [kind for kind in kinds if (get_origin(kind) or kind) in _STREAMS and kind is not Iterable]
        if parameter == "return" or not streams:
            continue
        if found is not None:
            raise DeclarationError(f"{name}: {found[0]!r} and {parameter!r} are streams: an operation takes one")
        if len(streams) != 1 or any(kind not in (streams[0], NoneType) for kind in kinds):
            raise DeclarationError(
                f"{name}: {parameter!r} is a stream or something else: it can only be a stream, or None"
            )
        if _STREAMS[get_origin(streams[0]) or streams[0]] is not is_async:
            better = "AsyncIterator, and reads it with `async for`" if is_async else "Iterator"
            kind = "an `async def`" if is_async else "a plain"
            raise DeclarationError(f"{name} is {kind} operation: it takes the stream {parameter!r} as {better}")
        found = parameter, next(iter(get_args(streams[0])), Any)
        hints[parameter] = StreamedItems | None if NoneType in kinds else StreamedItems
    return found
