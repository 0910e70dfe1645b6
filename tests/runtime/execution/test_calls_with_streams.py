"""Calls with streams that an operation makes: it iterates in its own action, within the window, and the call ends once."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from appbackplane.runtime import AppObject, operation, pause
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.testing.virtual_backplane import OutsideCall
from appbackplane.runtime.testing.virtual_client import VirtualCall
from appbackplane.transport import envelope, stream
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import Busy, Cancelled, InternalError, InvalidArgument, Unavailable


class Able:
    """An async iterable whose iterator is no iterable, which `async for` does not ask for."""

    def __aiter__(self) -> AsyncIterator[int]:
        return cast(AsyncIterator[int], Counting())


class Counting:
    """Three items."""

    def __init__(self) -> None:
        self.count = 0

    async def __anext__(self) -> int:
        if self.count == 3:
            raise StopAsyncIteration
        self.count += 1
        return self.count


class Sender(AppObject):
    """Sends numbers from 0 to another backplane, and notes how far it has come."""

    def __init__(self) -> None:
        self.fetched = 0
        self.ended_by = ""

    def numbers(self, count: int) -> Iterator[int]:
        try:
            for number in range(count):
                self.fetched += 1
                yield number
            self.ended_by = "end"
        except BaseException as error:
            self.ended_by = type(error).__name__
            raise

    @operation(priority=6)
    async def send(self, count: int = 100, window: int = 4, retry: bool = True) -> Any:
        return await self.call("far.load", rows=stream(self.numbers(count), window=window), retry=retry)

    @operation()
    def send_and_block(self, count: int = 100) -> Any:
        return self.call_blocking("bench.load", rows=stream(self.numbers(count), window=4))

    @operation()
    async def slowly(self, count: int = 3) -> Any:
        async def rows() -> AsyncIterator[int]:
            for number in self.numbers(count):
                await pause(1)
                yield number

        return await self.call("far.load", rows=stream(rows()))

    @operation()
    async def doubled(self, count: int) -> Any:
        async def rows() -> AsyncIterator[int]:
            async for number in self.stream("bench.count", upto=count):
                yield await self.call("bench.double", number=number)

        return await self.call("bench.load", rows=stream(rows(), window=3))

    @operation()
    async def pass_on(self, rows: AsyncIterator[int], route: str = "bench.load") -> Any:
        try:
            return await self.call(route, rows=stream(rows), retry=False)
        except Busy:
            return await self.call(route, rows=stream(rows))

    @operation()
    async def send_able(self) -> Any:
        return await self.call("bench.load", rows=stream(Able()))

    @operation()
    async def untidy(self, is_async: bool) -> Any:
        def rows() -> Iterator[int]:
            try:
                yield from range(100)
            finally:
                raise OSError("its cleanup failed")

        async def async_rows() -> AsyncIterator[int]:
            try:
                for number in range(100):
                    await pause(0.01)
                    yield number
            except (Cancelled, GeneratorExit) as error:
                self.ended_by = type(error).__name__
                raise OSError("its cleanup failed") from None

        return await self.call("far.load", rows=stream(async_rows() if is_async else rows(), window=4))

    @operation()
    async def late(self) -> Any:
        async def rows() -> AsyncIterator[int]:
            yield 1
            try:
                await pause(1)
            except Cancelled as error:
                self.ended_by = type(error).__name__
                raise OSError("its cleanup failed") from None
            raise OSError("no more items can be had")

        return await self.call("far.load", rows=stream(rows()))

    @operation()
    async def await_twice(self) -> Any:
        def rows() -> Iterator[int]:
            yield 1
            raise KeyError("on purpose")

        call = self.call("bench.load", rows=stream(rows()))
        try:
            await call
        except KeyError:
            return await call

    @operation()
    async def fail(self) -> str:
        def rows() -> Iterator[int]:
            yield 1
            raise KeyError("on purpose")

        try:
            await self.call("far.load", rows=stream(rows()))
        except KeyError as error:
            await pause(1)
            return str(error)
        return "it did not fail"

    @operation()
    async def twice(self) -> Any:
        rows = (number for number in range(3))
        try:
            return await self.call("far.load", rows=stream(rows), retry=False)
        except Busy:
            return await self.call("far.load", rows=stream(rows))

    @operation()
    async def gathered(self) -> Any:
        return await self.gather(self.call("far.load", rows=stream([1])))

    @operation()
    async def misplaced(self) -> Any:
        return await self.call("far.load", rows=[stream([1])])

    @operation()
    def cast_it(self) -> None:
        self.cast("far.load", rows=stream([1]))

    @operation(priority=0)
    def urgent(self) -> int:
        return self.fetched


class Other(AppObject):
    """Other objects."""

    @operation()
    def count(self, upto: int) -> Iterator[int]:
        yield from range(upto)

    @operation()
    def double(self, number: int) -> int:
        return 2 * number


class Loader(AppObject):
    """Loads in this backplane."""

    @operation()
    async def load(self, rows: AsyncIterator[int]) -> int:
        return sum([row async for row in rows])


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def backplane(sender: Sender) -> VirtualBackplane:
    backplane = VirtualBackplane(outside=("far.load",), idempotent=("far.load",))
    backplane.add(sender, key="sender")
    backplane.add(Other())
    backplane.add(Loader(), key="loader")
    return backplane


def begun(backplane: VirtualBackplane, route: str = "bench.send", **arguments: Any) -> tuple[VirtualCall, OutsideCall]:
    """A call that sends, and its call."""
    call = backplane.call(route, key="sender", **arguments)
    backplane.run_until_idle()
    return call, backplane.outside_calls("far.load")[-1]


@pytest.mark.parametrize("window", [1, 2, 3, 7, 1024])
def test_all_items_arrive_in_order_and_then_the_end(backplane: VirtualBackplane, sender: Sender, window: int) -> None:
    """And none is fetched before the operation there asks for one."""
    call, outside = begun(backplane, window=window)
    assert sender.fetched == 0
    assert outside.items() == [*range(100)]
    outside.reply(42)
    assert call.result() == 42
    assert sender.ended_by == "end"


def test_the_object_is_in_the_wait_queue_without_room(backplane: VirtualBackplane, sender: Sender) -> None:
    """Law 6. It holds no worker; what comes for it queues behind; and it runs ahead by the window alone."""
    call, outside = begun(backplane)
    assert outside.items(4) == [0, 1, 2, 3]
    backplane.run_until_idle()
    later = backplane.call("bench.urgent", key="sender")
    assert backplane.call("bench.double", number=4).result() == 8
    assert (sender._waits, later.done(), sender.fetched <= 8) == (1, False, True)
    assert outside.boosted_to == 0, "law 10: the callee is in the way of what waits behind its caller"
    outside.reply(42)
    assert (call.result(), later.done(), sender._waits) == (42, True, 0)


def test_an_operation_passes_on_what_it_reads(backplane: VirtualBackplane) -> None:
    """From one stream into another, with calls in between, within one backplane."""
    assert backplane.call("bench.doubled", count=500).result() == 2 * sum(range(500))


def test_an_operation_passes_on_its_streamed_argument(backplane: VirtualBackplane) -> None:
    """As it is; and a call that was refused has not touched it."""
    numbers = [*range(3000)]
    assert backplane.call("bench.pass_on", key="sender", rows=stream(numbers)).result() == sum(numbers)
    call = backplane.call("bench.pass_on", key="sender", rows=stream(numbers), route="far.load")
    backplane.run_until_idle()
    backplane.outside_calls("far.load")[-1].fail(Busy("full"), is_refused=True)
    backplane.run_until_idle()
    again = backplane.outside_calls("far.load")[-1]
    assert again.items() == numbers
    again.reply("all")
    assert call.result() == "all"


def test_an_async_iterator_needs_no_more_than_its_next_item(backplane: VirtualBackplane) -> None:
    """As in `async for`."""
    assert backplane.call("bench.send_able", key="sender").result() == 6


def test_a_call_with_a_stream_is_awaited_once(backplane: VirtualBackplane) -> None:
    """Its iterable is used up, so a second wait can have no result."""
    error = backplane.call("bench.await_twice", key="sender").error()
    assert "a call with a stream can be awaited once" in str(error)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_answer_survives_the_cleanup_of_the_iterator(
    backplane: VirtualBackplane, sender: Sender, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception of it comes too late for the call, and is logged."""
    call, outside = begun(backplane, "bench.untidy", is_async=is_async)
    with contextlib.suppress(AssertionError):
        outside.items(2)
    outside.reply("enough")
    backplane.advance(1)
    assert call.result() == "enough"
    assert "its cleanup failed" in caplog.text and "far.load: argument 'rows'" in caplog.text


