"""Envelope: one message between two processes. Only these constructors, one per kind, and the codec know all fields.

On the wire an envelope is a msgpack array of nine, ten, or twelve to fifteen fields (DESIGN section 6, plus `chain`: the
objects already waiting in this call, by which a cycle is refused before it deadlocks). The meaning of the fourth and fifth
field depends on the kind. Compiled code reads slots like the fields of a struct. Fields that a kind does not use are nil, one
byte each. A STATUS has a priority only if overload control has refused the work: that which it had. Its fifth field is then how
long the callee was idle of late all the same, in thousandths of the time; nil: it was not. The tenth, `idempotency_key` of a
CALL, is left out if there is none; the eleventh and twelfth, `source` and `principal`, are there only if a backplane calls or
casts for somebody else; the thirteenth, `window`, only of a CALL that asks for a stream; the fourteenth, `streamed`, only of a
CALL with an argument that is sent item by item; the fifteenth, only of a CALL whose operands are still missing, is
[token, {argument: name of the call or promise}].

| kind | id | fourth field | fifth field | body |
|---|---|---|---|---|
| CALL | the caller's context id, above 0 | operation | key of the object | map of arguments |
| CAST | 0 | operation | key of the object | map of arguments |
| REPLY | of the call | nil | nil | the result |
| STATUS | of the call | nil, or "refused" | nil, or idle | [status, message, retry_after s or nil, remote traceback or nil] |
| CANCEL | of the call | nil | nil | nil |
| BOOST | of the call | nil | nil | nil, or when the first of `chain` was queued; `priority` is the new one of the call |
| ITEMS | of the call | nil, or "blocked" | nil | list of items; a REPLY of their number, or a STATUS, ends the stream |
| CREDIT | of the call | nil | nil | how many items of its stream the callee may have sent in all |
| CREDIT | 0 | nil | nil | how many calls without a key the receiver may have sent in all (pulling.py) |
| ARGUMENT_ITEMS | of the call, from its caller | nil, "blocked" or "last" | nil | list of items of its streamed argument |
| ARGUMENT_CREDIT | of the call, from its callee | nil | nil | how many items of it the caller may have sent in all |
| FORWARD | of the call, from its caller | argument | backplane of the call that awaits the result | that call's token |
| OPERAND | token of the call that awaits it | argument | nil | the value |
| PUBLISH | sequence number, from 1, of this publisher to this subscriber and topic | topic | node that published | map |

The third field of a REPLY says how many FORWARDs of its call were carried out: that many OPERANDs have left before it. The
sixth of a FORWARD is the generation of the backplane.
"""

from collections.abc import Sequence
from typing import Any, Final

from .call_spec import CallSpec
from .errors import BackplaneError, Busy, sound, text_of

#: Longest remote traceback, characters: some hundred frames.
TRACE_MAX = 65_536
#: On the wire, the fourth field of a STATUS: the work has not begun, so any call may be retried. Peers of earlier versions
#: ignore the word.
REFUSED: Final = "refused"
#: The same of ITEMS: the callee waits for credit.
BLOCKED: Final = "blocked"
#: The same of ARGUMENT_ITEMS: no more follow. So a lost end is no short stream, and the number of the first tells the count.
LAST: Final = "last"


#: Kinds of envelopes. The numbers are part of the wire format. Plain integers: comparing an IntEnum member costs three times as
#: much.
CALL: Final = 1
REPLY: Final = 2
STATUS: Final = 3
CAST: Final = 4
PUBLISH: Final = 5
CANCEL: Final = 6
BOOST: Final = 7
ITEMS: Final = 8
CREDIT: Final = 9
#: Items and credit in the other direction. Not ITEMS and CREDIT: two backplanes that call each other may use one id for two
#: calls, and only the kind tells which of them is meant.
ARGUMENT_ITEMS: Final = 10
ARGUMENT_CREDIT: Final = 11
#: A result that goes straight to the call that awaits it: the wish for that, and the value (docs/concepts/dataflow.md). They
#: stay the last two kinds: `Engine.hear` tells both from all others by one comparison.
FORWARD: Final = 12
OPERAND: Final = 13


