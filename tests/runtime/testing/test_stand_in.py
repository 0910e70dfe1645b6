"""What waits in its thread, in a test that has one: the others run meanwhile, and a test never hangs."""

from __future__ import annotations

import pytest

from appbackplane.runtime import operation, pause
from appbackplane.runtime.requests import Context, KernelPolicy, RequestFailed, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane

LANES = KernelPolicy(workers=4, mode="lanes", lanes=(0, 25, 25))


class Tree(Runnable):
    """Splits until depth 3, waiting in its thread at each."""

    def execute(self, depth: int, kernel: Context) -> int:
        if depth == 3:
            return 1
        kernel.post_all([depth + 1] * 3, Tree, lane=depth + 1)
        return sum(done.get() for done in kernel.joined())


class Slow(Runnable):
    """Takes seconds; a negative number is refused."""

    async def execute(self, seconds: float, kernel: Context) -> float:
        if seconds < 0:
            raise ValueError("backwards")
        await pause(seconds)
        return seconds


class Patient(Runnable):
    """Waits for a Slow, no longer than `limit`."""

    def execute(self, limit: float | None, kernel: Context) -> float:
        kernel.post(10.0, Slow)
        found, done = kernel.rejoin(wait=True, timeout=limit)
        assert done is not None, found
        return float(done.get())


class Forgetful(Runnable):
    """Waits for what it is itself."""

    def execute(self, owner: str, kernel: Context) -> None:
        kernel.rejoin(owner, wait=True)


class Kernel(RequestKernel):
    """All of them."""

    runnables = (Tree, Slow, Patient, Forgetful)
    policy = LANES

    @operation()
    async def run(self, name: str, request: object, lane: int = 3) -> object:
        await self.kernel.apost(request, name, lane=lane, owner="run")
        (done,) = [done async for done in self.kernel.ajoined("run")]
        return done.get()

    @operation()
    def run_here(self, depth: int) -> int:
        return sum(done.get() for done in self.kernel.map_unordered([depth], Tree, lane=depth))


def test_three_levels_of_plain_functions_in_one_thread() -> None:
    """Each waits inside the one it waits for."""
    backplane = VirtualBackplane(Kernel())
    assert backplane.call("kernel.run", name="Tree", request=1, lane=1).result() == 9


def test_a_plain_operation_waits_too() -> None:
    """Not only requests do."""
    assert VirtualBackplane(Kernel()).call("kernel.run_here", depth=2).result() == 3


def test_time_passes_for_who_waits_in_his_thread() -> None:
    """As it would; no test has to advance it, for the test itself waits."""
    backplane = VirtualBackplane(Kernel())
    began_ns = backplane.clock.now_ns()
    assert backplane.call("kernel.run", name="Patient", request=None).result() == 10.0
    assert backplane.clock.now_ns() - began_ns >= 10_000_000_000


def test_a_limit_is_kept() -> None:
    """And is the error of who waited."""
    error = VirtualBackplane(Kernel()).call("kernel.run", name="Patient", request=3.0).error()
    assert "ended within 3.0 s" in error.message


def test_what_never_comes_is_told_and_does_not_hang() -> None:
    """It waits for its own owner: a test that hangs says nothing."""
    error = VirtualBackplane(Kernel()).call("kernel.run", name="Forgetful", request="run").error()
    assert "for something that nothing in this test does" in error.message


def test_what_failed_is_raised_where_its_result_is_asked_for() -> None:
    """`get`; with the number of the request and its traceback. Who asks too early is told so."""
    kernel = Kernel()
    backplane = VirtualBackplane(kernel)
    backplane.run_until_idle()
    element = kernel.kernel.post(-1.0, Slow)
    with pytest.raises(Exception, match="has not rejoined"):
        element.get()
    backplane.run_until_idle()
    (done,) = kernel.kernel.joined()
    with pytest.raises(RequestFailed, match=r"Slow 1: ValueError: backwards") as raised:
        done.get()
    assert raised.value.trace is not None and "in execute" in raised.value.trace


def test_thread_exhaustion_ends_in_a_failure() -> None:
    """In a process it would wait for ever; the watchdog names the cause in both."""
    kernel = Kernel(KernelPolicy(workers=1))
    VirtualBackplane(kernel).run_until_idle()
    (done,) = kernel.kernel.map_unordered([2], Tree)
    assert done.error is not None and "for something that nothing in this test does" in done.error


def test_the_test_itself_may_wait() -> None:
    """It posts as any thread outside would; and is told, too, what never comes."""
    kernel = Kernel()
    VirtualBackplane(kernel).run_until_idle()
    assert [done.get() for done in kernel.kernel.map_unordered([2, 2], Tree, lane=2)] == [3, 3]
    kernel.kernel.post(100.0, Slow)
    with pytest.raises(AssertionError, match="the test blocks its thread"):
        list(kernel.kernel.joined())
