"""Streams that an operation reads from another backplane, step by step, and how each can break without being noticed."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from appbackplane.runtime import AppObject, operation, pause
from appbackplane.runtime.execution.workers.current import current
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.testing.virtual_backplane import OutsideCall
from appbackplane.runtime.testing.virtual_client import VirtualCall
from appbackplane.transport import codec, envelope
from appbackplane.transport.errors import Cancelled, InternalError, InvalidArgument, PeerDown
from appbackplane.transport.item_buffer import ItemBuffer
from tests.nesting import UNREADABLE_DEPTH, nested


class Reader(AppObject):
    """Reads."""

    def __init__(self) -> None:
        self.rows: Any = None

    @operation(priority=6)
    async def reads(self) -> list[Any]:
        return [row async for row in self.stream("far.rows", window=4)]

    @operation()
    async def page(self) -> Any:
        if self.rows is None:
            self.rows = self.stream("far.rows", window=4)
        return await anext(self.rows, "end")

    @operation()
    async def fails(self) -> None:
        rows = self.stream("far.rows", window=4)
        async for _ in rows:
            raise InvalidArgument("bad row")

    @operation(priority=0)
    def urgent(self) -> int:
        return 1

    @operation()
    async def patient(self) -> AsyncIterator[Any]:
        for number in range(3):
            try:
                yield await self.call("far.rows", number=number, retry=False)
            except InvalidArgument:
                yield "none"

    @operation()
    async def deep(self) -> int:
        return len([row async for row in self.stream("bench.nests")])


class Other(AppObject):
    """Streams."""

    @operation()
    def nests(self) -> Iterator[Any]:
        yield 1
        yield nested(UNREADABLE_DEPTH)

    @operation()
    def large(self) -> Iterator[Any]:
        yield "a" * 1000
        yield b"b" * (codec.ITEM_BYTES_MAX - 5)
        yield "c"

    @operation()
    async def mixed(self) -> AsyncIterator[str]:
        for text in ("a", "b", "x" * 2_000_000, "c"):
            yield text
            await pause(0.01)

    @operation()
    async def stubborn(self) -> AsyncIterator[int]:
        for number in range(10**9):
            try:
                await pause(0.01)
            except Cancelled:
                continue
            yield number


@pytest.fixture
def backplane() -> VirtualBackplane:
    backplane = VirtualBackplane(outside=("far.rows",))
    backplane.add(Reader())
    backplane.add(Other())
    return backplane


def begun(backplane: VirtualBackplane, route: str = "bench.reads") -> tuple[VirtualCall, OutsideCall]:
    """A call that reads, and the call for the stream."""
    call = backplane.call(route, timeout=20)
    backplane.run_until_idle()
    return call, backplane.outside_calls("far.rows")[0]


def say(backplane: VirtualBackplane, stream: OutsideCall, first: int, *items: int) -> None:
    """Its callee sends items."""
    backplane.hear(envelope.items(stream.envelope.id, [*items], first, is_blocked=False), stream._peer)


def test_the_end_may_come_while_the_worker_fetches_the_lead(backplane: VirtualBackplane) -> None:
    """Another worker has received it: the stream was begun anew, and the reader got all items twice."""
    call, stream = begun(backplane)
    engine, now_ns, worker = backplane.backplane.engine, backplane.clock.now_ns(), backplane._worker
    assert worker is not None
    say(backplane, stream, 0, 0, 1)
    engine.drain(now_ns)
    current.worker = worker
    action = engine.choose(worker)
    assert action is not None
    ran = engine.execute(worker, action)
    engine.hear(stream._peer, envelope.items(stream.envelope.id, [2], 2, is_blocked=False), now_ns)
    engine.hear(stream._peer, envelope.reply(stream.envelope.id, 3), now_ns)
    engine.complete(action, *ran)
    current.worker = None
    backplane.run_until_idle()
    assert len(backplane.outside_calls("far.rows")) == 1
    assert call.result() == [0, 1, 2]


def test_items_that_come_with_the_end_are_read(backplane: VirtualBackplane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks of the reader, which holds no lock: the last items were lost, and the end looked like one."""
    call, stream = begun(backplane)
    engine, take, came = backplane.backplane.engine, ItemBuffer.take, []

    def late(buffer: ItemBuffer) -> list[Any] | None:
        items = take(buffer)
        if items is None and not came:
            came.append(1)
            now_ns = backplane.clock.now_ns()
            engine.hear(stream._peer, envelope.items(stream.envelope.id, [2], 2, is_blocked=False), now_ns)
            engine.hear(stream._peer, envelope.reply(stream.envelope.id, 3), now_ns)
        return items

    try:
        monkeypatch.setattr(ItemBuffer, "take", late)
    except TypeError:
        pytest.skip("compiled: its method cannot be replaced")
    say(backplane, stream, 0, 0, 1)
    assert call.result() == [0, 1, 2]


@pytest.mark.parametrize(("first", "count"), [(3, 2), (2, 3)], ids=["a hole", "a short end"])
def test_a_stream_with_a_hole_ends_in_an_error(backplane: VirtualBackplane, first: int, count: int) -> None:
    """Whatever has lost the items: a list that lacks some looks complete."""
    call, stream = begun(backplane)
    say(backplane, stream, 0, 0, 1)
    if first == 3:
        say(backplane, stream, 3, 3)
    else:
        stream.reply(count)
    assert "1 items of the stream were lost on the way" in str(call.error())


