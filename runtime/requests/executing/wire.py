"""Wire: names and formats of the calls between a kernel and its worker processes, and how much travels at once.

The kernel calls the worker's `execute` with requests, and `recall` when they take long. An executing request calls the
kernel's `post_requests` and `rejoin_requests`. All of it is msgpack in ordinary calls, so deadlines, deaths and priorities are
those of any call.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from appbackplane.transport.addressing import AT
from appbackplane.transport.errors import InternalError

#: Names of the operations.
EXECUTE: Final = "execute"
RECALL: Final = "recall"
POST: Final = "post_requests"
REJOIN: Final = "rejoin_requests"
DISOWN: Final = "disown_requests"
#: Requests posted with one call, or rejoined in one reply, at most: a millisecond's work to pack.
ITEMS_MAX: Final = 256
#: Bytes of requests or results in one message, of a frame's 16 MiB: beyond, the cost of a message is negligible.
BATCH_BYTES_MAX: Final = 1 << 20
#: Bytes of one request or result: one of each fit into a frame together, beside all that travels with them.
ITEM_BYTES_MAX: Final = 7 << 20


class RequestAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Outcome of one request, as `BatchRunner.execute` reports it."""

    id: int
    #: Packed.
    result: bytes | None
    error: str | None
    trace: str | None
    run_ns: int
    #: As `Failure.error_type`.
    error_type: str | None = None


#: Worker, start of the kernel, id of the executing request, answers to requests before it, ids of requests that go back.
Asked: TypeAlias = tuple[str, int, int, list[RequestAnswer], list[int]]
#: Runnable, packed request, owner (`RemoteContext._wire_owner`), priority, lane, whether it rejoins, whether it is boosted.
Item: TypeAlias = tuple[str, bytes, str | int | list[int] | None, int, int, bool, bool]


def answers_of(said: Any, worker: str) -> list[RequestAnswer]:
    """A worker's answers, checked before any of them counts. Raises `InternalError`."""
    try:
        return msgspec.convert(said, list[RequestAnswer])
    except msgspec.ValidationError as error:
        raise InternalError(f"{worker} sent a malformed answer: {error}") from error


def runner_key(backplane: str) -> str:
    """Key of the object that executes requests in a worker's backplane."""
    return f"{AT}{backplane}"


def recall_key(backplane: str) -> str:
    """Key of the object beside it, which answers recalls."""
    return f"{AT}{backplane}:recall"


def service_key(worker: str) -> str:
    """Key of the object in the kernel's backplane that serves this worker alone: a worker's call may wait for long."""
    return f"service{AT}{worker}"
