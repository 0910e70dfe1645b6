"""Codec: what is said arrives, and whatever else arrives is one error."""

import dataclasses
import datetime
import enum
import numbers
import signal
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import FrameType
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport import codec
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import Encoder, batch, decode, renumbered
from appbackplane.transport.envelope import (
    ARGUMENT_CREDIT,
    ARGUMENT_ITEMS,
    CALL,
    CANCEL,
    CAST,
    PUBLISH,
    REFUSED,
    REPLY,
    STATUS,
    TRACE_MAX,
    Envelope,
    argument_items,
    due_ns,
    reply,
    status,
)
from appbackplane.transport.errors import BackplaneError, Busy, InvalidArgument, MalformedFrame, Unavailable

encoder = codec.Encoder()


@dataclasses.dataclass(frozen=True)
class Spot:
    """Hashable, and a map on the wire."""

    x: int
    y: int


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-(2**63), 2**64 - 1)
values = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False) | texts | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | integers, inner, max_size=3),
    max_leaves=6,
)
named = st.builds(
    Envelope,
    st.sampled_from([CALL, CAST, PUBLISH]),
    st.integers(0, 2**63),
    st.none() | st.integers(0, 15),
    texts,
    st.none() | texts,
    st.none() | integers,
    st.none() | texts,
    st.dictionaries(texts, values, max_size=3),
    st.none() | st.lists(st.lists(texts, min_size=2, max_size=2), max_size=2),
)
answers = st.one_of(
    st.builds(reply, integers, values),
    st.builds(lambda id: status(id, Busy("full", retry_after=0.5, trace="here")), integers),
    st.builds(lambda id: Envelope(CANCEL, id), integers),
)
batches = st.lists(named | answers, min_size=0, max_size=20)


def packed(envelopes: list[Envelope]) -> bytes:
    """One frame."""
    return codec.batch([encoder.encode(envelope) for envelope in envelopes])


def test_decode_needs_no_more_than_encode_gives() -> None:
    """The smallest frame there is."""
    assert codec.decode(codec.batch([])) == []


@given(batches)
def test_what_is_said_arrives(envelopes: list[Envelope]) -> None:
    """A value that changes on its way is a bug that nobody finds in his own code."""
    assert codec.decode(packed(envelopes)) == envelopes


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 512])
def test_a_batch_is_one_array_whatever_its_length(count: int) -> None:
    """The array header has two forms; the wrong one would make the whole frame malformed."""
    envelopes = [reply(id, None) for id in range(count)]
    assert codec.decode(packed(envelopes)) == envelopes


@pytest.mark.parametrize("id", [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, -1, -(2**63)])
def test_a_reply_is_packed_for_whatever_id_it_was_asked_under(id: int) -> None:
    """Ids are the caller's: one that a short form cannot hold ended the process that answered."""
    assert codec.decode(codec.batch([encoder.reply(id, [1])])) == [reply(id, [1])]


@pytest.mark.parametrize("id", [1, 2**32 - 1, 2**32, 2**63])
@pytest.mark.parametrize(("priority", "key"), [(None, None), (0, None), (None, "k"), (3, "k")])
def test_a_call_is_packed_as_any_envelope_is(id: int, priority: int | None, key: str | None) -> None:
    """Put together of parts, one of which is kept a route: it would be another call."""
    for route in ("query.search", "query.stats", "query.search"):
        call = Envelope(CALL, id, priority, route, key, -(10**15), None, {"text": "x"})
        spec = CallSpec(route, {"text": "x"}, key=key, priority=priority, ends_ns=10**15)
        assert codec.decode(codec.batch([encoder.call(id, spec)])) == [call]


@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_call_names_the_argument_that_is_sent_by_items(window: int | None, key: str | None) -> None:
    """Else its callee would take the window for the argument."""
    spec = CallSpec("index.load", {"rows": 4}, key=key, streamed="rows", window=window, ends_ns=10**15)
    call = Envelope(CALL, 7, None, "index.load", key, -(10**15), None, {"rows": 4}, window=window, streamed="rows")
    assert codec.decode(codec.batch([encoder.call(7, spec)])) == [call]
    assert codec.head(codec.batch([encoder.call(7, spec)])) == (CALL, 7)