def test_items_that_come_twice_are_read_once(backplane: VirtualBackplane) -> None:
    """A signal's exception may have the same event handled again."""
    call, stream = begun(backplane)
    for _ in range(2):
        say(backplane, stream, 0, 0, 1)
    say(backplane, stream, 2, 2)
    say(backplane, stream, 0, 0, 1)
    stream.reply(3)
    assert call.result() == [0, 1, 2]


def test_a_large_item_behind_small_ones_gets_its_credit(backplane: VirtualBackplane) -> None:
    """Credit that did not help the callee must not be taken for the one that it waits for."""
    stream = backplane.stream("bench.mixed", window=4)
    backplane.advance(1)
    assert [len(next(stream)) for _ in range(3)] == [1, 1, 2_000_000]
    with pytest.raises(AssertionError, match="no item has come"):
        next(stream)  # which returns credit
    backplane.advance(1)
    assert next(stream) == "c"
    buffer = ItemBuffer("far.rows", 4)
    for number in range(3):
        assert buffer.put([number], number, number == 2)
    buffer.take(), buffer.take()
    assert buffer.credit_due() == 6
    buffer.gave(6)
    buffer.take()
    assert buffer.credit_due() == 7


def test_a_stream_ends_with_the_operation_that_reads_it(backplane: VirtualBackplane) -> None:
    """It failed, and its traceback still holds the stream: the callee's object was kept until the deadline."""
    call, stream = begun(backplane, "bench.fails")
    say(backplane, stream, 0, 0)
    assert "bad row" in str(call.error())
    backplane.run_until_idle()
    gc.collect()
    backplane.outside_calls()
    assert stream.is_cancelled
    assert not backplane.backplane.engine.outgoing.streams


def test_a_second_operation_does_not_read_on(backplane: VirtualBackplane) -> None:
    """Its stream has ended with the first, and it is told so; its object waited for ever."""
    call, stream = begun(backplane, "bench.page")
    say(backplane, stream, 0, 0)
    assert call.result() == 0
    second = backplane.call("bench.page", timeout=5)
    assert "the operation that began it has ended" in str(second.error())
    assert backplane.call("bench.urgent", timeout=5).result() == 1
    assert stream.is_cancelled


def test_urgent_work_that_queues_behind_a_running_reader_boosts_its_stream(backplane: VirtualBackplane) -> None:
    """The reader was boosted, and the callee that it then waits for was not (law 10)."""
    _, stream = begun(backplane)
    engine, now_ns, worker = backplane.backplane.engine, backplane.clock.now_ns(), backplane._worker
    assert worker is not None
    say(backplane, stream, 0, 0)
    engine.drain(now_ns)
    current.worker = worker
    action = engine.choose(worker)
    assert action is not None
    ran = engine.execute(worker, action)
    backplane.call("bench.urgent")
    engine.drain(now_ns)
    engine.complete(action, *ran)
    current.worker = None
    backplane.run_until_idle()
    backplane.outside_calls()
    assert stream.boosted_to == 0


def test_an_item_that_cannot_be_read_again_is_not_sent(backplane: VirtualBackplane) -> None:
    """It was dropped on the way, or ended the process that read it."""
    assert isinstance(backplane.call("bench.deep").error(), InternalError)


def test_an_envelope_holds_no_more_than_a_frame(backplane: VirtualBackplane) -> None:
    """The largest item behind a small one made a frame that its receiver dropped."""
    assert [len(item) for item in backplane.stream("bench.large")] == [1000, codec.ITEM_BYTES_MAX - 5, 1]


def test_a_result_is_no_stream(backplane: VirtualBackplane) -> None:
    """A callee that does not know streams, such as the supervisor, answers with its result: it is no empty stream."""
    call, stream = begun(backplane)
    stream.reply([1, 2])
    assert "far.rows has one result, and no stream of items" in str(call.error())


def test_a_dead_callee_ends_it_after_the_items_that_came(backplane: VirtualBackplane) -> None:
    """In PEER_DOWN; the operation is unavailable to its own caller."""
    call, stream = begun(backplane)
    say(backplane, stream, 0, 0, 1)
    backplane.run_until_idle()
    backplane.kill_outside()
    assert call.error().status.name == "UNAVAILABLE"
    assert isinstance(call.error(), InternalError | PeerDown) is False


def test_a_generator_that_swallows_its_cancellation_ends_at_its_next_item(backplane: VirtualBackplane) -> None:
    """It would fill its window for nobody, and keep its object."""
    stream = backplane.stream("bench.stubborn", window=100)
    backplane.advance(0.05)
    assert next(stream) == 0
    stream.close()
    backplane.advance(0.05)
    assert backplane.call("bench.nests", retry=False).error().status.name == "INVALID_ARGUMENT", "its object is free"


def test_a_generator_may_handle_the_error_of_a_call(backplane: VirtualBackplane) -> None:
    """That is not the end of its stream: only its own cancellation and deadline are."""
    stream = backplane.stream("bench.patient")
    for number, answer in enumerate(("a", None, "c")):
        backplane.run_until_idle()
        call = backplane.outside_calls("far.rows")[number]
        if answer is None:
            call.fail(InvalidArgument("no such row"))
        else:
            call.reply(answer)
    assert list(stream) == ["a", "none", "c"]


def test_more_items_than_allowed_end_the_stream(backplane: VirtualBackplane) -> None:
    """A faulty callee would fill the memory of its reader."""
    call, stream = begun(backplane)
    say(backplane, stream, 0, *range(5))
    assert "its sender sends more items than it was allowed to" in str(call.error())
    backplane.outside_calls()
    assert stream.is_cancelled
