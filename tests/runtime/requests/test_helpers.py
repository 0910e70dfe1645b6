"""Helpers: what a request has its own threads do, in a worker process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from appbackplane.runtime.requests import Context, RequestKernel, RequestWorker, Runnable
from appbackplane.runtime.requests.executing.wire import runner_key
from appbackplane.runtime.testing import VirtualBackplane

ASKS: dict[str, Callable[[Context], Any]] = {
    "post": lambda kernel: kernel.post("", Whole),
    "rejoin": lambda kernel: kernel.rejoin(wait=True),
    "run": lambda kernel: kernel.run("", Whole),
}


class Whole(Runnable):
    """Has somebody else ask the kernel, who says what came of it."""

    def execute(self, request: str, kernel: Context) -> str:
        if not request:
            return "nothing"
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ASKS[request], kernel).result()
        return "asked"


class Kernel(RequestKernel):
    """Of whose requests a worker executes some."""

    runnables = (Whole,)


@pytest.mark.parametrize("ask", ASKS)
def test_a_thread_of_a_request_in_a_worker_process_is_told_who_may_ask_the_kernel(ask: str) -> None:
    """In words for who wrote it; and those behind it are executed as if nothing had been."""
    virtual = VirtualBackplane(RequestWorker(f"{__name__}:Kernel"), name="worker-1")
    items = [[1, "Whole", msgspec.msgpack.encode(ask), 3], [2, "Whole", msgspec.msgpack.encode(""), 3]]
    call = virtual.call("request_worker.execute", key=runner_key("worker-1"), kernel="k/kernel", start=7, items=items)
    virtual.run_until_idle()
    first, second = call.result()
    assert first[:3] == [
        1, None,
        "FailedPrecondition: k/kernel: in a worker process only the thread that executes a request may call the kernel: post "
        "and rejoin in `execute`, and have other threads hand their results to it",
    ]  # fmt: skip
    assert second[:3] == [2, msgspec.msgpack.encode("nothing"), None]
