"""Codec: a batch of envelopes to bytes and back, within bounds.

One ZeroMQ frame is one msgpack array of envelopes (DESIGN section 6). Decoding trusts nobody: size, depth and types are
checked here and nowhere else, so every `Envelope` is safe to use. A reused unpacker can be poisoned by bad input (TRAPS 14),
hence one `unpackb` a frame; a reused packer is safe and faster. An envelope is packed when it is handed over, not when its
batch leaves: later changes by the caller must not change the message. msgspec turns values unknown to msgpack (dataclasses,
enums, datetimes, sets, msgspec structs) into builtins. Numbers of other libraries, such as numpy.int64, travel as int or
float.
"""

import struct
from functools import partial
from typing import Any, Final

import msgpack
import msgspec

from .address import Address
from .argument_stream import MISPLACED, ArgumentStream
from .call_spec import CallSpec
from .envelope import (
    ARGUMENT_CREDIT,
    ARGUMENT_ITEMS,
    BLOCKED,
    BOOST,
    CALL,
    CANCEL,
    CAST,
    CREDIT,
    FORWARD,
    ITEMS,
    LAST,
    OPERAND,
    PUBLISH,
    REFUSED,
    REPLY,
    STATUS,
    Envelope,
    call,
)
from .errors import InvalidArgument, MalformedFrame, text_of
from .operand import MISPLACED_OPERAND, Operand
from .unpacking import TooComplicated, unpacked

#: Input of `decode`: bytes, or a view of memory that another object owns.
Frame = bytes | memoryview
#: Largest frame accepted or produced, bytes. A body must fit in one frame with its envelope: 16 MiB keeps one message below
#: a tenth of a second of copying. A larger one is refused with `InvalidArgument`.
FRAME_BYTES_MAX: Final = 16 << 20
#: Envelopes in one frame, which is accepted in one go: 33 ms for this many calls. Our own processes send at most 512
#: (batching.BATCH_MAX); with 65,535, a stranger's frame kept urgent calls of others waiting for 480 ms.
ENVELOPES_MAX: Final = 4_096
#: One envelope: a frame less its array header.
ENVELOPE_BYTES_MAX: Final = FRAME_BYTES_MAX - 3

_FIELDS: Final = 9
#: Fields with the idempotency key; calls without one do not spend a byte on it.
_FIELDS_KEYED: Final = 10
#: The same and source and principal: a request that a backplane makes for somebody else.
_FIELDS_SOURCED: Final = 12
#: The same and the window: a call that asks for a stream.
_FIELDS_STREAMED: Final = 13
#: The same and the name of the streamed argument; the window is nil unless the call asks for a stream as well.
_FIELDS_STREAMING: Final = 14
#: The same and [token, {argument: source}]: a call that awaits operands. Those before are nil unless the call has them.
_FIELDS_AWAITING: Final = 15
_FIELD_COUNTS: Final = (
    _FIELDS, _FIELDS_KEYED, _FIELDS_SOURCED, _FIELDS_STREAMED, _FIELDS_STREAMING, _FIELDS_AWAITING,
)  # fmt: skip
#: Operands that one call may await: more than any signature has.
OPERANDS_MAX: Final = 64
#: Tokens are random words of 63 bits, which msgspec, too, takes for integers.
TOKEN_MAX: Final = (1 << 63) - 1
#: Largest item of a stream: an envelope less what surrounds its only item.
ITEM_BYTES_MAX: Final = ENVELOPE_BYTES_MAX - 32
#: What stands before and behind the items of an envelope of items.
_ITEMS_HEAD: Final = bytes((0x90 | _FIELDS, ITEMS))
_OPERAND_HEAD: Final = bytes((0x90 | _FIELDS, OPERAND))
_ARGUMENT_ITEMS_HEAD: Final = bytes((0x90 | _FIELDS, ARGUMENT_ITEMS))
_NILS_OF_ITEMS: Final = b"\xc0" * 4
_BLOCKED_FIELDS: Final = msgpack.packb(BLOCKED) + b"\xc0" * 3
_LAST_FIELDS: Final = msgpack.packb(LAST) + b"\xc0" * 3
#: Shorter items cannot be nested too deep to be read again.
_DEEP_BYTES_MIN: Final = 900
#: Two array headers and two integers take at most this many bytes.
_HEAD_BYTES = 3 + 1 + 9 + 9
#: First bytes of an envelope, by kind; an id that fits into 32 bits; the constant bytes of a reply around its result.
_HEADS: Final = {kind: bytes((0x90 | _FIELDS, kind)) for kind in range(CALL, BOOST + 1)}
_pack_id: Final = struct.Struct(">BI").pack
_UINT32: Final = 0xCE
_NIL: Final = b"\xc0"
_NILS: Final = b"\xc0" * 5
_REPLY_HEAD: Final = bytes((0x90 | _FIELDS, REPLY))
#: The same for a call; its deadline as a signed 64-bit integer, and the nil that follows it.
_CALL_HEAD: Final = bytes((0x90 | _FIELDS, CALL))
_pack_deadline: Final = struct.Struct(">BqB").pack
_INT64: Final = 0xD3
#: Routes whose packed form an encoder caches. Programs call few; with more, the cache starts anew.
_ADDRESSES_MAX: Final = 1_000
_ID_MAX: Final = (1 << 32) - 1
#: Characters of a name in an error, which fit into a line of a terminal.
_NAME_MAX: Final = 60


