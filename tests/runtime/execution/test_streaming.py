"""Streaming: a generator operation sends its items within its reader's window, and ends exactly once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from appbackplane.runtime import AppObject, operation, pause
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport import envelope
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import (
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
)


class Numbers(AppObject):
    """Counts, and notes how far it has come and how it has ended."""

    def __init__(self) -> None:
        self.yielded = 0
        self.ended_by: list[str] = []

    @operation()
    def upto(self, count: int, text: str = "") -> Iterator[Any]:
        try:
            for number in range(count):
                self.yielded += 1
                yield text or number
            self.ended_by.append("end")
        except BaseException as error:
            self.ended_by.append(type(error).__name__)
            raise

    @operation()
    async def slowly(self, count: int) -> AsyncIterator[int]:
        try:
            for number in range(count):
                await pause(1)
                self.yielded += 1
                yield number
            self.ended_by.append("end")
        except BaseException as error:
            self.ended_by.append(type(error).__name__)
            raise

    @operation()
    async def doubled(self, count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield await self.call("bench.double", number=number)

    @operation()
    def fails(self) -> Iterator[int]:
        yield 1
        raise InvalidArgument("no second one")

    @operation()
    def unsendable(self) -> Iterator[Any]:
        yield 1
        yield object()

    @operation()
    def changes(self) -> Iterator[list[int]]:
        row = [0]
        for number in range(3):
            row[0] = number
            yield row

    @operation()
    def calls(self) -> Iterator[Any]:
        yield self.call("bench.double", number=1)

    @operation()
    def one(self) -> int:
        return 1


class Doubler(AppObject):
    """Another object."""

    @operation()
    def double(self, number: int) -> int:
        return 2 * number


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


@pytest.fixture
def backplane(numbers: Numbers) -> VirtualBackplane:
    backplane = VirtualBackplane()
    backplane.add(numbers)
    backplane.add(Doubler())
    return backplane


def test_all_items_come_in_order_and_then_the_end(backplane: VirtualBackplane, numbers: Numbers) -> None:
    """A stream that lost or repeated one would be worse than a list."""
    assert list(backplane.stream("bench.upto", count=5000)) == [*range(5000)]
    assert numbers.ended_by == ["end"]


@pytest.mark.parametrize("window", [1, 2, 3, 7, 1024])
def test_the_callee_runs_ahead_by_the_window_and_no_further(
    backplane: VirtualBackplane, numbers: Numbers, window: int
) -> None:
    """A slow reader would otherwise cost the callee's memory, or its worker."""
    stream = backplane.stream("bench.upto", count=5000, window=window)
    backplane.run_until_idle()
    assert numbers.yielded == window
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    assert numbers.yielded <= 3 + window
    assert list(stream) == [*range(3, 5000)]


def test_large_items_count_by_their_bytes(backplane: VirtualBackplane, numbers: Numbers) -> None:
    """A window of items alone would let a thousand of 1 MiB pile up, and then wait for credit that never comes."""
    stream = backplane.stream("bench.upto", count=40, text="x" * 100_000)
    backplane.run_until_idle()
    assert 10 <= numbers.yielded <= 12
    assert sum(1 for _ in stream) == 40


def test_a_reader_that_leaves_ends_the_generator(backplane: VirtualBackplane, numbers: Numbers) -> None:
    """Work that nobody reads would go on for ever."""
    for number in backplane.stream("bench.upto", count=5000, window=4):
        if number == 10:
            break
    backplane.run_until_idle()
    assert numbers.ended_by == ["GeneratorExit"]
    assert numbers.yielded < 20


@pytest.mark.parametrize("read", [0, 1, 2])
def test_closing_ends_an_async_generator_at_its_await(backplane: VirtualBackplane, numbers: Numbers, read: int) -> None:
    """Where it awaits it is cancelled as any operation; where it has yielded it is closed."""
    stream = backplane.stream("bench.slowly", count=5, window=2)
    for number in range(read):
        backplane.advance(1)
        assert next(stream) == number
    backplane.run_until_idle()
    stream.close()
    backplane.run_until_idle()
    assert numbers.ended_by == ["Cancelled"]
    assert next(stream, "nothing") == "nothing"