class Envelope:
    """One message.

    `deadline`, in ns: from 0 up, the time that remains, for a caller that has no clock in common with the callee. Below 0,
    minus the time on the monotonic clock that all processes of this host share (`due_ns`). Time that a call spends in the
    socket of a stopped callee then counts, and an expired call does not run when that callee goes on.
    `chain` is [object, route] of every call that waits for this one, outermost first; nil when a client calls. A BOOST with one
    is a question, which older peers ignore: does the call wait for the first of them, which waits for it by way of all others?
    `idempotency_key`: the work of all calls with the same key is done once (runtime/execution/intake/idempotency_cache.py).
    `source`, `principal`: of a CALL or CAST that a backplane makes for somebody else: who calls, and on whose behalf.
    `window`: of a CALL that asks for a stream: how many items the callee may run ahead of the reader. None: for a result.
    `streamed`: of a CALL, the name of the argument that its caller sends item by item; the body has the window in its place.
    `awaits`, `token`: of a CALL, the arguments that are still missing, each with the name of its source, and the word by which
    they are known; empty once all have come. Of a FORWARD, the word of the call that awaits the result.
    `number`: of items, that of the first, from 0; of a REPLY, how many operands have left; the third field on the wire. Of a
    FORWARD, the generation of the backplane named by `key`. Of a STATUS, how long its callee was idle, in thousandths
    (caller_throttle.py). `is_blocked`: of items, whether their sender waits for credit (as STREAM_DATA_BLOCKED of QUIC).
    `is_last`: of ARGUMENT_ITEMS, whether no more follow.
    `is_refused`: of a STATUS, whether the work has certainly not begun. `node`: of a PUBLISH, the other node that published it.
    """

    __slots__ = (
        "awaits", "body", "chain", "deadline", "id", "idempotency_key", "is_blocked", "is_last", "is_refused", "key", "kind",
        "node", "number", "principal", "priority", "route", "source", "streamed", "token", "trace", "window",
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
        source: str | None = None,
        principal: str | None = None,
        is_refused: bool = False,
        node: str | None = None,
        window: int | None = None,
        is_blocked: bool = False,
        number: int = 0,
        streamed: str | None = None,
        is_last: bool = False,
        awaits: dict[str, str] | None = None,
        token: int = 0,
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
        self.source = source
        self.principal = principal
        self.is_refused = is_refused
        self.node = node
        self.window = window
        self.is_blocked = is_blocked
        self.number = number
        self.streamed = streamed
        self.is_last = is_last
        self.awaits = awaits
        self.token = token

    def row(self) -> tuple[Any, ...]:
        """Its fields in the order of the wire."""
        kind, route, key = self.kind, self.route, self.key
        if kind == STATUS:
            word = REFUSED if self.is_refused else None
            return (kind, self.id, self.priority, word, self.number or None, None, None, self.body, None)
        if kind == PUBLISH:
            key = self.node
        elif kind == ITEMS or kind == ARGUMENT_ITEMS:
            word = LAST if self.is_last else BLOCKED if self.is_blocked else None
            return (kind, self.id, self.number, word, None, None, None, self.body, None)
        elif kind == REPLY:
            return (kind, self.id, self.number or None, None, None, None, None, self.body, None)
        elif kind == FORWARD:
            return (kind, self.id, None, route, key, self.number, None, self.token, None)
        row = (kind, self.id, self.priority, route, key, self.deadline, self.trace, self.body, self.chain)
        if self.awaits is not None:
            more = (self.idempotency_key, self.source, self.principal, self.window, self.streamed)
            return (*row, *more, [self.token, self.awaits])
        if self.streamed is not None:
            return (*row, self.idempotency_key, self.source, self.principal, self.window, self.streamed)
        if self.window is not None:
            return (*row, self.idempotency_key, self.source, self.principal, self.window)
        if self.source is not None or self.principal is not None:
            return (*row, self.idempotency_key, self.source, self.principal)
        return row if self.idempotency_key is None else (*row, self.idempotency_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Envelope) and self.row() == other.row()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Envelope{self.row()}"


def due_ns(deadline: int, now_ns: int) -> int:
    """The monotonic time, ns, at which a call with this `deadline` expires."""
    return now_ns + deadline if deadline >= 0 else -deadline


def call(id: int, spec: CallSpec, deadline: int | None, chain: Sequence[Sequence[str]] | None = None) -> Envelope:
    """Call `id`. `deadline`: as in `Envelope`, minus `spec.ends_ns` or the time that remains."""
    return Envelope(
        CALL, id, spec.priority, spec.route, spec.key, deadline, spec.trace, spec.body, chain, spec.idempotency_key,
        spec.source, spec.principal, window=spec.window, streamed=spec.streamed, awaits=spec.awaits, token=spec.token,
    )  # fmt: skip


def cast(spec: CallSpec) -> Envelope:
    """A call without a reply."""
    return Envelope(
        CAST,
        0,
        spec.priority,
        spec.route,
        spec.key,
        None,
        spec.trace,
        spec.body,
        None,
        None,
        spec.source,
        spec.principal,
    )


def forwarded(asked: Envelope, id: int, route: str, deadline: int | None) -> Envelope:
    """The CALL or CAST `asked` as sent to another node: without the chain, whose objects are unknown there.

    The other node decides whether it believes the principal (runtime/peers/inward.py).
    """
    return Envelope(
        asked.kind, id, asked.priority, route, asked.key, deadline, asked.trace, asked.body, None, asked.idempotency_key,
        principal=asked.principal, window=asked.window, streamed=asked.streamed,
    )  # fmt: skip


def answered_as(answer: Envelope, id: int) -> Envelope:
    """The REPLY or STATUS of a forwarded call, under the id that its caller knows."""
    return Envelope(
        answer.kind, id, answer.priority, body=answer.body, is_refused=answer.is_refused, number=answer.number
    )


def items(id: int, body: list[Any], number: int, *, is_blocked: bool) -> Envelope:
    """The next items of stream `id`, of which the first has this number. `is_blocked`: its callee waits for credit."""
    return Envelope(ITEMS, id, body=body, is_blocked=is_blocked, number=number)


def cancel(id: int) -> Envelope:
    """Cancel call `id` at its callee."""
    return Envelope(CANCEL, id)


def boost(id: int, priority: int | None) -> Envelope:
    """Give call `id` this priority from now on."""
    return Envelope(BOOST, id, priority)


def credit(id: int, items: int) -> Envelope:
    """Let the callee of stream `id` have sent this many items in all, or a caller (`id` 0) this many calls."""
    return Envelope(CREDIT, id, body=items)


def argument_items(id: int, body: list[Any], number: int, *, is_blocked: bool, is_last: bool) -> Envelope:
    """The next items of the streamed argument of call `id`. `is_last`: no more follow."""
    return Envelope(ARGUMENT_ITEMS, id, body=body, is_blocked=is_blocked, number=number, is_last=is_last)


def argument_credit(id: int, items: int) -> Envelope:
    """Let the caller of call `id` have sent this many items of its streamed argument in all."""
    return Envelope(ARGUMENT_CREDIT, id, body=items)


def search(id: int, priority: int | None, since: int, chain: Sequence[Sequence[str]]) -> Envelope:
    """Ask whether call `id` waits for the first of `chain`, queued at `since`, which waits for `id` through all the others."""
    return Envelope(BOOST, id, priority, body=since, chain=chain)


def message(
    number: int, topic: str, body: Any, priority: int | None = None, trace: str | None = None, node: str | None = None
) -> Envelope:
    """A message of a topic, with its sequence number for one subscriber."""
    return Envelope(PUBLISH, number, priority, topic, None, None, trace, body, node=node)


def reply(id: int, result: Any, forwarded_count: int = 0) -> Envelope:
    """The reply to call `id`. `forwarded_count`: how many of the call's FORWARDs were carried out, the first ones first."""
    return Envelope(REPLY, id, None, None, None, None, None, result, None, number=forwarded_count)


def forward(id: int, argument: str, backplane: str, generation: int, token: int) -> Envelope:
    """Send the result of call `id` as this argument to the call with this token, at this generation of a backplane."""
    return Envelope(FORWARD, id, None, argument, backplane, number=generation, token=token)


def operand(token: int, argument: str, value: Any) -> Envelope:
    """The value of an argument that the call with this token awaits."""
    return Envelope(OPERAND, token, None, argument, body=value)


def status(id: int, error: BackplaneError, *, is_refused: bool = False) -> Envelope:
    """The status in which call `id` ended. It can always be packed, with any values in the error's fields.

    `is_refused`: the work has certainly not begun. Decided by the refusing code, never read from the error, which may come
    from a call that the work itself made. Only then does the status tell that overload control has refused it.
    """
    priority, idle = (error.overloaded_at, error.idle) if is_refused else (None, 0)
    return Envelope(STATUS, id, priority, body=_told(error), is_refused=is_refused, number=idle)


def instead(id: int, reader: str) -> Envelope:
    """The status of call `id` when its answer does not fit the outbox of a `reader` that does not read; it needs little room.

    It is not `refused`: the work has run, and a caller whose call may be repeated can retry.
    """
    return status(id, Busy(f"the answer did not fit: {reader} does not read its messages", retry_after=0.1))


def _told(error: BackplaneError) -> list[Any]:
    error = sound(error)
    trace = None if error.trace is None else text_of(error.trace, TRACE_MAX)
    retry_after = None if error.retry_after is None else float(error.retry_after)
    return [int(error.status), text_of(error.message) or type(error).__name__, retry_after, trace]