def plain_value(value: Any) -> int | float | str:
    """Hook for `msgspec.to_builtins`: numbers that their library registered as Python's, and addresses, which are text.

    Raises TypeError for others. numpy.float64 is a float and would travel without it; numpy.int64 and numpy.float32 would not.
    """
    if isinstance(value, Address):
        return str.__str__(value)
    import numbers  # only where such a value comes

    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):  # a fraction would lose digits
        return float(value)
    if isinstance(value, ArgumentStream):
        raise TypeError(MISPLACED)
    if isinstance(value, Operand) or getattr(value, "is_unsent_call", False):
        raise TypeError(MISPLACED_OPERAND)
    kind = type(value)
    raise TypeError(f"Encoding objects of type {kind.__module__}.{kind.__qualname__} is unsupported")


def _to_builtins(has_run: list[bool], value: Any) -> Any:
    """Hook of the packer. `has_run`: filled, since Python code runs here, and other threads with it."""
    if not has_run:
        has_run.append(True)
    # str_keys stays off: msgpack carries integer keys, and their type must not change silently.
    return msgspec.to_builtins(value, builtin_types=(bytes, bytearray), enc_hook=plain_value)


class Encoder:
    """Packs envelopes. One per thread: its packer keeps state while it packs."""

    __slots__ = ("_addresses", "_has_run", "_has_signals", "_packer")

    def __init__(self, *, has_signals: bool = True) -> None:
        """`has_signals`: a signal handler may raise while it packs, as in the main thread; else a value's own code has."""
        self._has_signals = has_signals
        #: Route to packed priority, route and key, for calls that set the route alone.
        self._addresses: dict[str, bytes] = {}
        #: Filled while a value is packed, if Python code ran meanwhile: then another thread may have changed the value.
        self._has_run: list[bool] = []
        default = partial(_to_builtins, self._has_run)
        self._packer = msgpack.Packer(default=default, autoreset=True, use_bin_type=True)

    def encode(self, envelope: Envelope) -> bytes:
        """One packed envelope. Raises `InvalidArgument` for a value that cannot be serialised or one that is too large."""
        packed = self.pack(envelope.row())
        if len(packed) > ENVELOPE_BYTES_MAX:
            _refuse_size(len(packed))
        return packed

    def call(self, id: int, spec: CallSpec) -> bytes:  # hot: scripts/bench call_pipelined
        """`encode(call(id, spec, -spec.ends_ns))`, at two thirds of its cost where most fields are left out."""
        if (
            spec.priority is not None
            or spec.key is not None
            or spec.idempotency_key is not None
            or spec.trace is not None
            or spec.source is not None
            or spec.principal is not None
            or spec.window is not None
            or spec.streamed is not None
            or spec.awaits is not None
            or id > _ID_MAX
        ):
            return self.encode(call(id, spec, -spec.ends_ns))
        route = spec.route
        address = self._addresses.get(route)
        if address is None:
            if len(self._addresses) >= _ADDRESSES_MAX:
                self._addresses.clear()
            address = self._addresses[route] = self.pack((None, route, None))[1:]  # less its array header
        packed_id: bytes = _pack_id(_UINT32, id)
        due: bytes = _pack_deadline(_INT64, -spec.ends_ns, 0xC0)
        packed = b"".join((_CALL_HEAD, packed_id, address, due, self.pack(spec.body), _NIL))
        if len(packed) > ENVELOPE_BYTES_MAX:
            _refuse_size(len(packed))
        return packed

    def reply(self, id: int, result: Any) -> bytes:  # hot: scripts/bench call_pipelined
        """`encode(Envelope(REPLY, id, body=result))`, at half its cost: constant parts are not packed each time."""
        packed_id: bytes = _pack_id(_UINT32, id) if 0 <= id <= _ID_MAX else msgpack.packb(id)
        packed = b"".join((_REPLY_HEAD, packed_id, _NILS, self.pack(result), _NIL))
        if len(packed) > ENVELOPE_BYTES_MAX:
            _refuse_size(len(packed))
        return packed

    def item(self, value: Any) -> bytes:  # hot: scripts/bench streams
        """One packed item of a stream, for `items`. Raises as `encode`."""
        packed = self.pack(value)
        if len(packed) > ITEM_BYTES_MAX:
            _refuse_size(len(packed))
        if len(packed) > _DEEP_BYTES_MIN and not _can_unpack(b"\x91\x91\x91" + packed):
            raise InvalidArgument("it is nested too deep")
        return packed

    def items(
        self, id: int, packed: list[bytes], number: int, *, is_blocked: bool
    ) -> bytes:  # hot: scripts/bench streams
        """`encode(Envelope(ITEMS, id, body=items, …))` of items packed by `item`, each when it was yielded."""
        return _join_items(_ITEMS_HEAD, id, packed, number, _BLOCKED_FIELDS if is_blocked else _NILS_OF_ITEMS)

    def rest(self, envelope: Envelope) -> bytes:  # hot: scripts/bench pubsub
        """An envelope without kind and id, for `with_id`: a message to many peers is packed once. Raises as `encode`."""
        return self.pack(envelope.row()[2:])[1:]  # less its array header

    def pack(self, value: Any) -> bytes:
        """A packed value, such as a body without its envelope. Raises `InvalidArgument` for one that cannot be serialised."""
        try:
            packed: bytes = self._packer.pack(value)
        except BaseException as error:  # the edge: a value's own code runs here, and another thread may be changing it
            self._reset()
            if self._has_signals and self._is_of_signal(error, value):
                raise
            because = text_of(error) if isinstance(error, Exception) else f"{type(error).__name__}: {text_of(error)}"
            raise InvalidArgument(f"{self._culprit(value)} cannot be serialised: {because}") from error
        if self._has_run:
            self._has_run.clear()
            if not _is_one_value(packed):
                raise InvalidArgument(f"{self._culprit(value)} changed while it was being packed: pass a copy")
        return packed

    def _is_of_signal(self, error: BaseException, value: Any) -> bool:
        """Whether a signal handler raised this while the main thread packed `value`: then packing itself did not fail."""
        if not isinstance(error, Exception):
            return True
        raised = error.__traceback__
        is_called = raised is not None and raised.tb_next is not None  # not by msgpack itself
        return is_called and self._can_pack(value)

    def _can_pack(self, value: Any) -> bool:
        try:
            self._packer.pack(value)
        except BaseException as error:  # as in `pack`: its own code runs
            self._reset()
            if self._has_signals and not isinstance(error, Exception):
                raise
            return False
        self._has_run.clear()
        return True

    def _reset(self) -> None:
        self._packer.reset()
        self._has_run.clear()

    def _culprit(self, value: Any) -> str:
        """Names the value that cannot be serialised, in an envelope's row or a body."""
        for each in value if type(value) is tuple else (value,):
            if type(each) is dict:
                for name, one in tuple(each.items()):  # in one step: another thread may be changing it
                    if not self._can_pack(one):
                        return f"the value of {text_of(name, _NAME_MAX)!r}"
        return "a value"


