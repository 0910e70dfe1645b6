"""run, map_unordered and their async twins: each result once, and nothing left of what was given up."""

from __future__ import annotations

import pytest

from appbackplane.runtime import operation, pause
from appbackplane.runtime.requests import Context, KernelPolicy, RequestFailed, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import InvalidArgument


class Double(Runnable):
    """Refuses 13."""

    def execute(self, request: int, kernel: Context) -> int:
        if request == 13:
            raise ValueError("unlucky")
        return 2 * request


class Sleep(Runnable):
    """Takes seconds."""

    async def execute(self, request: float, kernel: Context) -> float:
        await pause(request)
        return request


class Again(Runnable):
    """Maps and runs so often. How many parts are left of it."""

    def execute(self, request: int, kernel: Context) -> int:
        for _ in range(request):
            kernel.run(1, Double)
            for _ in kernel.map_unordered(range(6), Double):
                break
            assert sum(done.get() for done in kernel.map_unordered(range(6), Double)) == 30
        assert kernel.element is not None
        return len(kernel.element.parts)


class Kernel(RequestKernel):
    """With pools that are smaller than what is posted."""

    runnables = (Double, Sleep, Again)
    policy = KernelPolicy(workers=2, ready=3, rejoin=4)

    @operation()
    async def doubled(self, count: int) -> list[int]:
        return [done.get() async for done in self.kernel.amap_unordered(range(count), Double)]

    @operation()
    async def first(self, count: int) -> int:
        async for done in self.kernel.amap_unordered(range(count), Double):
            return int(done.get())
        raise AssertionError("nothing ended")

    @operation()
    async def nap(self, seconds: float) -> float:
        return float(await self.kernel.arun(seconds, Sleep))

    @operation()
    def doze(self, seconds: float) -> float:
        return float(self.kernel.run(seconds, Sleep))

    @operation()
    def fill(self, count: int, seconds: float) -> int:
        return len(self.kernel.post_all([seconds] * count, Sleep, owner="filled"))


@pytest.fixture
def kernel() -> Kernel:
    """Runs in `backplane`."""
    return Kernel()


@pytest.fixture(autouse=True)
def backplane(kernel: Kernel) -> VirtualBackplane:
    """With that kernel in it."""
    made = VirtualBackplane(kernel)
    made.run_until_idle()
    return made


def nothing_is_left(kernel: Kernel) -> bool:
    """In either pool, of any owner."""
    figures = kernel.figures()
    return not (figures.owners or sum(figures.ready) or sum(figures.rejoinable) or figures.posting or figures.executing)


def test_each_result_once_through_small_pools(kernel: Kernel, backplane: VirtualBackplane) -> None:
    """In both ways of writing it."""
    assert sorted(done.get() for done in kernel.kernel.map_unordered(range(10), Double)) == list(range(0, 20, 2))
    assert sorted(backplane.call("kernel.doubled", count=10).result()) == list(range(0, 20, 2))
    assert nothing_is_left(kernel)


def test_run_gives_the_result_or_raises_what_failed(kernel: Kernel) -> None:
    """It is one request, from post to get."""
    assert kernel.kernel.run(4, Double) == 8
    with pytest.raises(RequestFailed, match="ValueError: unlucky"):
        kernel.kernel.run(13, Double)
    assert nothing_is_left(kernel)


def test_an_iteration_that_is_broken_off_leaves_nothing(kernel: Kernel, backplane: VirtualBackplane) -> None:
    """Or the rejoin pool would be full of what nobody can ask for, and all posters would wait for ever."""
    for _ in range(5):
        for _ in kernel.kernel.map_unordered(range(6), Double):
            break
        backplane.run_until_idle()
        backplane.call("kernel.first", count=6).result()
        backplane.run_until_idle()
    assert nothing_is_left(kernel)
    assert kernel.figures().unclaimed_total > 0, "and it is counted"


def test_a_request_keeps_nothing_of_what_it_has_mapped(kernel: Kernel) -> None:
    """One that goes on for a day would grow by each."""
    assert kernel.kernel.run(50, Again) <= 1
    assert nothing_is_left(kernel)


def test_a_caller_whose_deadline_has_passed_leaves_nothing(kernel: Kernel, backplane: VirtualBackplane) -> None:
    """As every call has one."""
    call = backplane.call("kernel.nap", timeout=1.0, seconds=5.0)
    backplane.advance(1.5)
    assert "deadline" in call.error().message
    backplane.advance(5.0)
    assert nothing_is_left(kernel)


def test_one_that_waits_in_its_thread_ends_with_its_callers_deadline_too(
    kernel: Kernel, backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """Or it would hold up all others of its object, for an answer that nobody waits for."""
    call, next_one = backplane.call("kernel.doze", timeout=1.0, seconds=5.0), backplane.call("kernel.doze", seconds=0.1)
    began_ns = backplane.clock.now_ns()
    assert next_one.result() == 0.1
    assert backplane.clock.now_ns() - began_ns < 1_500_000_000, "it was not kept waiting for the five seconds"
    assert "deadline" in call.error().message
    backplane.advance(6.0)
    assert nothing_is_left(kernel)
    assert not [each for each in caplog.records if each.levelname == "ERROR"], "it is not a fault of the operation"


def test_who_waits_for_room_ends_with_it_too(kernel: Kernel, backplane: VirtualBackplane) -> None:
    """What was not posted by the deadline is not; what was, is executed."""
    call = backplane.call("kernel.fill", timeout=1.0, count=9, seconds=5.0)
    backplane.advance(1.5)
    assert "deadline" in call.error().message
    figures = kernel.figures()
    assert figures.executing == 2 and sum(figures.ready) == 3 and not figures.posting
    kernel.kernel.disown("filled")
    backplane.advance(6.0)
    assert nothing_is_left(kernel)


def test_a_lane_that_loses_its_share_refuses_what_is_yet_to_be_posted(
    kernel: Kernel, backplane: VirtualBackplane
) -> None:
    """It was looked at when it was made, and then waited for a worker for ever: no setting could be changed any more."""
    mapping = kernel.kernel.map_unordered(range(9), Double, lane=1)
    assert next(mapping).get() == 0
    backplane.run_until_idle()
    kernel.change(mode="lanes", lanes=(0, 0, 30))
    with pytest.raises(InvalidArgument, match=r"lane=1: lanes = \(0, 0, 30\) leave it no worker"):
        list(mapping)
    kernel.change(workers=4)
    assert nothing_is_left(kernel)


def test_what_nobody_hears_of_is_said_before_it_goes_down(
    kernel: Kernel, backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """The look for it comes twice a second."""
    kernel.kernel.post(13, Double, rejoin=False)
    backplane.run_until_idle()
    assert not caplog.records
    backplane.move("down")
    assert "1 requests failed that nobody rejoins; the last: <Double 1" in caplog.text


def test_an_owner_is_disowned(kernel: Kernel) -> None:
    """Whoever waits for what there is of him is told that nothing will be."""
    kernel.kernel.post(1, Double, owner="anna")
    kernel.kernel.post(2, Double, owner="bert")
    kernel.kernel.disown("anna")
    assert [done.get() for done in kernel.kernel.joined("anna")] == []
    assert [done.get() for done in kernel.kernel.joined("bert")] == [4]
    assert nothing_is_left(kernel)
