"""ThreadResources: what the kernel's own threads hold, when their requests end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Resource, Runnable

from .conftest import LIMIT_S, Live

#: How long a `close` waits for what it holds up, if it holds it up.
PATIENCE_S = 5.0


class Gate:
    """Of one `close`."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.was_let = False

    def pass_through(self, handle: object) -> None:
        """Takes as long as it is made to."""
        self.has_begun.set()
        self.was_let = self.may_end.wait(PATIENCE_S)


class Plain(Runnable):
    """Uses a handle whose original is closed meanwhile."""

    def execute(self, request: Any, kernel: Context) -> None:
        assert kernel.resources["handle"]
        request()


class Async(Runnable):
    async def execute(self, request: Any, kernel: Context) -> None:
        assert kernel.resources["handle"]
        request()


class Empty(Runnable):
    def execute(self, request: int, kernel: Context) -> int:
        return request


@pytest.mark.parametrize("runnable", [Plain, Async])
def test_a_handle_that_closes_slowly_holds_up_its_request_alone(
    live: Callable[..., Live], runnable: type[Runnable]
) -> None:
    """With the backplane's lead it would hold up everything: every call, every timer, every other request."""
    gate = Gate()

    class Kernel(RequestKernel):
        runnables = (Plain, Async, Empty)
        resources = {"handle": Resource(open=object, close=gate.pass_through)}

    kernel = Kernel(KernelPolicy(workers=2))
    live(kernel)
    element = kernel.kernel.post(lambda: kernel._table.close_original("handle"), runnable, owner="slow")
    assert gate.has_begun.wait(LIMIT_S)
    assert kernel.kernel.run(1, Empty) == 1
    gate.may_end.set()
    assert [done.error for done in kernel.kernel.joined("slow")] == [None]
    assert gate.was_let, f"an empty request waited for the handle of {element!r}"