@pytest.mark.parametrize("id", [1, 2**32 - 1, 2**32, 2**63])
@pytest.mark.parametrize("number", [0, 2**32])
@pytest.mark.parametrize("items", [[], [1, "two", None], [{"x": [1]}]])
@pytest.mark.parametrize(("is_blocked", "is_last"), [(False, False), (True, False), (False, True)])
def test_items_of_an_argument_are_packed_as_any_envelope_is(
    id: int, number: int, items: list[Any], is_blocked: bool, is_last: bool
) -> None:
    """Put together of parts that were packed when they were fetched. The last ones say so, and none else."""
    said = argument_items(id, items, number, is_blocked=is_blocked, is_last=is_last)
    parts = [encoder.item(item) for item in items]
    together = codec.argument_items(id, parts, number, is_blocked=is_blocked, is_last=is_last)
    for frame in (packed([said]), codec.batch([together])):
        (arrived,) = codec.decode(frame)
        assert arrived == said
        assert (arrived.is_blocked, arrived.is_last) == (is_blocked, is_last)


@pytest.mark.parametrize(
    "row",
    [
        [CALL, 7, None, "index.load", None, None, None, {"rows": 4}, None, None, None, None, None, None],
        [CALL, 7, None, "index.load", None, None, None, {"rows": 4}, None, None, None, None, None, 5],
        [CALL, 7, None, "index.load", None, None, None, {"rows": 4}, None, None, None, None, 0, "rows"],
        [CALL, 7, None, "index.load", None, None, None, {"rows": 4}, None, None, None, None, "5", "rows"],
        [CALL, 7, None, "index.load", None, None, None, {"rows": 4}, None, None, None, 5, None, "rows"],
        [CAST, 0, None, "index.load", None, None, None, {"rows": 4}, None, None, None, None, None, "rows"],
        [ARGUMENT_ITEMS, 7, 0, None, None, None, None, "items", None],
        [ARGUMENT_ITEMS, 7, -1, None, None, None, None, [], None],
        [ARGUMENT_ITEMS, 7, None, None, None, None, None, [], None],
        [ARGUMENT_CREDIT, 7, None, None, None, None, None, "4", None],
        [ARGUMENT_CREDIT, 7, None, None, None, None, None, None, None],
        [ARGUMENT_CREDIT + 1, 7, None, None, None, None, None, None, None],
    ],
)
def test_a_stream_of_the_wrong_types_is_malformed(row: list[Any]) -> None:
    """Each envelope that is decoded is safe to use."""
    with pytest.raises(MalformedFrame):
        codec.decode(msgpack.packb([row]))


def test_routes_are_not_kept_without_end() -> None:
    """Backplanes serve operations of their own under routes that bear their names, and those come and go."""
    routes = [f"backplane.{n}.statistics" for n in range(5_000)]
    calls = [codec.decode(codec.batch([encoder.call(1, CallSpec(route, {}, ends_ns=1))]))[0] for route in routes]
    assert [call.route for call in calls] == routes
    assert len(encoder._addresses) <= codec._ADDRESSES_MAX


@given(st.binary(max_size=64))
def test_random_bytes_raise_nothing_but_the_declared_error(frame: bytes) -> None:
    """TRAPS 15. Whatever else escaped would end the loop that reads, and the process with it."""
    try:
        codec.decode(frame)
    except MalformedFrame:
        return


@given(batches, st.data())
def test_a_damaged_frame_raises_nothing_but_the_declared_error(envelopes: list[Envelope], data: st.DataObject) -> None:
    """Damage near the truth reaches deeper than random bytes do."""
    frame = bytearray(packed(envelopes))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    for damaged in (bytes(frame), bytes(frame[:cut])):
        try:
            decoded = codec.decode(damaged)
        except MalformedFrame:
            continue
        assert all(type(envelope) is Envelope for envelope in decoded)


@given(values)
def test_a_row_of_anything_is_an_envelope_or_malformed(value: object) -> None:
    """Fields of the wrong type must not reach those who trust an `Envelope`."""
    for index in range(9):
        row: list[object] = [CALL, 1, None, "query.search", None, None, None, {}, None]
        row[index] = value
        try:
            (envelope,) = codec.decode(msgpack.packb([row]))
        except MalformedFrame:
            continue
        assert type(envelope.kind) is int and type(envelope.id) is int
        if envelope.kind in (CALL, CAST, PUBLISH):
            assert type(envelope.route) is str and type(envelope.body) is dict
            assert envelope.deadline is None or type(envelope.deadline) is int
            assert envelope.key is None or type(envelope.key) is str


