"""Backlog: who posts all before he rejoins any is told what he waits for, and nobody else is."""

from __future__ import annotations

import logging

import pytest

from appbackplane.runtime import operation
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane


class Echo(Runnable):
    def execute(self, request: int, kernel: Context) -> int:
        return request


class Kernel(RequestKernel):
    """With pools that are smaller than what is posted."""

    runnables = (Echo,)
    policy = KernelPolicy(workers=2, ready=3, rejoin=4)

    @operation()
    async def post_all(self, count: int) -> int:
        return len(await self.kernel.apost_all(range(count), Echo, owner="x"))


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def backplane(kernel: Kernel) -> VirtualBackplane:
    made = VirtualBackplane(kernel)
    made.run_until_idle()
    return made


def test_it_is_said_once_and_again_only_when_something_went_on(
    kernel: Kernel, backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """What looks like a program that hangs: the first thing that everybody writes."""
    caplog.set_level(logging.WARNING, "appbackplane.runtime")
    call = backplane.call("kernel.post_all", count=20, timeout=60)
    backplane.advance(5.0)
    assert not caplog.records
    backplane.advance(9.0)
    (said,) = [each.getMessage() for each in caplog.records]
    assert said.startswith(
        "virtual/kernel: posts wait for room (1 now), and for 5 s no request has been rejoined: the rejoin pool is"
    )
    assert "of them of 'x': rejoin between posts (map_unordered does)" in said
    assert kernel.kernel.rejoin("x")[1] is not None
    backplane.advance(9.0)
    assert len(caplog.records) == 2
    while not call.done():
        kernel.kernel.rejoin("x")
        backplane.run_until_idle()
    assert call.result() == 20


def test_a_slow_owner_is_not_warned_of(
    kernel: Kernel, backplane: VirtualBackplane, caplog: pytest.LogCaptureFixture
) -> None:
    """Who takes one now and then is at work."""
    caplog.set_level(logging.WARNING, "appbackplane.runtime")
    call = backplane.call("kernel.post_all", count=20, timeout=120)
    while not call.done():
        backplane.advance(4.0)
        kernel.kernel.rejoin("x")
    assert not caplog.records