def test_an_answer_survives_an_error_of_the_iterator_that_comes_later(
    backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """The operation notices the answer at the next item, or at the error in its place."""
    call, outside = begun(backplane, "bench.late")
    with contextlib.suppress(AssertionError):
        outside.items(2)
    outside.reply("enough")
    backplane.advance(2)
    assert call.result() == "enough"
    assert "no more items can be had" in caplog.text


def test_a_cancelled_operation_does_not_go_on_with_the_answer(backplane: VirtualBackplane, sender: Sender) -> None:
    """Even if its iterator has turned the cancellation into another error."""
    call, outside = begun(backplane, "bench.late")
    with contextlib.suppress(AssertionError):
        outside.items(2)
    ended: list[BaseException | None] = []
    action = next(iter(backplane.backplane.engine.intake._accepted.values()))
    action.on_end = lambda action: ended.append(action.error)
    outside.reply("enough")
    backplane.advance(0.1)
    assert call.cancel()
    backplane.advance(2)
    assert sender.ended_by == "Cancelled"
    assert [type(error) for error in ended] == [OSError]


def test_a_plain_operation_blocks_its_thread(backplane: VirtualBackplane, sender: Sender) -> None:
    """And another iterates in its place."""
    assert backplane.call("bench.send_and_block", count=100).result() == 4950
    assert sender.ended_by == "end"


def test_an_answer_before_the_end_closes_the_iterator(backplane: VirtualBackplane, sender: Sender) -> None:
    """Whether the operation had room for more items or not."""
    call, outside = begun(backplane)
    outside.items(2)
    outside.reply("enough")
    assert call.result() == "enough"
    assert sender.ended_by == "GeneratorExit"
    assert not backplane.backplane.engine.calls and not backplane.backplane.engine.outgoing.streams


def test_an_error_of_the_iterator_comes_out_of_the_call(backplane: VirtualBackplane) -> None:
    """That very error, in the operation, which may handle it; the call is cancelled."""
    call, outside = begun(backplane, "bench.fail")
    with pytest.raises(AssertionError, match="no item has come"):
        outside.items()
    backplane.advance(0.5)
    assert (outside.is_cancelled, call.done()) == (True, False), "at once, and not when the operation ends"
    backplane.advance(0.5)
    assert call.result() == "'on purpose'"
    assert not backplane.backplane.engine.calls and not backplane.backplane.engine.outgoing.streams


def test_an_operation_that_is_cancelled_cancels_its_call(backplane: VirtualBackplane, sender: Sender) -> None:
    """While it waits for room, and while it waits for something else in its iterator."""
    call, outside = begun(backplane)
    outside.items(2)
    assert call.cancel()
    backplane.run_until_idle()
    assert (outside.is_cancelled, sender.ended_by) == (True, "GeneratorExit")
    slow, outside = begun(backplane, "bench.slowly")
    with pytest.raises(AssertionError, match="no item has come"):
        outside.items()
    assert slow.cancel()
    backplane.run_until_idle()
    assert outside.is_cancelled
    assert not backplane.backplane.engine.calls and not backplane.backplane.engine.outgoing.streams


def test_its_deadline_is_seen_whatever_it_waits_for(backplane: VirtualBackplane, sender: Sender) -> None:
    """The deadline of the operation is that of its call."""
    call, outside = begun(backplane, timeout=2)
    outside.items(2)
    backplane.advance(2)
    assert call.error().message.startswith("bench.send")
    backplane.advance(1)
    assert sender.ended_by == "GeneratorExit"
    assert not backplane.backplane.engine.calls


def test_a_callee_that_dies_ends_the_call(backplane: VirtualBackplane, sender: Sender) -> None:
    """The operation is Unavailable, as with any call; it is not retried, since items were sent."""
    call, outside = begun(backplane)
    outside.items(2)
    backplane.kill_outside()
    assert isinstance(call.error(), Unavailable)
    assert sender.ended_by == "GeneratorExit"


def test_a_call_is_retried_until_its_operation_asks_for_items(backplane: VirtualBackplane, sender: Sender) -> None:
    """Until then its iterator is whole; later another attempt would lack the items that the first has got."""
    call, first = begun(backplane)
    first.fail(Busy("full", retry_after=0.1), is_refused=True)
    backplane.advance(1)
    again = backplane.outside_calls("far.load")[-1]
    assert (again is not first, sender.fetched) == (True, 0)
    assert again.items(2)[:2] == [0, 1]
    again.fail(Busy("full", retry_after=0.1))
    backplane.advance(1)
    assert isinstance(call.error(), Busy)
    assert len(backplane.outside_calls("far.load")) == 2
    assert sender.ended_by == "GeneratorExit"


def test_an_iterator_that_nobody_asked_for_can_be_used_again(backplane: VirtualBackplane) -> None:
    """It has not been touched, so a refused call costs no item."""
    call, first = begun(backplane, "bench.twice")
    first.fail(Busy("full"), is_refused=True)
    backplane.run_until_idle()
    again = backplane.outside_calls("far.load")[-1]
    assert again.items() == [0, 1, 2]
    again.reply("all")
    assert call.result() == "all"


def test_a_stream_where_none_can_be_is_refused(backplane: VirtualBackplane) -> None:
    """The mistake is that of the operation, so its caller gets INTERNAL where it does not handle it."""
    for route in ("bench.gathered", "bench.misplaced", "bench.cast_it"):
        error = backplane.call(route).error()
        assert isinstance(error, (InternalError, InvalidArgument))
        assert "far.load" in error.message and "'rows'" in error.message and "stream" in error.message
    assert backplane.outside_calls() == []


def test_two_calls_with_one_id_are_told_apart(backplane: VirtualBackplane, sender: Sender) -> None:
    """Two backplanes that call each other may use the same id, each for a call with a stream and for one that streams: only
    the kind of an envelope tells whose items and whose credit it is.
    """
    sends, outside = begun(backplane)
    id, peer = outside.envelope.id, outside._peer
    spec = CallSpec("bench.load", {"rows": 4}, streamed="rows")
    loads = backplane.hear_call(envelope.call(id, spec, None), peer)
    backplane.run_until_idle()
    backplane.hear(envelope.argument_items(id, [7, 8], 0, is_blocked=False, is_last=True), peer)
    backplane.hear(envelope.credit(id, 99), peer)
    backplane.run_until_idle()
    assert (loads.result(), sender.fetched) == (15, 0)
    assert outside.items() == [*range(100)]
    outside.reply(42)
    assert sends.result() == 42