MALFORMED = {
    "more than is taken in at one go": [[CANCEL, 1, None, None, None, None, None, None, None]]
    * (codec.ENVELOPES_MAX + 1),
    "a map": {},
    "not rows": [1, 2],
    "a short row": [[CALL, 1]],
    "an unknown kind": [[77, 1, None, None, None, None, None, None, None]],
    "a call without a body": [[CALL, 1, None, "a.b", None, None, None, None, None]],
    "a true priority": [[CALL, 1, True, "a.b", None, None, None, {}, None]],
    "a chain of one": [[CALL, 1, None, "a.b", None, None, None, {}, [["object"]]]],
    "a status of words": [[STATUS, 1, None, None, None, None, None, "no", None]],
    "a status without number": [[STATUS, 1, None, None, None, None, None, ["5", "no", None, None], None]],
    "a textual id": [[REPLY, "1", None, None, None, None, None, None, None]],
    "an extension for a route": [[CALL, 1, None, msgpack.ExtType(5, b"x"), None, None, None, {}, None]],
    "an extension for a body": [[CALL, 1, None, "a.b", None, None, None, msgpack.ExtType(5, b"x"), None]],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_not_an_envelope_is_refused(name: str) -> None:
    """Trusted nowhere else: what passes here is used as it is."""
    with pytest.raises(MalformedFrame):
        codec.decode(msgpack.packb(MALFORMED[name]))


def test_a_frame_beyond_the_bound_is_refused_unread() -> None:
    """Its size alone could be the attack."""
    with pytest.raises(MalformedFrame, match="limit"):
        codec.decode(b"\xc0" * (codec.FRAME_BYTES_MAX + 1))


def test_a_length_bomb_is_refused() -> None:
    """TRAPS 14. Five bytes that promise four thousand million elements."""
    with pytest.raises(MalformedFrame):
        codec.decode(b"\xdd\xff\xff\xff\xff")


def test_a_body_that_is_too_large_is_the_callers_fault() -> None:
    """Said at once and in bytes; the callee would have dropped the frame without a word."""
    with pytest.raises(InvalidArgument, match=r"exceed the limit of 16,777,213"):
        encoder.encode(reply(1, b"x" * codec.FRAME_BYTES_MAX))


@pytest.mark.parametrize(
    "value", [object(), 2**64, {"a": lambda: None}, "\ud800"], ids=["object", "big", "code", "text"]
)
def test_a_value_that_cannot_travel_is_the_callers_fault(value: object) -> None:
    """And the packer is as good as new afterwards."""
    with pytest.raises(InvalidArgument, match="cannot be serialised"):
        encoder.encode(reply(1, [1, 2, value]))
    assert codec.decode(codec.batch([encoder.encode(reply(2, "next"))])) == [reply(2, "next")]


def test_a_body_without_end_is_the_callers_fault() -> None:
    """A list that holds itself must not take the process along."""
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidArgument):
        encoder.encode(reply(1, endless))


class Colour(enum.Enum):
    """A value that msgpack does not know."""

    RED = "red"


@dataclasses.dataclass
class Point:
    """Another one."""

    x: int
    colour: Colour


def test_what_python_programs_use_travels_as_builtins() -> None:
    """Dataclasses, enums, dates, sets and tuples would otherwise be converted by hand before every call."""
    body = {"point": Point(1, Colour.RED), "day": datetime.date(2026, 1, 2), "set": {3}, "tuple": (1, 2), 5: "five"}
    (got,) = codec.decode(codec.batch([encoder.encode(reply(1, body))]))
    assert got.body == {"point": {"x": 1, "colour": "red"}, "day": "2026-01-02", "set": [3], "tuple": [1, 2], 5: "five"}


def test_what_the_caller_changes_afterwards_does_not_change_what_it_said() -> None:
    """An envelope is packed when it is handed over: its batch may leave later."""
    body = {"n": 1}
    early = encoder.encode(reply(1, body))
    body["n"] = 2
    assert codec.decode(codec.batch([early]))[0].body == {"n": 1}


def test_a_key_that_is_a_tuple_arrives_as_one() -> None:
    """`{(x, y): value}` is a fine result. As a list it is no key: the whole batch, with the answers of others, was dropped."""
    body = {(1, 2): "a", ((3, "x"), 4): {(): 1}, "plain": [1]}
    others = [reply(1, "other"), reply(2, body), reply(3, {"k": [1]})]
    assert codec.decode(packed(others)) == others