def _is_one_value(packed: bytes) -> bool:
    """Whether these bytes are one whole value. 1 ns a byte.

    The packer writes the length of a list before its items. If the list changes meanwhile, the bytes behind it count as items,
    or items as what follows: readers would take envelopes of other calls for parts of this one.
    """
    try:
        msgspec.msgpack.decode(packed, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    except RecursionError:  # deeper than msgspec goes
        return True
    return True


def _join_items(head: bytes, id: int, packed: list[bytes], number: int, fields: bytes) -> bytes:
    """`fields`: the four between the number and the items."""
    packed_id: bytes = _pack_id(_UINT32, id) if 0 <= id <= _ID_MAX else msgpack.packb(id)
    packed_number: bytes = _pack_id(_UINT32, number) if number <= _ID_MAX else msgpack.packb(number)
    return b"".join((head, packed_id, packed_number, fields, b"\xdd", len(packed).to_bytes(4, "big"), *packed, _NIL))


def argument_items(id: int, packed: list[bytes], number: int, *, is_blocked: bool, is_last: bool) -> bytes:
    """The packed envelope of these items of a streamed argument, each packed by `Encoder.item`."""
    fields = _LAST_FIELDS if is_last else _BLOCKED_FIELDS if is_blocked else _NILS_OF_ITEMS
    return _join_items(_ARGUMENT_ITEMS_HEAD, id, packed, number, fields)


def operand(token: int, argument: str, packed: bytes) -> bytes:
    """`encode(envelope.operand(token, argument, value))` of a packed value. Raises `InvalidArgument` if it is too large."""
    head = b"".join((_OPERAND_HEAD, msgpack.packb(token), _NIL, msgpack.packb(argument), _NIL * 3))
    if len(head) + len(packed) >= ENVELOPE_BYTES_MAX:
        _refuse_size(len(head) + len(packed) + 1)
    return b"".join((head, packed, _NIL))


def with_id(kind: int, id: int, rest: bytes) -> bytes:  # hot: scripts/bench call_pipelined
    """A packed envelope made of its first two fields and the `rest`. Raises `InvalidArgument` if it is too large."""
    packed_id: bytes = _pack_id(_UINT32, id) if 0 <= id <= _ID_MAX else msgpack.packb(id)
    packed = b"".join((_HEADS[kind], packed_id, rest))
    if len(packed) > ENVELOPE_BYTES_MAX:
        _refuse_size(len(packed))
    return packed


def renumbered(packed: bytes, id: int) -> bytes:
    """A packed envelope under another id, with all other bytes unchanged."""
    start = msgpack.Unpacker()
    start.feed(packed[:_HEAD_BYTES])
    start.read_array_header()
    start.skip()
    before: int = start.tell()
    start.skip()
    numbered: bytes = msgpack.packb(id)
    return packed[:before] + numbered + packed[start.tell() :]


def _refuse_size(size: int) -> None:
    raise InvalidArgument(f"{size:,} bytes exceed the limit of {ENVELOPE_BYTES_MAX:,} a message")


def batch(packed: list[bytes]) -> bytes:
    """One frame of packed envelopes: a msgpack array header and the parts, never packed twice."""
    count = len(packed)
    if count < 16:
        return bytes((0x90 | count,)) + b"".join(packed)
    return b"\xdc" + count.to_bytes(2, "big") + b"".join(packed)


def decode(frame: Frame) -> list[Envelope]:
    """The envelopes of one frame, each checked field by field. Raises `MalformedFrame`, and nothing else."""
    if len(frame) > FRAME_BYTES_MAX:
        raise MalformedFrame(f"frame of {len(frame):,} bytes, limit {FRAME_BYTES_MAX:,}")
    try:
        rows = unpacked(frame)
    except TooComplicated:
        raise
    except Exception as error:  # the edge: unpackb may raise anything (TRAPS 15), and the peer is at fault
        if _can_unpack(frame):
            raise  # a signal handler's: the frame is sound, and is read again (frame_reader.py)
        raise MalformedFrame(f"not msgpack: {type(error).__name__}: {error}") from error
    return checked(rows)


def checked(rows: Any) -> list[Envelope]:
    """The envelopes of a frame that was unpacked elsewhere (foreign_frames.py), each checked. Raises as `decode`."""
    if type(rows) is not list or len(rows) > ENVELOPES_MAX:
        raise MalformedFrame("not a batch of envelopes")
    return [_checked(row) for row in rows]


def head(frame: Frame) -> tuple[int, int] | None:
    """Kind and id of the only envelope of a frame that cannot be decoded; None if it holds several, or begins otherwise.

    A batch is cut long before it is large (batching.py), so a large frame that we made holds one envelope. Only the first
    bytes are read, so nothing that the frame claims to hold is allocated.
    """
    start = msgpack.Unpacker()
    start.feed(bytes(frame[:_HEAD_BYTES]))
    try:
        if start.read_array_header() != 1 or start.read_array_header() not in _FIELD_COUNTS:
            return None
        kind, id = start.unpack(), start.unpack()
    except Exception:  # the edge: as in `decode`
        return None
    return (kind, id) if type(kind) is int and type(id) is int else None


def _can_unpack(frame: Frame) -> bool:
    try:
        unpacked(frame)
    except TooComplicated:
        return True
    except Exception:  # the edge: as in `decode`
        return False
    return True


def _checked(row: Any) -> Envelope:  # hot: scripts/bench call_pipelined
    if type(row) is not list:
        raise MalformedFrame("not an envelope: an array of nine fields is expected")
    fields: list[Any] = row
    idempotency_key = source = principal = window = streamed = awaits = None
    token = 0
    if len(fields) != _FIELDS:
        if len(fields) == _FIELDS_SOURCED and (fields[0] == CALL or fields[0] == CAST):
            idempotency_key, source, principal = fields[9], fields[10], fields[11]
            if not (_is_str_or_nil(idempotency_key) and _is_str_or_nil(source) and _is_str_or_nil(principal)):
                raise MalformedFrame("idempotency key, source or principal of the wrong type")
        elif len(fields) == _FIELDS_STREAMED and fields[0] == CALL:
            idempotency_key, source, principal, window = fields[9], fields[10], fields[11], fields[12]
            if not (_is_str_or_nil(idempotency_key) and _is_str_or_nil(source) and _is_str_or_nil(principal)):
                raise MalformedFrame("idempotency key, source or principal of the wrong type")
            if type(window) is not int or window < 1:
                raise MalformedFrame("the window of a stream is a number of items above 0")
        elif len(fields) == _FIELDS_STREAMING and fields[0] == CALL:
            idempotency_key, source, principal, window, streamed = fields[9:]
            if not (_is_str_or_nil(idempotency_key) and _is_str_or_nil(source) and _is_str_or_nil(principal)):
                raise MalformedFrame("idempotency key, source or principal of the wrong type")
            if type(streamed) is not str or not (window is None or (type(window) is int and window >= 1)):
                raise MalformedFrame("streamed argument or window of the wrong type")
        elif len(fields) == _FIELDS_AWAITING and fields[0] == CALL:
            idempotency_key, source, principal, window, streamed = fields[9:14]
            if not (_is_str_or_nil(idempotency_key) and _is_str_or_nil(source) and _is_str_or_nil(principal)):
                raise MalformedFrame("idempotency key, source or principal of the wrong type")
            if window is not None or streamed is not None:
                raise MalformedFrame("a call with a stream awaits no operands")
            token, awaits = _awaited(fields[14])
        elif len(fields) == _FIELDS_KEYED and fields[0] == CALL and type(fields[9]) is str:
            idempotency_key = fields[9]
        else:
            raise MalformedFrame(
                "not an envelope: nine fields are expected, ten of a call with an idempotency key, twelve to fifteen"
            )
    kind, id = fields[0], fields[1]
    if type(id) is not int or type(kind) is not int:
        raise MalformedFrame("kind and id must be integers")
    if kind == REPLY:
        if fields[2] is not None:
            return _forwarding_reply(fields)
        return Envelope(REPLY, id, None, None, None, None, None, fields[7])
    if kind == CALL or kind == CAST or kind == PUBLISH:
        priority, route, key, deadline = fields[2], fields[3], fields[4], fields[5]
        trace, body, chain = fields[6], fields[7], fields[8]
        if type(route) is not str or type(body) is not dict:
            raise MalformedFrame("route must be a string and body a map")
        if not (_is_int_or_nil(priority) and _is_int_or_nil(deadline) and _is_str_or_nil(key)):
            raise MalformedFrame("priority, deadline or key of the wrong type")
        if not _is_str_or_nil(trace) or (chain is not None and not _is_chain(chain)):
            raise MalformedFrame("trace or chain of the wrong type")
        if kind == PUBLISH:
            return Envelope(PUBLISH, id, priority, route, None, deadline, trace, body, chain, node=key)
        return Envelope(
            kind,
            id,
            priority,
            route,
            key,
            deadline,
            trace,
            body,
            chain,
            idempotency_key,
            source,
            principal,
            window=window,
            streamed=streamed,
            awaits=awaits,
            token=token,
        )
    if kind == STATUS:
        if not _is_status(fields[7]):
            raise MalformedFrame("a status is [number, message, retry_after, trace]")
        if not _is_int_or_nil(fields[2]):
            raise MalformedFrame("the priority of a status is of the wrong type")
        idle = fields[4] if type(fields[4]) is int else 0
        return Envelope(STATUS, id, fields[2], body=fields[7], is_refused=fields[3] == REFUSED, number=idle)
    elif kind == BOOST:
        if type(fields[2]) is not int:
            raise MalformedFrame("a boost has a priority")
        since, chain = fields[7], fields[8]
        if chain is None:
            return Envelope(BOOST, id, fields[2])
        if not (_is_chain(chain) and chain and type(since) is int):
            raise MalformedFrame("the chain of a boost is not one, or of no time")
        return Envelope(BOOST, id, fields[2], None, None, None, None, since, chain)
    elif kind == ITEMS or kind == ARGUMENT_ITEMS:
        if type(fields[7]) is not list or type(fields[2]) is not int or fields[2] < 0:
            raise MalformedFrame("items are a list, and have the number of the first")
        is_last = kind == ARGUMENT_ITEMS and fields[3] == LAST
        is_blocked = fields[3] == BLOCKED
        return Envelope(kind, id, body=fields[7], is_blocked=is_blocked, number=fields[2], is_last=is_last)
    elif kind == CREDIT or kind == ARGUMENT_CREDIT:
        if type(fields[7]) is not int:
            raise MalformedFrame("credit is a number of items")
    elif kind == OPERAND:
        if type(fields[3]) is not str:
            raise MalformedFrame("an operand has the name of its argument")
        return Envelope(OPERAND, id, None, fields[3], body=fields[7])
    elif kind == FORWARD:
        # A name of its own: compiled, `token` is an integer from above, and an assignment would check that with a TypeError.
        argument, backplane, generation, word = fields[3], fields[4], fields[5], fields[7]
        if (
            type(argument) is not str
            or type(backplane) is not str
            or type(generation) is not int
            or not _is_token(word)
        ):
            raise MalformedFrame("a result is forwarded to an argument of a call at a generation of a backplane")
        return Envelope(FORWARD, id, None, argument, backplane, number=generation, token=word)
    elif kind != CANCEL:
        raise MalformedFrame(f"unknown kind {kind}")
    return Envelope(kind, id, None, None, None, None, None, fields[7])


def _forwarding_reply(fields: list[Any]) -> Envelope:
    """A REPLY whose callee has sent the result on as well."""
    if type(fields[2]) is not int or fields[2] < 0:
        raise MalformedFrame("the third field of a reply is a number of operands")
    return Envelope(REPLY, fields[1], body=fields[7], number=fields[2])


def _awaited(field: Any) -> tuple[int, dict[str, str]]:
    """The token and the missing arguments of a call that awaits operands."""
    if type(field) is not list or len(field) != 2 or not _is_token(field[0]):
        raise MalformedFrame("the operands that a call awaits are [token, {argument: source}]")
    awaits = field[1]
    if type(awaits) is not dict or not 0 < len(awaits) <= OPERANDS_MAX:
        raise MalformedFrame(f"a call awaits 1 to {OPERANDS_MAX} operands")
    if not all(type(name) is str and type(source) is str for name, source in awaits.items()):
        raise MalformedFrame("the operands that a call awaits have names")
    return field[0], awaits


def _is_token(token: Any) -> bool:
    return type(token) is int and 0 < token <= TOKEN_MAX


def _is_int_or_nil(value: Any) -> bool:
    return value is None or type(value) is int


def _is_str_or_nil(value: Any) -> bool:
    return value is None or type(value) is str


def _is_chain(chain: Any) -> bool:
    return type(chain) is list and all(
        type(link) is list and len(link) == 2 and type(link[0]) is str and type(link[1]) is str for link in chain
    )


def _is_status(body: Any) -> bool:
    return (
        type(body) is list
        and len(body) == 4
        and type(body[0]) is int
        and type(body[1]) is str
        and (body[2] is None or type(body[2]) in (int, float))
        and _is_str_or_nil(body[3])
    )
