"""Wire: what a kernel and its worker processes call each other by, and how much travels at once.

The kernel calls the worker's `execute` with requests, and `recall` when they take long; the execution of a request calls the
kernel's `post_requests` and `rejoin_requests`. All of it is msgpack in ordinary calls, so deadlines, deaths and priorities
are those of any call.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from appbackplane.transport.errors import InternalError
from appbackplane.transport.resolver import AT

#: The operations.
EXECUTE: Final = "execute"
RECALL: Final = "recall"
POST: Final = "post_requests"
REJOIN: Final = "rejoin_requests"
DISOWN: Final = "disown_requests"
#: Requests posted with one call, and at most so many that have rejoined in one answer: a millisecond's work to pack.
ITEMS_MAX: Final = 256
#: Bytes of requests or results in one message, of a frame's 16 MiB: beyond, the cost of a message is nothing any more.
BATCH_BYTES_MAX: Final = 1 << 20
#: Bytes of one request or result: one of each fit into a frame together, beside all that travels with them.
ITEM_BYTES_MAX: Final = 7 << 20


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """How a request ended, as `Seat.execute` says it."""

    id: int
    #: Packed.
    result: bytes | None
    error: str | None
    trace: str | None
    run_ns: int
    #: As `Failure.error_type`.
    error_type: str | None = None


#: Worker, start of the kernel, request that is executed, how those before it ended, numbers of those that go back.
Asked: TypeAlias = tuple[str, int, int, list[Answer], list[int]]
#: Runnable, packed request, owner (`RemoteContext._wire_owner`), priority, lane, whether it rejoins, whether it is boosted.
Item: TypeAlias = tuple[str, bytes, str | int | list[int] | None, int, int, bool, bool]


def answers_of(said: Any, worker: str) -> list[Answer]:
    """Answers of a worker, checked before anything of them counts. Raises `InternalError`."""
    try:
        return msgspec.convert(said, list[Answer])
    except msgspec.ValidationError as error:
        raise InternalError(f"{worker} answers what makes no sense: {error}") from error


def seat_key(backplane: str) -> str:
    """Of the object that executes in a worker's backplane."""
    return f"{AT}{backplane}"


def usher_key(backplane: str) -> str:
    """Of the object beside it, which says what has become of them."""
    return f"{AT}{backplane}:usher"


def window_key(worker: str) -> str:
    """Of the object in the kernel's backplane that serves this worker and no other: what asks there may wait for long."""
    return f"window{AT}{worker}"
