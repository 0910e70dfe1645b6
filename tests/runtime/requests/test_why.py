"""`appbackplane why` of who waits for requests: it names the kernel, where more is to be seen, not only the time left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from appbackplane.runtime import operation
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane

from .conftest import Live, until


class Nothing(Runnable):
    """Ends at once."""

    def execute(self, request: int, kernel: Context) -> int:
        return request


class Parent(Runnable):
    """Waits for one, in its thread."""

    def execute(self, request: int, kernel: Context) -> int:
        value: int = kernel.run(request, Nothing)
        return value


class Asked(RequestKernel):
    """Operations that wait in every way."""

    runnables = (Nothing, Parent)
    policy = KernelPolicy(workers=1, ready=1, rejoin=1)

    @operation()
    async def result(self) -> int:
        """For one that has been posted."""
        value: int = await self.kernel.arun(1, Nothing)
        return value

    @operation()
    async def room(self) -> None:
        """For an entry, which nobody leaves."""
        await self.kernel.apost_all([1, 2], Nothing, owner="nobody")


def reason(why: dict[str, object]) -> str:
    """The last of them."""
    return str(why["steps"][-1]["reasons"][-1]["text"])  # type: ignore[index]


@pytest.mark.parametrize(("called", "what"), [("result", "requests"), ("room", "room in the pools")])
def test_a_coroutine_says_for_what_it_waits(called: str, what: str) -> None:
    """Its deadline alone would send whoever asks to look for a pause that nobody has written."""
    backplane = VirtualBackplane(Asked())
    backplane.call("asked.hold").result()
    backplane.call(f"asked.{called}")
    backplane.run_until_idle()
    said = reason(backplane.backplane.why(f"asked.{called}"))
    assert said == f"it waits for {what} of virtual/asked (appbackplane requests asked tells more)"


def test_what_waits_in_its_thread_says_for_what(live: Callable[..., Live]) -> None:
    """It runs, to the scheduler: for ever, and nobody could say why."""
    kernel = Asked()
    backplane = live(kernel).backplane
    kernel.kernel.post(1, Parent, owner="test")
    until(kernel, lambda figures: figures.blocked == 1)
    said = reason(backplane.why("k/asked.worker-1"))
    assert said.startswith("it runs on worker ")
    assert said.endswith(", and waits there for requests of k/asked (appbackplane requests asked tells more)")
    kernel.change(workers=2)
    assert [done.result for done in kernel.kernel.joined("test")] == [1]
    until(kernel, lambda figures: figures.executing == 0)
    assert not backplane.engine.parking.blocked_by
