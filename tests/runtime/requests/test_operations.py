"""Operations as owners: a request that names no owner belongs to the operation that posts it, and ends with it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from appbackplane.runtime import AppObject, operation, pause
from appbackplane.runtime.execution.actions.method_action import MethodAction
from appbackplane.runtime.requests import Context, KernelPolicy, Rejoin, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import DeadlineExceeded

from .conftest import LIMIT_S, Live, joined, until

#: A request of so many seconds: longer than any caller waits.
LONG = -600


class Echo(Runnable):
    """Return the number; a negative one takes as many seconds, and 13 fails."""

    async def execute(self, request: int, kernel: Context) -> int:
        await pause(max(0, -request))
        if request == 13:
            raise ValueError("unlucky")
        return request


class Detour(Runnable):
    """Post by the component's kernel instead of by the one that `execute` is given."""

    component: RequestKernel

    def execute(self, request: list[int], kernel: Context) -> list[int]:
        around = self.component.kernel
        around.post_all(request, Echo)
        if not request[0]:  # leaves them
            return []
        return sorted(done.get() for done in around.joined())


class Adder(AppObject):
    """Each operation twice: one that waits in its thread, and one that awaits."""

    def __init__(self, kernel: RequestKernel) -> None:
        self._kernel = kernel

    @operation()
    def total(self, numbers: list[int]) -> int:
        self._kernel.kernel.post_all(numbers, Echo)
        return sum(done.get() for done in self._kernel.kernel.joined())

    @operation()
    async def total_async(self, numbers: list[int]) -> int:
        await self._kernel.kernel.apost_all(numbers, Echo)
        return sum([done.get() async for done in self._kernel.kernel.ajoined()])

    @operation()
    def leave(self, numbers: list[int], rejoin: bool) -> None:
        self._kernel.kernel.post_all(numbers, Echo, rejoin=rejoin)

    @operation()
    async def leave_async(self, numbers: list[int], rejoin: bool) -> None:
        await self._kernel.kernel.apost_all(numbers, Echo, rejoin=rejoin)

    @operation()
    def give_up(self, numbers: list[int]) -> list[str]:
        kernel = self._kernel.kernel
        kernel.post_all(numbers, Echo)
        kernel.disown()
        return [kernel.rejoin()[0].value]

    @operation()
    def from_a_thread(self, numbers: list[int]) -> list[str]:
        """Another thread posts; the operation and the thread say what they find."""
        found: list[str] = []

        def post() -> None:
            self._kernel.kernel.post_all(numbers, Echo)
            found.append(self._kernel.kernel.rejoin()[0].value)

        thread = threading.Thread(target=post)
        thread.start()
        joined(thread)
        return [self._kernel.kernel.rejoin()[0].value, *found]


class Sums(RequestKernel):
    declares = (Adder,)
    runnables = (Echo, Detour)

    def setup(self) -> None:
        for key in ("a", "b", "c"):
            self.add(Adder(self), key=key)

    @operation()
    def around(self, requests: list[list[int]]) -> list[list[int]]:
        return sorted(done.get() for done in self.kernel.map_unordered(requests, Detour))

    @operation()
    def flush(self, numbers: list[int]) -> None:
        self.after(1, self.later, numbers)

    def later(self, numbers: list[int]) -> None:
        self.kernel.post_all(numbers, Echo)
        raise DeadlineExceeded("of a timer")


@pytest.fixture
def kernel() -> Sums:
    Detour.component = made = Sums(KernelPolicy(workers=2, ready=2000, rejoin=1000))
    return made


@pytest.fixture
def backplane(kernel: Sums) -> VirtualBackplane:
    backplane = VirtualBackplane(kernel)
    backplane.run_until_idle()
    return backplane


def left(kernel: RequestKernel) -> tuple[int, int, int]:
    """Ready, executing, rejoinable."""
    figures = kernel.figures()
    return sum(figures.ready), figures.executing, sum(figures.rejoinable)


PLAIN_AND_ASYNC = pytest.mark.parametrize("total", ["total", "total_async"])


