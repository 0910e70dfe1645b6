"""Operand calls: calls of an operation whose arguments are calls. Each begins with its operands; failures are named."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import AppObject, operation, pause
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import (
    BackplaneError,
    Cancelled,
    DeadlineExceeded,
    InvalidArgument,
    OperandFailed,
    Unavailable,
)


class Mill(AppObject):
    """Makes numbers, some of them slowly."""

    def __init__(self, ran: list[str]) -> None:
        self.ran = ran

    @operation()
    async def slow(self, n: int, seconds: float = 1.0) -> int:
        self.ran.append(f"slow {n}")
        await pause(seconds)
        return n

    @operation()
    def fail(self) -> int:
        raise ValueError("no flour")


class Adder(AppObject):
    """Adds numbers."""

    def __init__(self, ran: list[str]) -> None:
        self.ran = ran

    @operation()
    def add(self, left: int, right: int = 0) -> int:
        self.ran.append(f"add {left} {right}")
        return left + right


class Asker(AppObject):
    """Calls with calls as arguments."""

    @operation()
    async def once(self) -> int:
        result: int = await self.call(
            "bench.add", left=self.call("bench.slow", n=1), right=self.call("bench.slow", n=2)
        )
        return result

    @operation()
    async def deep(self, depth: int) -> int:
        call: Any = self.call("bench.slow", n=0)
        for _ in range(depth):
            call = self.call("bench.add", left=call, right=1)
        result: int = await call
        return result

    @operation()
    async def shared(self) -> int:
        """One call is the operand of several."""
        one = self.call("bench.slow", n=3)
        result: int = await self.call("bench.add", left=self.call("bench.add", left=one, right=one), right=one)
        return result

    @operation()
    async def together(self) -> list[int]:
        one = self.call("bench.slow", n=3)
        return await self.gather(one, self.call("bench.add", left=one), self.call("bench.add", left=7))

    @operation()
    async def failing(self) -> list[Any]:
        """With errors in the place of results, those that could not begin are among them."""
        bad = self.call("bench.fail")
        behind = self.call("bench.add", left=self.call("bench.add", left=bad, right=bad), right=bad)
        found = await self.gather(behind, self.call("bench.add", left=5), return_exceptions=True)
        return [repr(each) for each in found]

    @operation()
    async def raising(self) -> int:
        result: int = await self.call("bench.add", left=self.call("bench.add", left=self.call("bench.fail")))
        return result

    @operation()
    async def unknown(self) -> int:
        result: int = await self.call("bench.add", left=self.call("bench.nothing"))
        return result

    @operation()
    async def misused(self, how: str) -> Any:
        call = self.call("bench.add", left=1)
        if how == "awaited":
            await call
            return await self.call("bench.add", left=call)
        if how == "inside":
            return await self.call("bench.add", left=[call])
        return self.cast("bench.add", left=call)


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def backplane(ran: list[str]) -> VirtualBackplane:
    made = VirtualBackplane()
    for number in range(3):
        made.add(Mill(ran), key=f"mill-{number}")
    made.add(Adder(ran))
    made.add(Asker())
    return made


def test_operands_are_made_at_the_same_time_and_the_call_begins_with_them(
    backplane: VirtualBackplane, ran: list[str]
) -> None:
    call = backplane.call("bench.once")
    backplane.run_until_idle()
    assert sorted(ran) == ["slow 1", "slow 2"]
    backplane.advance(1.0)
    assert call.result() == 3
    assert ran[2:] == ["add 1 2"]


@pytest.mark.parametrize(
    ("route", "arguments", "expected"), [("deep", {"depth": 300}, 300), ("shared", {}, 9), ("together", {}, [3, 3, 7])]
)
def test_graphs(backplane: VirtualBackplane, route: str, arguments: dict[str, Any], expected: Any) -> None:
    """Deep ones, without recursion; calls that are needed twice, which are made once."""
    call = backplane.call(f"bench.{route}", **arguments)
    backplane.run_until_idle()
    backplane.advance(1.0)
    assert call.result() == expected


def test_a_failed_operand_is_named(backplane: VirtualBackplane, ran: list[str]) -> None:
    error = backplane.call("bench.raising").error()
    assert "operand 'left', bench.add, has failed: InternalError: bench.fail: ValueError: no flour" in str(error)
    assert "no route 'bench.nothing'" in str(backplane.call("bench.unknown").error())
    first, second = backplane.call("bench.failing").result()
    assert first.startswith("OperandFailed(") and "bench.fail: ValueError: no flour" in first
    assert second == "5"
    assert ran == ["add 5 0"], "nothing that needed it has begun"
    assert not backplane.backplane.engine.calls, "no call is left"


def test_the_end_of_the_operation_ends_its_operands(backplane: VirtualBackplane, ran: list[str]) -> None:
    cancelled = backplane.call("bench.once")
    backplane.run_until_idle()
    assert cancelled.cancel() and isinstance(cancelled.error(), Cancelled)
    late = backplane.call("bench.once", timeout=0.5)
    backplane.advance(2.0)
    assert isinstance(late.error(), DeadlineExceeded)
    assert not any(each.startswith("add") for each in ran)
    assert not backplane.backplane.engine.accepted and not backplane.backplane.engine.calls


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("awaited", "argument 'left' is a call of bench.add that was awaited already: pass its result"),
        ("inside", "not inside another value"),
        ("cast", "not inside another value"),
    ],
)
def test_misuse_is_explained(backplane: VirtualBackplane, how: str, message: str) -> None:
    error = backplane.call("bench.misused", how=how).error()
    assert isinstance(error, BackplaneError) and message in str(error)


def test_an_operand_is_retried_as_any_call() -> None:
    """Its callee is away for a moment: the call that needs it waits."""
    backplane = VirtualBackplane(outside=("far.number",))
    backplane.add(Adder([]))

    class Far(AppObject):
        @operation()
        async def ask(self) -> int:
            result: int = await self.call("bench.add", left=self.call("far.number"), right=1)
            return result

    backplane.add(Far())
    call = backplane.call("bench.ask")
    backplane.run_until_idle()
    backplane.outside_calls()[0].fail(Unavailable("away", retry_after=0.01), is_refused=True)
    backplane.advance(1.0)
    backplane.outside_calls()[1].reply(41)
    assert call.result() == 42
    again = backplane.call("bench.ask")
    backplane.run_until_idle()
    backplane.outside_calls()[2].fail(InvalidArgument("no"))
    assert isinstance(again.error(), OperandFailed) or "has failed: InvalidArgument: no" in str(again.error())
