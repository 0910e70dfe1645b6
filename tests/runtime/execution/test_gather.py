"""Gather: several calls of one operation, awaited together; the first error ends the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from appbackplane.runtime import AppObject, operation, pause
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy, InternalError, InvalidArgument


class Asker(AppObject):
    """Makes several calls at once."""

    def __init__(self) -> None:
        self.ended_by: list[str] = []

    @operation()
    async def add(self, numbers: list[int], route: str = "bench.double", timeout: float | None = None) -> list[int]:
        try:
            return await self.gather(*(self.call(route, number=number) for number in numbers), timeout=timeout)
        except BaseException as error:
            self.ended_by.append(type(error).__name__)
            raise

    @operation()
    async def all(self, numbers: list[int]) -> list[str]:
        found = await self.gather(
            *(self.call("bench.positive", number=number) for number in numbers), return_exceptions=True
        )
        return [each.message if isinstance(each, InvalidArgument) else str(each) for each in found]

    @operation()
    async def grouped(self, numbers: list[int], fails: bool = False) -> list[int]:
        async with self.group(timeout=5) as group:
            calls = [group.call("bench.double", number=number) for number in numbers]
            if fails:
                raise InvalidArgument("not these")
            try:
                calls[0].result  # noqa: B018 - that it raises
            except RuntimeError as error:
                self.ended_by.append(str(error))
        return [call.result for call in calls]

    @operation()
    async def outside(self) -> list[Any]:
        return await self.gather(self.call("far.one"), self.call("far.two"), self.call("bench.double", number=4))

    @operation()
    async def wrong(self, how: str) -> Any:
        if how == "twice":
            call = self.call("bench.double", number=1)
            return await self.gather(call, call)
        return await self.gather({"stream": self.stream("bench.rows_of"), "number": 3, "pause": pause(1)}[how])  # type: ignore[arg-type]

    @operation()
    async def rows(self) -> AsyncIterator[list[int]]:
        for number in range(3):
            yield await self.gather(self.call("bench.double", number=number), self.call("bench.double", number=10))


class Doubler(AppObject):
    """Answers."""

    def __init__(self) -> None:
        self.served: list[int] = []
        self.cancelled = 0

    @operation()
    def double(self, number: int) -> int:
        self.served.append(number)
        return 2 * number

    @operation()
    async def slowly(self, number: int) -> int:
        try:
            await pause(number)
        except BaseException:
            self.cancelled += 1
            raise
        return number

    @operation()
    def positive(self, number: int) -> int:
        if number < 0:
            raise InvalidArgument(f"{number} is negative")
        return number

    @operation()
    def rows_of(self) -> Iterator[int]:
        yield 1


@pytest.fixture
def asker() -> Asker:
    return Asker()


@pytest.fixture
def doublers() -> list[Doubler]:
    return [Doubler() for _ in range(3)]


@pytest.fixture
def backplane(asker: Asker, doublers: list[Doubler]) -> VirtualBackplane:
    backplane = VirtualBackplane(outside=("far.one", "far.two"))
    backplane.add(asker)
    for doubler in doublers:
        backplane.add(doubler)
    return backplane


def outstanding(backplane: VirtualBackplane) -> int:
    """Calls of its objects that have not ended."""
    return len(backplane.backplane.engine.calls)


def test_the_results_are_in_the_order_of_the_calls(backplane: VirtualBackplane) -> None:
    """Whoever answers first."""
    assert backplane.call("bench.add", numbers=[3, 1, 2]).result() == [6, 2, 4]
    assert backplane.call("bench.add", numbers=[]).result() == []
    assert backplane.call("bench.add", numbers=[*range(1000)]).result() == [2 * n for n in range(1000)]
    assert not outstanding(backplane)


def test_they_are_under_way_at_the_same_time(backplane: VirtualBackplane) -> None:
    """One after the other they would take 6 s; the object is in the wait queue once."""
    call = backplane.call("bench.add", numbers=[1, 2, 3], route="bench.slowly")
    backplane.run_until_idle()
    assert backplane.backplane.engine.scheduler.waiting_count == 4, "the asker, and three that pause"
    backplane.advance(3)
    assert call.result() == [1, 2, 3]


def test_answers_of_other_backplanes_come_in_any_order(backplane: VirtualBackplane) -> None:
    """Each call has its own."""
    call = backplane.call("bench.outside")
    backplane.run_until_idle()
    one, two = backplane.outside_calls()
    two.reply("second")
    backplane.run_until_idle()
    assert not call.done()
    one.reply("first")
    assert call.result() == ["first", "second", 8]


def test_the_first_error_ends_the_others(backplane: VirtualBackplane, asker: Asker) -> None:
    """Their work would be done for nobody."""
    call = backplane.call("bench.outside")
    backplane.run_until_idle()
    one, two = backplane.outside_calls()
    two.fail(Busy("no room"))
    assert isinstance(call.exception(), Busy)
    backplane.collect()
    assert one.is_cancelled
    one.reply("too late")
    backplane.run_until_idle()
    assert not outstanding(backplane)


def test_a_group_is_awaited_at_the_end_of_its_block(
    backplane: VirtualBackplane, asker: Asker, doublers: list[Doubler]
) -> None:
    """A block that fails makes none of its calls."""
    assert backplane.call("bench.grouped", numbers=[3, 4]).result() == [6, 8]
    assert asker.ended_by == ["bench.double: its result is there after the block of its group has ended"]
    served = sum(len(each.served) for each in doublers)
    assert backplane.call("bench.grouped", numbers=[5], fails=True).error().message == "not these"
    assert sum(len(each.served) for each in doublers) == served


def test_errors_may_be_returned_like_results(backplane: VirtualBackplane) -> None:
    """As `asyncio.gather` does."""
    found = backplane.call("bench.all", numbers=[1, -2, 3, -4]).result()
    assert found == ["1", "-2 is negative", "3", "-4 is negative"]


def test_a_cancelled_operation_cancels_them_all(
    backplane: VirtualBackplane, asker: Asker, doublers: list[Doubler]
) -> None:
    """Here and elsewhere."""
    call = backplane.call("bench.add", numbers=[10, 20, 30], route="bench.slowly")
    backplane.run_until_idle()
    assert call.cancel()
    backplane.run_until_idle()
    assert asker.ended_by == ["Cancelled"]
    assert sum(each.cancelled for each in doublers) == 3
    assert not outstanding(backplane)


def test_they_have_one_deadline(backplane: VirtualBackplane, asker: Asker, doublers: list[Doubler]) -> None:
    """Which ends those that are still under way."""
    call = backplane.call("bench.add", numbers=[1, 20, 30], route="bench.slowly", timeout=5.0)
    backplane.advance(6)
    assert call.error().status.name == "DEADLINE_EXCEEDED"
    assert asker.ended_by == ["DeadlineExceeded"]
    assert not outstanding(backplane)


def test_all_inherit_the_priority_of_who_waits(backplane: VirtualBackplane) -> None:
    """Boosted are all calls that are under way, not the first alone (law 10)."""
    backplane.call("bench.outside", priority=6)
    backplane.run_until_idle()
    backplane.call("bench.wrong", how="number", priority=1)
    backplane.run_until_idle()
    assert [call.boosted_to for call in backplane.outside_calls()] == [1, 1]


def test_a_dead_callee_ends_it(backplane: VirtualBackplane) -> None:
    """As one call."""
    call = backplane.call("bench.outside")
    backplane.run_until_idle()
    backplane.kill_outside()
    assert call.error().status.name == "UNAVAILABLE"
    assert not outstanding(backplane)


def test_a_generator_may_gather(backplane: VirtualBackplane) -> None:
    """Between its items."""
    assert list(backplane.stream("bench.rows")) == [[0, 20], [2, 20], [4, 20]]


@pytest.mark.parametrize("how", ["twice", "stream", "number", "pause"])
def test_what_is_no_call_is_named(backplane: VirtualBackplane, how: str) -> None:
    """With how it is written."""
    with pytest.raises(InternalError, match=r"gather\(\) takes calls, as in gather\(self.call"):
        backplane.call("bench.wrong", how=how).result()