@PLAIN_AND_ASYNC
@pytest.mark.parametrize("numbers", [[10_000, 6_000, LONG, LONG, 1], [13, LONG, LONG, 1]], ids=["deadline", "failed"])
def test_what_an_operation_leaves_is_not_given_to_the_next(
    kernel: Sums, backplane: VirtualBackplane, total: str, numbers: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """The next one added 10,000 and 6,000 to its own: 16006 where 6 is right."""
    call = backplane.call(f"sums.{total}", key="a", numbers=numbers, timeout=5.0)
    backplane.advance(6.0)
    assert call.error() is not None
    ready, executing, rejoinable = left(kernel)
    assert (ready, rejoinable) == (0, 0) and executing, "what has begun ends for nobody"
    kernel.change(workers=4)
    assert backplane.call(f"sums.{total}", key="a", numbers=[1, 2, 3]).result() == 6
    backplane.advance(-2 * LONG)
    assert kernel.figures().owners == 0
    assert "withdrawn" not in caplog.text, "it failed, and could not rejoin them"


@PLAIN_AND_ASYNC
def test_operations_that_run_at_a_time_are_not_given_each_others(
    kernel: Sums, backplane: VirtualBackplane, total: str
) -> None:
    """They shared an owner."""
    calls = [
        backplane.call(f"sums.{total}", key=key, numbers=[at, -1 - n, at, at])
        for n, (key, at) in enumerate((("a", 1000), ("b", 2000), ("c", 3000)))
    ]
    backplane.run_until_idle()
    backplane.advance(10.0)
    assert [call.result() for call in calls] == [2999, 5998, 8997]


def test_one_that_is_cancelled_withdraws_them_too(kernel: Sums, backplane: VirtualBackplane) -> None:
    call = backplane.call("sums.total_async", key="a", numbers=[LONG, LONG, LONG])
    backplane.advance(1.0)
    assert left(kernel) == (1, 2, 0)
    call.cancel()
    backplane.advance(1.0)
    assert left(kernel) == (0, 2, 0)


def test_a_time_out_leaves_room_for_all_others(kernel: Sums, backplane: VirtualBackplane) -> None:
    """The rejoin pool held 1,009 of 1,000, and every later post ended in DEADLINE_EXCEEDED."""
    kernel.change(ready=9)
    assert isinstance(backplane.call("sums.total", key="a", numbers=[1] * 1500, timeout=5.0).error(), DeadlineExceeded)
    assert left(kernel) == (0, 0, 0)
    assert backplane.call("sums.total", key="b", numbers=[1, 2, 3], timeout=5.0).result() == 6


@pytest.mark.parametrize("leave", ["leave", "leave_async"])
def test_one_that_returns_withdraws_what_it_has_not_rejoined_and_says_so(
    kernel: Sums, backplane: VirtualBackplane, leave: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can ask for it any more. What was posted for nobody is executed all the same."""
    with caplog.at_level(logging.WARNING, "appbackplane.runtime"):
        backplane.call(f"sums.{leave}", key="a", numbers=[-1] * 9, rejoin=True).result()
        assert left(kernel) == (0, 0, 0)
        backplane.advance(5.0)
    figures = kernel.figures()
    assert (figures.posted_total, figures.withdrawn_total, figures.owners) == (9, 9, 0)
    (said,) = [each for each in caplog.messages if "withdrawn" in each]
    assert f"9 requests were withdrawn: operation sums.{leave} returned without rejoining them" in said
    caplog.clear()
    backplane.call(f"sums.{leave}", key="a", numbers=[-1] * 9, rejoin=False).result()
    backplane.advance(5.0)
    figures = kernel.figures()
    assert (figures.ended_total, figures.withdrawn_total, figures.owners) == (9, 9, 0)
    assert not caplog.messages


def test_one_that_gives_them_up_itself_is_not_warned_of(
    kernel: Sums, backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    assert backplane.call("sums.give_up", key="a", numbers=[-1] * 9).result() == [Rejoin.NONE_EXIST.value]
    backplane.advance(5.0)
    assert not caplog.messages


def test_a_thread_of_ones_own_is_no_operation(kernel: Sums, backplane: VirtualBackplane) -> None:
    """What it posts without an owner is of "main", as what a test posts."""
    told = backplane.call("sums.from_a_thread", key="a", numbers=[1]).result()
    assert told == [Rejoin.NONE_EXIST.value, Rejoin.NONE_READY.value]
    assert [done.get() for done in kernel.kernel.joined("main")] == [1]


@pytest.mark.parametrize("workers", [2, 6])
def test_requests_that_post_by_the_component_are_kept_apart(
    kernel: Sums, backplane: VirtualBackplane, workers: int
) -> None:
    """One action executes many requests, more of them if there are few workers: each is an owner, not the action."""
    kernel.change(workers=workers)
    requests = [[0, 7], [1, 2], [30, 40], [500, 600]][:workers]
    assert backplane.call("sums.around", requests=requests).result() == [[], *requests[1:]]
    assert left(kernel) == (0, 0, 0)


def test_the_failure_of_a_timer_that_posts_is_still_in_the_log(
    kernel: Sums, backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else hears of it: that its end is waited for must not count as somebody who does."""
    backplane.call("sums.flush", numbers=[LONG] * 3).result()
    backplane.advance(2.0)
    assert "of a timer" in caplog.text
    assert left(kernel)[0] == 0


@PLAIN_AND_ASYNC
def test_with_threads_and_a_clock_of_their_own(live: Callable[..., Live], total: str) -> None:
    """The end of an operation withdraws with the backplane's lead, while workers take."""
    kernel = Sums(KernelPolicy(workers=2))
    engine = live(kernel).backplane.engine
    adders = [each for each in kernel.objects if isinstance(each, Adder)]
    is_over = threading.Semaphore(0)
    actions: list[MethodAction] = []
    for number in range(30):
        numbers = [1, 13, 2] if number % 2 else [1, 2, 3]
        adder = adders[number % len(adders)]
        action = MethodAction(adder, f"sums.{total}", 4, getattr(Adder, total), (numbers,))
        action.on_end = lambda _: is_over.release()
        actions.append(action)
        with engine.lead:
            engine.post(action, engine.now_ns())
    for _ in actions:
        assert is_over.acquire(timeout=LIMIT_S)
    assert {action.result for action in actions[::2]} == {6}
    until(kernel, lambda figures: not figures.owners)