@pytest.mark.parametrize("code", [0, 5, 127])
def test_an_extension_value_of_msgpack_travels(code: int) -> None:
    """Its sender could pack it and its receiver refused it: the batch, with the calls of others, was dropped."""
    value = msgpack.ExtType(code, b"x")
    others = [reply(1, "other"), reply(2, {"v": [value], value: 1}), reply(3, "another")]
    heard = codec.decode(packed(others))
    assert heard == others
    assert type(heard[1].body["v"][0]) is msgpack.ExtType
    assert packed(heard) == packed(others), "it travels on"


@dataclasses.dataclass(frozen=True)
class Reading:
    """With a number of another library in it."""

    value: object


@pytest.mark.parametrize(("kind", "plain"), [("int64", 3), ("uint8", 3), ("float64", 1.5), ("float32", 1.5)])
def test_numbers_of_numpy_travel_as_numbers(kind: str, plain: object) -> None:
    """numpy.float64 travelled and numpy.int64 did not, because one of them happens to be a subclass of Python's."""
    value = getattr(pytest.importorskip("numpy"), kind)(plain)
    body = codec.decode(packed([reply(1, {"x": [value], "in": Reading(value)})]))[0].body
    assert body == {"x": [plain], "in": {"value": plain}}
    assert type(body["x"][0]) is type(plain)


def test_a_fraction_does_not_travel_as_a_number_with_fewer_digits() -> None:
    """It is an exact number, and whoever sends one means that."""
    with pytest.raises(
        InvalidArgument, match=r"the value of 'share' cannot be serialised: .* fractions\.Fraction is unsupported"
    ):
        encoder.encode(reply(1, {"size": 3, "share": Fraction(1, 3)}))
    with pytest.raises(InvalidArgument, match="the value of 'share' cannot be serialised"):
        encoder.call(1, CallSpec("a.b", {"size": 3, "share": object()}, ends_ns=5))


def test_a_key_that_is_a_frozen_dataclass_spoils_nothing() -> None:
    """It is a map when it is packed."""
    assert codec.decode(packed([reply(1, {Spot(1, 2): "a"})]))[0].body == {(("x", 1), ("y", 2)): "a"}


class Hostile(dict):  # type: ignore[type-arg]
    """A mapping whose code fails."""

    def items(self) -> None:  # type: ignore[override]
        raise KeyError("gone")


def test_a_value_whose_own_code_fails_is_an_invalid_argument() -> None:
    """Its error escaped, and ended the process that wanted to answer."""
    with pytest.raises(InvalidArgument, match="a value cannot be serialised: 'gone'"):
        encoder.encode(reply(1, Hostile(a=1)))
    assert encoder.encode(reply(1, 1))


class Counted:
    """A number of another library, which calls `act` while it is packed."""

    def __init__(self, act: Callable[[], Any] = lambda: None) -> None:
        self.act = act

    def __int__(self) -> int:
        act, self.act = self.act, lambda: None
        act()
        return 1


numbers.Integral.register(Counted)


@pytest.mark.parametrize("change", [list.pop, lambda items: items.append(1), list.clear])
def test_a_list_that_changes_while_it_is_packed_spoils_no_batch(change: Callable[[list[Any]], Any]) -> None:
    """Another thread may change it. Its length is written first: readers took the bytes behind it for its items, or its last
    items for what follows. The caller got a wrong answer, or none, and so did others whose answers shared the frame.
    """
    items: list[Any] = [1, 1, Counted(lambda: change(items)), 1, 1]
    with pytest.raises(InvalidArgument, match="a value changed while it was being packed: pass a copy"):
        encoder.encode(reply(1, items))
    items[:] = [1, 1, Counted(lambda: change(items)), 1, 1]
    with pytest.raises(InvalidArgument, match="changed while it was being packed"):
        encoder.reply(1, items)
    assert encoder.reply(1, [Counted(), Counted()]) == encoder.reply(1, [1, 1])


def test_a_map_that_changes_while_it_is_packed_is_refused() -> None:
    """So is one whose names change while the culprit is looked for."""
    table: dict[Any, Any] = {number: Counted() for number in range(5)}

    def change() -> None:
        table[len(table) + 99] = Counted(change)
        del table[next(iter(table))]

    table[2] = Counted(change)
    with pytest.raises(InvalidArgument, match="chang"):
        Encoder(has_signals=False).reply(1, table)
    assert encoder.reply(1, 1)


def test_a_deep_value_with_a_number_of_another_library_travels() -> None:
    """Whether a value has changed is looked at without recursion limits of its own."""
    body: Any = Counted()
    for _ in range(500):
        body = [body]
    assert codec.decode(packed([reply(1, body)]))[0].id == 1


