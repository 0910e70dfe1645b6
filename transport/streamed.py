"""Streamed: `stream(rows)` marks the one argument of a call that is sent item by item (argument_stream.py).

It stays interpreted: compiled functions have no docstring.
"""

from collections.abc import AsyncIterable, Iterable
from typing import Any

from .argument_stream import ArgumentStream
from .call_checks import WINDOW_DEFAULT, window_of
from .errors import InvalidArgument, text_of


def stream(iterable: Iterable[Any] | AsyncIterable[Any], *, window: Any = WINDOW_DEFAULT) -> ArgumentStream:
    """One argument of a call that is sent item by item: `client.call("index.load", rows=stream(rows))`.

    The operation iterates over it (docs/concepts/streaming.md). `iterable`: also an async iterable, for an asyncio client and
    for operations. `window`: how many items the caller may run ahead of the operation, 1 to 65,536, and 1 MiB of them.

    `call` iterates while it waits for the result. If the iterable raises, the call is cancelled, and `call` raises that very
    exception. If the operation ends before it has read all, a generator is closed (`GeneratorExit`). Raises `InvalidArgument`.
    """
    if not isinstance(iterable, (Iterable, AsyncIterable)):
        raise InvalidArgument(f"stream() takes an iterable, got {text_of(repr(iterable), 60)}")
    return ArgumentStream(iterable, window_of("stream()", window))
