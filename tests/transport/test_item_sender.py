"""Item sender: what a caller sends of a streamed argument, and the buffer from which an operation reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from appbackplane.transport import codec
from appbackplane.transport.argument_stream import TOGETHER_MAX, ArgumentStream, take_stream
from appbackplane.transport.batching import BATCH_BYTES_MAX
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.envelope import ARGUMENT_ITEMS, Envelope
from appbackplane.transport.errors import InternalError, InvalidArgument
from appbackplane.transport.item_buffer import ItemBuffer
from appbackplane.transport.item_sender import BYTES_AHEAD_MAX, ItemSender
from appbackplane.transport.streamed import stream

SPEC = CallSpec("index.load", {"rows": 4}, streamed="rows")


class Wire:
    """A sender and the buffer at the other end; what is on its way between them is delivered one by one."""

    def __init__(self, window: int, items: list[Any]) -> None:
        self.sender = ItemSender(SPEC, window)
        self.buffer = ItemBuffer("index.load", window, credit=0)
        self.fetched = 0
        self.read: list[Any] = []
        self.sent: deque[Envelope] = deque()
        self.credit: deque[int] = deque()
        self._items = self._fetched(items)
        self._is_complete = False

    def fetch(self, count_max: int) -> None:
        """The caller fetches what there is room for, and sends it."""
        if self._is_complete or not self.sender.has_room():
            return
        packed, self._is_complete = self.sender.fetch(self._items, count_max)
        self.sender.put(packed, is_last=self._is_complete)
        for envelope in self.sender.envelopes(7):
            self.sent += codec.decode(codec.batch([envelope]))

    def deliver_items(self) -> None:
        """The next envelope reaches the callee."""
        if self.sent:
            envelope = self.sent.popleft()
            assert (envelope.kind, envelope.id) == (ARGUMENT_ITEMS, 7)
            assert self.buffer.put(envelope.body, envelope.number, envelope.is_blocked)
            if envelope.is_last:
                self.buffer.end(envelope.number + len(envelope.body))

    def take(self) -> None:
        """The operation reads what has come, or asks for more."""
        items = self.buffer.take()
        if items is not None:
            self.read += items
        if credit := self.buffer.credit_due():
            self.buffer.gave(credit)
            self.credit.append(credit)

    def deliver_credit(self) -> None:
        """The next credit reaches the caller."""
        if self.credit:
            self.sender.receive_credit(self.credit.popleft())

    def run(self) -> None:
        """Until nothing moves any more."""
        before: object = None
        while before != (before := self._state()):
            for step in (self.take, self.deliver_credit, lambda: self.fetch(TOGETHER_MAX), self.deliver_items):
                step()

    def _state(self) -> object:
        return (
            self.fetched, len(self.read), self.buffer.has_ended, len(self.sent), len(self.credit),
        )  # fmt: skip

    def _fetched(self, items: list[Any]) -> Iterator[Any]:
        for item in items:
            self.fetched += 1
            yield item


STEPS = st.lists(st.sampled_from(["fetch 1", "fetch 3", "deliver", "take", "credit"]), max_size=200)


@given(window=st.integers(1, 9), count=st.integers(0, 40), steps=STEPS)
def test_all_items_come_in_order_and_then_the_end(window: int, count: int, steps: list[str]) -> None:
    """However the two sides take turns; and the caller is never ahead of the operation by more than the window."""
    wire = Wire(window, [*range(count)])
    do = {
        "fetch 1": lambda: wire.fetch(1), "fetch 3": lambda: wire.fetch(3), "deliver": wire.deliver_items,
        "take": wire.take, "credit": wire.deliver_credit,
    }  # fmt: skip
    for step in steps:
        do[step]()
        assert wire.fetched <= len(wire.read) + window
        assert wire.read == [*range(len(wire.read))]
    wire.run()
    assert wire.read == [*range(count)]
    assert wire.buffer.has_ended and wire.buffer.error is None
    assert not wire.sender.has_room()


@example(sizes=[300_000] * 8, window=9)
@given(sizes=st.lists(st.integers(0, 700_000), max_size=12), window=st.integers(1, 9))
def test_large_items_count_by_their_bytes(sizes: list[int], window: int) -> None:
    """A window of items alone would let a thousand of 1 MiB pile up, and then wait for credit that never comes."""
    wire = Wire(window, [bytes(size) for size in sizes])
    wire.take()
    wire.deliver_credit()
    while wire.sender.has_room():
        wire.fetch(1)
    ahead = sizes[: wire.fetched]
    assert sum(ahead[:-1]) < BYTES_AHEAD_MAX
    for envelope in wire.sent:
        assert sum(map(len, envelope.body)) <= BATCH_BYTES_MAX or len(envelope.body) == 1
    wire.run()
    assert [*map(len, wire.read)] == sizes
    assert wire.buffer.has_ended and wire.buffer.error is None


def test_nothing_is_fetched_before_the_operation_asks() -> None:
    """A call that is refused, or waits in a queue, has not touched its iterable."""
    wire = Wire(4, [*range(9)])
    wire.fetch(9)
    wire.deliver_items()
    assert (wire.fetched, wire.sender.has_credit) == (0, False)
    wire.take()
    wire.deliver_credit()
    wire.fetch(9)
    assert (wire.fetched, wire.sender.has_credit) == (4, True)


def test_credit_beyond_what_was_sent_counts_as_the_window() -> None:
    """A forged one would have the caller fetch without any bound, and fill the memory of both."""
    sender = ItemSender(SPEC, 4)
    for credit in (10**9, -5, 3):
        sender.receive_credit(credit)
    assert [sender.has_room(count) for count in (3, 4)] == [True, False]
    sender.put([b"\x01"] * 4, is_last=False)
    sender.envelopes(7)
    sender.receive_credit(10**9)
    assert [sender.has_room(count) for count in (3, 4)] == [True, False]


def test_items_that_were_sent_before_credit_end_the_stream() -> None:
    """A caller that sends without being asked would fill the memory of its callee."""
    buffer = ItemBuffer("index.load", 4, credit=0)
    assert not buffer.put([1], 0, False)
    with pytest.raises(InternalError, match="its sender sends more items than it was allowed to"):
        buffer.check_end()


def test_an_item_that_cannot_be_sent_is_named() -> None:
    """By the route, the argument, and its number."""
    sender = ItemSender(SPEC, 4)
    sender.receive_credit(4)
    with pytest.raises(InvalidArgument, match=r"^index\.load: item 1 of argument 'rows' cannot be sent: .*object"):
        sender.fetch(iter([1, object()]), 9)


@pytest.mark.parametrize("items", [[1], (1,), range(1), {1}, {1: 2}])
def test_items_of_a_container_leave_together(items: Any) -> None:
    """Those of any other iterator leave one by one: its next step may wait for what the last item causes."""
    assert stream(items).together_max == TOGETHER_MAX
    assert stream(iter(items)).together_max == 1


def test_a_stream_is_taken_out_of_the_arguments() -> None:
    """They are the user's own, and may be used for the next call."""
    rows, body = stream([1], window=3), {"name": "x"}
    asked = {**body, "rows": rows}
    spec = CallSpec("index.load", asked)
    assert take_stream(spec) is rows
    assert (spec.streamed, spec.body) == ("rows", {"name": "x", "rows": 3})
    assert asked["rows"] is rows
    assert take_stream(CallSpec("index.load", body)) is None


@pytest.mark.parametrize("wrong", [5, None, object(), int])
def test_what_cannot_be_iterated_is_no_stream(wrong: Any) -> None:
    """It is refused where it is made, and not once the call is on its way."""
    with pytest.raises(InvalidArgument, match=r"^stream\(\) takes an iterable, got "):
        stream(wrong)


@pytest.mark.parametrize("window", [0, -1, 65_537, 1.5, True, None])
def test_a_window_is_a_number_of_items(window: Any) -> None:
    """A window of nothing would never move."""
    with pytest.raises(InvalidArgument, match="window must be a whole number of items, 1 to 65,536"):
        stream([], window=window)


def test_a_stream_is_not_packed_by_mistake() -> None:
    """A list of one would otherwise reach the callee as something else."""
    with pytest.raises(InvalidArgument, match="a stream can only be one whole argument of call"):
        codec.Encoder().pack([ArgumentStream([1], 4)])