def fails_once() -> None:
    raise RuntimeError("dictionary changed size during iteration")


def ends_the_program() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("act", "words"), [(fails_once, "dictionary changed size"), (ends_the_program, "SystemExit: 3")]
)
def test_in_a_workers_thread_a_value_that_fails_is_an_invalid_argument(act: Callable[[], None], words: str) -> None:
    """No signal handler runs there. An error that did not come again passed for one of a signal handler, and an exit escaped:
    both ended the process of the operation whose result it was.
    """
    worker = Encoder(has_signals=False)
    with pytest.raises(InvalidArgument, match=words):
        worker.reply(1, [Counted(act)])
    assert worker.reply(1, 1)
    assert encoder.reply(1, 1)


class Struck(dict):  # type: ignore[type-arg]
    """A mapping during whose packing a signal arrives, once."""

    is_struck = False

    def items(self) -> Any:
        if not self.is_struck:
            self.is_struck = True
            signal.raise_signal(signal.SIGUSR1)
        return super().items()


@pytest.fixture
def handler_that_raises() -> Iterator[None]:
    """SIGUSR1 raises TimeoutError, as programs do with SIGALRM to limit a step."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the step took too long")

    before = signal.signal(signal.SIGUSR1, handle)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("handler_that_raises")
@pytest.mark.parametrize("pack", [lambda body: encoder.reply(1, body), encoder.pack], ids=["reply", "body"])
def test_the_exception_of_a_signal_handler_during_packing_reaches_the_caller(pack: Callable[[Any], bytes]) -> None:
    """It became InvalidArgument, and a program's own time limit looked like a bad argument."""
    body = {"size": 1, "table": Struck(a=1)}
    with pytest.raises(TimeoutError, match="the step took too long"):
        pack(body)
    assert pack(body) == pack({"size": 1, "table": {"a": 1}}), "the packer is as good as new"