def test_an_async_generator_that_waits_for_credit_is_closed(backplane: VirtualBackplane, numbers: Numbers) -> None:
    """It waits at a yield, where a generator is closed by GeneratorExit."""
    stream = backplane.stream("bench.slowly", count=5, window=1)
    backplane.advance(3)
    assert numbers.yielded == 1
    stream.close()
    backplane.run_until_idle()
    assert numbers.ended_by == ["GeneratorExit"]


def test_an_async_generator_may_call(backplane: VirtualBackplane) -> None:
    """Between two items it waits as any operation does."""
    assert list(backplane.stream("bench.doubled", count=4)) == [0, 2, 4, 6]


def test_other_objects_run_between_the_items(backplane: VirtualBackplane) -> None:
    """A stream whose reader sleeps must not keep a worker."""
    stream = backplane.stream("bench.upto", count=5000, window=1)
    assert next(stream) == 0
    assert backplane.call("bench.double", number=21, priority=0).result() == 42


def test_a_broken_stream_ends_in_its_error(backplane: VirtualBackplane) -> None:
    """After the items that came before it: a list that ends early looks complete."""
    stream = backplane.stream("bench.fails")
    assert next(stream) == 1
    with pytest.raises(InvalidArgument, match="no second one"):
        next(stream)
    assert next(stream, "nothing") == "nothing"


def test_an_item_that_cannot_be_sent_ends_the_stream(backplane: VirtualBackplane) -> None:
    """And names the operation."""
    stream = backplane.stream("bench.unsendable")
    assert next(stream) == 1
    with pytest.raises(InternalError, match=r"bench.unsendable yielded an item that cannot be sent: .*object"):
        next(stream)


def test_an_item_is_as_it_was_when_it_was_yielded(backplane: VirtualBackplane) -> None:
    """A generator may use its row again."""
    assert list(backplane.stream("bench.changes")) == [[0], [1], [2]]


def test_a_stream_that_nobody_reads_ends_by_its_deadline(backplane: VirtualBackplane, numbers: Numbers) -> None:
    """Else it would keep its object for ever."""
    stream = backplane.stream("bench.upto", count=5000, window=2, timeout=3)
    backplane.advance(5)
    assert numbers.ended_by == ["GeneratorExit"]
    assert [next(stream), next(stream)] == [0, 1]
    with pytest.raises(DeadlineExceeded, match=r"bench\.upto"):
        next(stream)


def test_a_stream_is_read_once(backplane: VirtualBackplane) -> None:
    """A second loop would find it empty, and take that for a result."""
    stream = backplane.stream("bench.upto", count=3)
    assert list(stream) == [0, 1, 2]
    with pytest.raises(FailedPrecondition, match="a stream can be read once"):
        list(stream)


@pytest.mark.parametrize("window", [0, -1, 65_537, 1.5, True, None])
def test_a_window_is_a_number_of_items(backplane: VirtualBackplane, window: Any) -> None:
    """A window of nothing would never move."""
    with pytest.raises(InvalidArgument, match="window must be a whole number of items, 1 to 65,536"):
        backplane.stream("bench.upto", count=3, window=window)


def test_a_stream_is_asked_for_as_one(backplane: VirtualBackplane) -> None:
    """A call would get no result, and a stream of one result would hide the mistake."""
    with pytest.raises(InvalidArgument, match=r"bench.upto is a generator: read its items with stream\(\)"):
        backplane.call("bench.upto", count=3).result()
    with pytest.raises(InvalidArgument, match=r"bench\.one has one result"):
        list(backplane.stream("bench.one"))
    keyed = CallSpec("bench.upto", {"count": 3}, idempotency_key="a", window=1)
    with pytest.raises(InvalidArgument, match="takes no idempotency key"):
        backplane.hear_call(envelope.call(1_000, keyed, None)).result()


def test_a_plain_generator_cannot_await(backplane: VirtualBackplane) -> None:
    """It would yield the request as an item."""
    with pytest.raises(InternalError, match="declare it `async def`"):
        list(backplane.stream("bench.calls"))


def test_a_stream_is_refused_like_any_call(backplane: VirtualBackplane) -> None:
    """Before its first item."""
    with pytest.raises(InvalidArgument, match="count"):
        list(backplane.stream("bench.upto", count="many"))


