"""Envelope: one message between two processes. One constructor for each kind; only these and the codec know all fields.

On the wire an envelope is a msgpack array of nine fields, or ten (DESIGN section 6, plus `chain`, the objects that already wait
in this call, which lets a cycle be refused before it deadlocks). Two places of the array have another meaning in some kinds.
Slots, which compiled code reads like the fields of a struct. Fields that a kind does not use are nil, which costs one byte
each; the tenth, `idempotency_key` of a CALL, is left out.

| kind | id | fourth place | fifth place | body |
|---|---|---|---|---|
| CALL | the caller's context id, above 0 | operation | key of the object | map of arguments |
| CAST | 0 | operation | key of the object | map of arguments |
| REPLY | of the call | nil | nil | the result |
| STATUS | of the call | nil, or "refused" | nil | [status, message, retry_after seconds or nil, remote traceback or nil] |
| CANCEL | of the call | nil | nil | nil |
| BOOST | of the call | nil | nil | nil, or when the first of `chain` was queued; `priority` is the new one of the call |
| PUBLISH | sequence number, from 1, of this publisher to this subscriber and topic | topic | node that published | map |
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from .call_spec import CallSpec
from .errors import BackplaneError, Busy, text_of

#: A remote traceback may be so long, characters: some hundred frames.
TRACE_MAX = 65_536
#: On the wire, in the fourth place of a STATUS: the work has not begun, so that any call may be made again. Peers of earlier
#: versions ignore the word.
REFUSED: Final = "refused"


class Kind(IntEnum):
    """What an envelope is for; the numbers travel."""

    CALL = 1
    REPLY = 2
    STATUS = 3
    CAST = 4
    PUBLISH = 5
    CANCEL = 6
    BOOST = 7


# The same as plain integers, for hot loops: comparing an IntEnum member costs three times as much.
CALL: Final = 1
REPLY: Final = 2
STATUS: Final = 3
CAST: Final = 4
PUBLISH: Final = 5
CANCEL: Final = 6
BOOST: Final = 7


class Envelope:
    """One message.

    `deadline`, in ns: from 0 up, the time that remains, for whoever has no clock in common with the callee. Below 0, minus
    the time on the monotonic clock that all processes of this host share (`due_ns`): then what a call spends in the socket
    of a callee that is stopped is spent, and what nobody wants any more does not run when it goes on.
    `chain` is [object, route] of every call that waits for this one, outermost first; nil when a client calls. A BOOST with one
    is a question, which older peers ignore: does the call wait for the first of them, which waits for it by way of all others?
    `idempotency_key`: of calls that bear the same one, the work is done once (runtime/execution/replays.py).
    `is_refused`: of a STATUS, whether the work has certainly not begun. `node`: of a PUBLISH, the other node that published it.
    """

    __slots__ = (
        "body", "chain", "deadline", "id", "idempotency_key", "is_refused", "key", "kind", "node", "priority", "route",
        "trace",
    )  # fmt: skip

    def __init__(
        self,
        kind: int,
        id: int,
        priority: int | None = None,
        route: str | None = None,
        key: str | None = None,
        deadline: int | None = None,
        trace: str | None = None,
        body: Any = None,
        chain: Sequence[Sequence[str]] | None = None,
        idempotency_key: str | None = None,
        is_refused: bool = False,
        node: str | None = None,
    ) -> None:
        self.kind = kind
        self.id = id
        self.priority = priority
        self.route = route
        self.key = key
        self.deadline = deadline
        self.trace = trace
        self.body = body
        self.chain = chain
        self.idempotency_key = idempotency_key
        self.is_refused = is_refused
        self.node = node

    def row(self) -> tuple[Any, ...]:
        """Its fields in the order of the wire."""
        kind, route, key = self.kind, self.route, self.key
        if kind == STATUS:
            route = REFUSED if self.is_refused else None
        elif kind == PUBLISH:
            key = self.node
        row = (kind, self.id, self.priority, route, key, self.deadline, self.trace, self.body, self.chain)
        return row if self.idempotency_key is None else (*row, self.idempotency_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Envelope) and self.row() == other.row()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Envelope{self.row()}"


def due_ns(deadline: int, now_ns: int) -> int:
    """The time at which a call with this `deadline` is over."""
    return now_ns + deadline if deadline >= 0 else -deadline


def call(id: int, spec: CallSpec, deadline: int | None, chain: Sequence[Sequence[str]] | None = None) -> Envelope:
    """Call `id`. `deadline` as of `Envelope`: minus `spec.ends_ns`, or the time that remains."""
    return Envelope(
        CALL, id, spec.priority, spec.route, spec.key, deadline, spec.trace, spec.body, chain, spec.idempotency_key
    )


def cast(spec: CallSpec) -> Envelope:
    """A call without a reply."""
    return Envelope(CAST, 0, spec.priority, spec.route, spec.key, None, spec.trace, spec.body)


def forwarded(asked: Envelope, id: int, route: str, deadline: int | None) -> Envelope:
    """The CALL or CAST `asked` as another node is asked for it: its objects know nothing of the chain here."""
    return Envelope(
        asked.kind, id, asked.priority, route, asked.key, deadline, asked.trace, asked.body, None, asked.idempotency_key
    )


def answered_as(answer: Envelope, id: int) -> Envelope:
    """The REPLY or STATUS of a forwarded call under the id that it has at its caller."""
    return Envelope(answer.kind, id, body=answer.body, is_refused=answer.is_refused)


def cancel(id: int) -> Envelope:
    """The caller takes call `id` back."""
    return Envelope(CANCEL, id)


def boost(id: int, priority: int | None) -> Envelope:
    """Call `id` has this priority from now on."""
    return Envelope(BOOST, id, priority)


def search(id: int, priority: int | None, since: int, chain: Sequence[Sequence[str]]) -> Envelope:
    """Whether call `id` waits for the first of `chain`, queued at `since`, which waits for it through all others."""
    return Envelope(BOOST, id, priority, body=since, chain=chain)


def message(
    number: int, topic: str, body: Any, priority: int | None = None, trace: str | None = None, node: str | None = None
) -> Envelope:
    """A message of a topic, with the number that it has for one subscriber."""
    return Envelope(PUBLISH, number, priority, topic, None, None, trace, body, None, None, False, node)


def reply(id: int, result: Any) -> Envelope:
    """The reply to call `id`."""
    return Envelope(REPLY, id, None, None, None, None, None, result, None)


def status(id: int, error: BackplaneError, *, is_refused: bool = False) -> Envelope:
    """The status in which call `id` ended. It can always travel, whatever a person has put into the error.

    `is_refused`: the work has certainly not begun. Said by whoever refuses, and never read from the error, which may have
    come out of a call that the work itself has made.
    """
    return Envelope(STATUS, id, body=_told(error), is_refused=is_refused)


def instead(id: int, reader: str) -> Envelope:
    """What call `id` ends in when its answer finds no room with a `reader` who does not read: short, and always sayable.

    It is not `refused`: the work has run, and who does not mind may ask again.
    """
    return status(id, Busy(f"the answer did not fit: {reader} does not read its messages", retry_after=0.1))


def _told(error: Any) -> list[Any]:  # any error: what its fields hold is up to who raised it
    trace = None if error.trace is None else text_of(error.trace, TRACE_MAX)
    return [int(error.status), text_of(error.message) or type(error).__name__, _seconds(error.retry_after), trace]


def _seconds(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
