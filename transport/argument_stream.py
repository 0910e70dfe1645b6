"""Argument stream: the one argument of a call that the callee reads item by item while the call runs (streamed.py makes it).

The call carries the window in its place, and names it (`CallSpec.streamed`). The caller iterates only when the operation asks
for items, so a call that is refused, or waits in a queue, has not touched the iterable, and may be retried. item_sender.py has
the limits.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Generator, Iterable, Iterator
from typing import Any, Final

from .call_spec import CallSpec
from .errors import InvalidArgument

_log: Final = logging.getLogger("appbackplane.transport")
#: Items that leave in one envelope: with more, the callee would begin to read them noticeably later.
TOGETHER_MAX: Final = 256
#: Containers whose iterators return at once: several items may leave together. The next step of any other iterator may wait,
#: for what its last item causes; so each of its items leaves before the next step.
_PROMPT: Final = (list, tuple, range, set, frozenset, dict, bytes, str)
#: What is wrong with a stream that reaches the packer.
MISPLACED: Final = (
    "a stream can only be one whole argument of call(): not inside another value, nor with submit, cast, publish, stream, "
    "or gather"
)


class ArgumentStream:
    """The iterable behind one argument of a call, and how many items its caller may run ahead of the operation."""

    __slots__ = ("iterable", "window")

    def __init__(self, iterable: Any, window: int) -> None:
        self.iterable = iterable
        self.window = window

    @property
    def is_async(self) -> bool:
        """Whether it can be iterated with `async for`, which asyncio clients and operations prefer to `for`."""
        return isinstance(self.iterable, AsyncIterable)

    @property
    def together_max(self) -> int:
        """How many of its items may be fetched before the first of them leaves."""
        return TOGETHER_MAX if type(self.iterable) in _PROMPT else 1

    def iterator(self, spec: CallSpec) -> Iterator[Any]:
        """Its iterator. Raises `InvalidArgument` if it is an async iterable, which `spec`'s caller cannot iterate over."""
        if not isinstance(self.iterable, Iterable):
            raise InvalidArgument(
                f"{spec.route}: argument {spec.streamed!r} is a stream of an async iterable: pass it to an asyncio client, or "
                "await the call in an `async def` operation"
            )
        return iter(self.iterable)


# `window` is an int: typed `Any`, because compiled code would refuse anything else with a message of its own.
def take_stream(spec: CallSpec) -> ArgumentStream | None:  # hot: scripts/bench call_rtt
    """Take the stream out of the arguments of a call; None: there is none. Raises `InvalidArgument` if it may have none."""
    if spec.is_plain:
        return None
    for value in spec.body.values():
        if isinstance(value, ArgumentStream):
            return _taken(spec)
    return None


def close(iterator: object, spec: CallSpec) -> None:
    """End an iterator that is not read to its end: a generator gets `GeneratorExit` at its `yield`. An exception of its cleanup
    must not take the place of the call's result or error, so it is logged.
    """
    if isinstance(iterator, Generator):
        try:
            iterator.close()
        except Exception as error:  # the edge: user code
            log_late(spec, error)


def log_late(spec: CallSpec, error: Exception) -> None:
    """Log an exception of the iterable of a call that has ended."""
    _log.warning(
        "%s: argument %r: its iterable has raised after the call had ended", spec.route, spec.streamed, exc_info=error
    )


def _taken(spec: CallSpec) -> ArgumentStream:
    streams = {name: value for name, value in spec.body.items() if isinstance(value, ArgumentStream)}
    if len(streams) > 1:
        names = " and ".join(map(repr, streams))
        raise InvalidArgument(f"{spec.route}: arguments {names} are streams: a call takes one")
    name, found = next(iter(streams.items()))
    if spec.idempotency_key is not None:
        raise InvalidArgument(
            f"{spec.route}: argument {name!r} is a stream: its items are not kept, so the call takes no idempotency key"
        )
    spec.body = {**spec.body, name: found.window}
    spec.streamed = name
    return found