def test_only_an_operation_may_be_a_generator() -> None:
    """Nobody reads the items of a timer."""
    with pytest.raises(DeclarationError, match="nobody reads its items"):

        class Wrong(AppObject):
            from appbackplane.runtime import every

            @every(1)
            def tick(self) -> Iterator[int]:
                yield 1


def test_a_caller_that_dies_ends_the_generator(backplane: VirtualBackplane, numbers: Numbers) -> None:
    """As any call of a dead caller."""
    stream = backplane.stream("bench.upto", count=5000, window=2)
    assert next(stream) == 0
    backplane._client._session.cancel(stream._arrived._id)
    backplane._client.look_once()
    backplane.run_until_idle()
    with pytest.raises(Cancelled):
        list(stream)
    assert numbers.ended_by == ["GeneratorExit"]


class Reader(AppObject):
    """Reads streams of other objects."""

    def __init__(self) -> None:
        self.read: list[int] = []

    @operation()
    async def total(self, count: int, window: int = 8) -> int:
        async for number in self.stream("bench.upto", count=count, window=window):
            self.read.append(number)
        return sum(self.read)

    @operation()
    async def first(self, count: int, route: str = "bench.upto") -> int:
        async for number in self.stream(route, count=count, window=2):
            return int(number)
        return -1

    @operation()
    async def relayed(self, count: int) -> AsyncIterator[int]:
        async for number in self.stream("bench.upto", count=count, window=3):
            yield 10 * number

    @operation()
    async def broken(self) -> list[Any]:
        found: list[Any] = []
        try:
            async for number in self.stream("bench.fails"):
                found.append(number)
        except InvalidArgument as error:
            found.append(error.message)
        return found


@pytest.fixture
def reader(backplane: VirtualBackplane) -> Reader:
    reader = Reader()
    backplane.add(reader)
    return reader


@pytest.mark.parametrize("window", [1, 2, 8, 1024])
def test_an_operation_reads_a_stream(backplane: VirtualBackplane, reader: Reader, window: int) -> None:
    """Within its own backplane as from a client."""
    assert backplane.call("bench.total", count=100, window=window).result() == 4950
    assert reader.read == [*range(100)]


def test_an_operation_that_leaves_the_loop_ends_the_stream(
    backplane: VirtualBackplane, reader: Reader, numbers: Numbers
) -> None:
    """The callee's object would else be kept until the deadline."""
    assert backplane.call("bench.first", count=100).result() == 0
    backplane.run_until_idle()
    assert numbers.ended_by == ["GeneratorExit"]
    assert not backplane.backplane.engine.calls


def test_a_stream_may_be_made_of_another(backplane: VirtualBackplane, reader: Reader, numbers: Numbers) -> None:
    """Each waits for the next: a slow reader at the end holds them all."""
    stream = backplane.stream("bench.relayed", count=100, window=2)
    backplane.run_until_idle()
    assert numbers.yielded <= 2 + 3 + 3
    assert list(stream) == [10 * number for number in range(100)]


def test_an_operation_learns_how_a_stream_broke(backplane: VirtualBackplane, reader: Reader) -> None:
    """After the items that came before it."""
    assert backplane.call("bench.broken").result() == [1, "no second one"]


def test_a_cancelled_reader_ends_its_stream(backplane: VirtualBackplane, reader: Reader, numbers: Numbers) -> None:
    """Down the whole chain."""
    stream = backplane.stream("bench.relayed", count=100, window=2)
    assert next(stream) == 0
    stream.close()
    backplane.run_until_idle()
    assert numbers.ended_by == ["GeneratorExit"]
    assert not backplane.backplane.engine.calls


def test_credit_beyond_what_was_sent_counts_as_the_window(backplane: VirtualBackplane, numbers: Numbers) -> None:
    """A forged one would let the generator run ahead without any bound, and fill this process's memory."""
    stream = backplane.stream("bench.upto", count=5000, window=4)
    backplane.run_until_idle()
    backplane.hear(envelope.credit(stream._arrived._id, 10**9))
    backplane.hear(envelope.credit(stream._arrived._id + 1, 10**9))
    backplane.hear(envelope.credit(stream._arrived._id, -5))
    backplane.run_until_idle()
    assert numbers.yielded == 8
    assert [next(stream) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(InternalError, match="its sender sends more items than it was allowed to"):
        next(stream)
