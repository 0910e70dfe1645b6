"""ThreadResources: what the kernel's own threads hold, when their requests end, and when they end themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Resource, Runnable
from appbackplane.runtime.requests.executing import thread_handles
from tests.waiting import wait_until

from .conftest import LIMIT_S, Live

#: How long a `close` waits for what it holds up, if it holds it up.
PATIENCE_S = LIMIT_S / 2


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
    """Uses a handle that becomes stale meanwhile."""

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
    live: Callable[..., Live], runnable: type[Runnable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the backplane's lead it would hold up everything: every call, every timer, every other request."""
    gate = Gate()
    monkeypatch.setattr(thread_handles, "ASK_EVERY", 1)
    stale: list[bool] = []

    class Kernel(RequestKernel):
        runnables = (Plain, Async, Empty)
        resources = {"handle": Resource(open=object, close=gate.pass_through, is_stale=lambda _: bool(stale))}

    kernel = Kernel(KernelPolicy(workers=2))
    live(kernel)
    element = kernel.kernel.post(lambda: stale.append(True), runnable, owner="slow")
    assert gate.has_begun.wait(LIMIT_S)
    assert kernel.kernel.run(1, Empty) == 1
    gate.may_end.set()
    assert [done.error for done in kernel.kernel.joined("slow")] == [None]
    assert gate.was_let, f"an empty request waited for the handle of {element!r}"


class Handle:
    """Knows which thread opened it, and which closed it."""

    def __init__(self) -> None:
        self.opened_by = threading.get_ident()
        self.closed_by: int | None = None

    def close(self) -> None:
        self.closed_by = threading.get_ident()


class Uses(Runnable):
    """Use the handle while others use theirs; return it."""

    def execute(self, everybody: threading.Barrier, kernel: Context) -> Handle:
        handle: Handle = kernel.resources["handle"]
        everybody.wait(LIMIT_S)
        assert kernel.resources["handle"] is handle
        return handle


def test_handles_belong_to_threads_and_end_with_them() -> None:
    """A worker is served by one thread now and by another later: per worker, sqlite3 would refuse the handle."""

    class Kernel(RequestKernel):
        runnables = (Uses,)
        resources = {"handle": Resource(open=Handle, close=Handle.close)}

    kernel = Kernel(KernelPolicy(workers=4))
    at = Live(kernel)
    handles: set[Handle] = set()
    try:
        at.up()
        for _ in range(20):
            barrier = threading.Barrier(4)
            found = [done.get() for done in kernel.kernel.map_unordered([barrier] * 4, Uses)]
            assert len(set(found)) == 4
            handles.update(found)
        assert len({handle.opened_by for handle in handles}) == len(handles), "one a thread, however many requests"
        assert [handle.closed_by for handle in handles] == [None] * len(handles)
    finally:
        at.backplane.stop(5)
    wait_until(lambda: all(handle.closed_by == handle.opened_by for handle in handles), handles)