@pytest.mark.usefixtures("handler_that_raises")
def test_the_exception_of_a_signal_handler_during_unpacking_loses_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frame counted as malformed, and the calls whose answers it held ended at their deadlines."""
    unpack = msgpack.unpackb

    def strike(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(msgpack, "unpackb", unpack)
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(msgpack, "unpackb", strike)
    frame = packed([reply(1, "x")])
    with pytest.raises(TimeoutError, match="the step took too long"):
        codec.decode(frame)
    assert codec.decode(frame) == [reply(1, "x")]


def test_the_head_of_what_is_too_large_is_found_and_nothing_more() -> None:
    """Who waits for an answer must get one, whatever the size; and what a stranger claims is not believed."""
    packed = codec.Encoder().encode(Envelope(CALL, 2**64 - 1, 0, "a.b", None, None, None, {"x": bytes(1 << 20)}))
    assert codec.head(memoryview(codec.batch([packed]))) == (CALL, 2**64 - 1)
    assert codec.head(codec.batch([packed, packed])) is None
    for frame in (
        b"",
        b"\xc1",
        b"\x91",
        b"\x91\x99",
        b"\x91\x99\x01",
        b"\x91\x99\xdd\xff\xff\xff\xff",
        b"\x91\x98\x01\x01",
    ):
        assert codec.head(frame) is None
    assert codec.head(b"\x91\x99\xa1x\x01") is None


@given(st.binary(max_size=64))
def test_the_head_of_anything_is_two_numbers_or_nothing(frame: bytes) -> None:
    """Whatever came, the reader goes on."""
    found = codec.head(frame)
    assert found is None or [type(number) for number in found] == [int, int]


def test_an_idempotency_key_is_a_tenth_field_and_costs_others_nothing() -> None:
    """Calls without one are what they were, byte for byte."""
    plain = Envelope(CALL, 1, None, "a.b", None, -5, None, {})
    keyed = Envelope(CALL, 1, None, "a.b", None, -5, None, {}, None, "k")
    assert decode(batch([Encoder().encode(keyed)])) == [keyed]
    assert Encoder().call(1, CallSpec("a.b", {}, ends_ns=5, idempotency_key="k")) == Encoder().encode(keyed)
    assert len(Encoder().encode(keyed)) == len(Encoder().encode(plain)) + len("k") + 1
    assert Encoder().encode(plain)[0] == 0x99


@pytest.mark.parametrize(
    "row",
    [
        [CALL, 1, None, "a.b", None, None, None, {}, None, 7],
        [CALL, 1, None, "a.b", None, None, None, {}, None, None],
        [CALL, 1, None, "a.b", None, None, None, {}, None, "k", "more"],
        [REPLY, 1, None, None, None, None, None, 1, None, "k"],
    ],
)
def test_ten_fields_are_those_of_a_call_with_a_key(row: list[object]) -> None:
    """Whatever else has ten is not ours."""
    with pytest.raises(MalformedFrame):
        decode(msgpack.packb([row]))


def test_a_status_says_whether_the_work_has_begun_and_nothing_else_in_that_place_counts() -> None:
    """A peer that does not know the word ignores it; and one that says another is not believed."""
    error = Busy("full", retry_after=0.5)
    (refused,) = decode(batch([Encoder().encode(status(7, error, is_refused=True))]))
    assert refused.is_refused and refused.body == [8, "full", 0.5, None]
    assert refused.row()[3] == REFUSED and refused.route is None
    assert not decode(batch([Encoder().encode(status(7, error))]))[0].is_refused
    for strange in ("begun", 7, ["refused"]):
        row = [STATUS, 7, None, strange, None, None, None, [8, "full", 0.5, None], None]
        assert not decode(msgpack.packb([row]))[0].is_refused


@given(id=st.integers(1, 2**40), new=st.integers(1, 2**40), key=st.none() | texts)
def test_what_is_said_again_is_said_in_the_same_words_under_another_id(id: int, new: int, key: str | None) -> None:
    """In every way in which an id is packed."""
    packed = Encoder().call(id, CallSpec("a.b", {"x": "y"}, ends_ns=5, idempotency_key=key))
    (again,) = decode(batch([renumbered(packed, new)]))
    assert again == Envelope(CALL, new, None, "a.b", None, -5, None, {"x": "y"}, None, key)


@pytest.mark.parametrize("id", [0, 1, (1 << 32) - 1, 1 << 32, 1 << 40])
def test_what_is_packed_once_goes_out_under_any_id(id: int) -> None:
    """Ids of a publisher grow for ever; one that is cut counts as a gap of four billion messages."""
    told = Envelope(PUBLISH, 7, 3, "files.changed", body={"path": "a"})
    (heard,) = decode(batch([codec.with_id(PUBLISH, id, encoder.rest(told))]))
    assert heard == Envelope(PUBLISH, id, 3, "files.changed", body={"path": "a"})


@pytest.mark.parametrize("body", [[3, "no", None], [3, "no", None, None, None], [], None])
def test_a_status_has_four_fields(body: object) -> None:
    """Whoever gets it takes it apart without asking."""
    with pytest.raises(MalformedFrame):
        decode(batch([encoder.encode(Envelope(STATUS, 1, body=body))]))


@pytest.mark.parametrize(("deadline", "ends_ns"), [(5, 105), (0, 100), (-5, 5), (-200, 200)])
def test_a_deadline_is_a_duration_or_a_time(deadline: int, ends_ns: int) -> None:
    """Below 0 it is a time of the clock that callers share with the callee: what was spent in a socket is spent."""
    assert due_ns(deadline, 100) == ends_ns


class Failing(Unavailable):
    """Its fields raise."""

    def __init__(self) -> None: ...

    @property
    def message(self) -> str:  # type: ignore[override]
        raise SystemExit(3)

    retry_after = message  # type: ignore[assignment]
    trace = message


class Endless(Busy):
    """A hint of 400 digits."""

    retry_after = 10**400


class Unlisted(Busy):
    """A status that is none."""

    status = "busy"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (Failing(), [14, "Failing", None, None]),
        (Endless("later"), [8, "later", None, None]),
        (Unlisted("later"), [13, "later", None, None]),
        (Unavailable("later", retry_after=2), [14, "later", 2.0, None]),
    ],
)
def test_a_status_travels_whatever_its_error_is_made_of(error: BackplaneError, body: list[object]) -> None:
    """An error of a user's own class escaped as another error, and ended the process of the operation that raised it."""
    (told,) = decode(batch([encoder.encode(status(1, error))]))
    assert told.body == body


def test_a_status_can_always_travel() -> None:
    """Whatever a person has put into the error."""
    error = Busy("later", retry_after="soon", trace="x" * (2 * TRACE_MAX))  # type: ignore[arg-type]
    (told,) = decode(batch([encoder.encode(status(1, error))]))
    assert told.body[2] is None
    assert TRACE_MAX <= len(told.body[3]) < TRACE_MAX + 100
