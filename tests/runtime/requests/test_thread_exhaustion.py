"""Thread exhaustion (seed 001, 5.1.3): all workers execute requests that wait for sub-requests which nobody is left to execute.

Shown in a real run: three levels on four workers stop dead without lanes, and the watchdog says why; with lanes they complete;
and with `on_stall = "fail"` those that wait are told, so that everything ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable

from .conftest import LIMIT_S, Live, until

LEVELS = 3
WIDTH = 3
#: So many levels that all workers come to execute what waits.
TREES = 4


class Node(Runnable):
    """Posts a request for each of its children, a lane lower, and counts the leaves under it."""

    #: All trees have begun before any goes on: so it does not depend on who is quicker.
    together = threading.Barrier(1)

    def execute(self, request: int, kernel: Context) -> int:
        if request == LEVELS:
            return 1
        if request == 1:
            self.together.wait(LIMIT_S)
        kernel.post_all([request + 1] * WIDTH, Node, lane=request + 1, priority=100 - request)
        count = 0
        for done in kernel.joined():
            if done.is_failed:
                raise RuntimeError(f"a part has failed: {done.error}")
            count += done.result
        return count


class AsyncNode(Runnable):
    """The same, as a coroutine: it holds a worker while it waits, if not its thread."""

    async def execute(self, request: int, kernel: Context) -> int:
        if request == LEVELS:
            return 1
        await kernel.apost_all([request + 1] * WIDTH, AsyncNode, lane=request + 1, priority=100 - request)
        return sum([done.result async for done in kernel.ajoined()])


class Said(logging.Handler):
    """What the kernel logs, as an event to wait for."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.is_told = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.is_told.release()


@pytest.fixture
def said() -> Any:
    handler = Said()
    logger = logging.getLogger("appbackplane.runtime")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def kernel_of(runnable: type[Runnable], policy: KernelPolicy) -> RequestKernel:
    class Trees(RequestKernel):
        runnables = (runnable,)

    return Trees(policy)


def test_three_levels_on_four_workers_stop_dead_without_lanes_and_the_watchdog_says_why(
    live: Callable[..., Live], said: Said
) -> None:
    kernel = kernel_of(Node, KernelPolicy(workers=TREES))
    live(kernel)
    Node.together = threading.Barrier(TREES)
    for _ in range(TREES):
        kernel.kernel.post(1, Node, lane=1, owner="trees")
    assert said.is_told.acquire(timeout=LIMIT_S), "nothing goes on, and nobody says so"
    (text,) = said.texts
    assert "thread exhaustion: all 4 workers" in text
    assert "4 x Node in lane 1 for its sub-requests" in text
    assert "12 requests are ready" in text
    assert 'mode = "lanes"' in text, "and the remedy"
    figures = kernel.figures()
    assert (figures.executing, figures.blocked, sum(figures.ready), figures.ended_total) == (4, 4, 12, 0)
    assert kernel._ledger.stall is not None
    assert kernel._ledger.stall.cause == "workers"
    assert kernel._ledger.look_for_stall() is None, "it is said once"
    kernel.change(workers=TREES * (1 + WIDTH) + 1)  # one more than can ever wait, and everything ends
    assert [done.result for done in kernel.kernel.joined("trees")] == [WIDTH ** (LEVELS - 1)] * TREES
    assert kernel._ledger.look_for_stall() is None
    assert kernel._ledger.stall is None


@pytest.mark.parametrize("runnable", [Node, AsyncNode])
def test_with_lanes_they_complete(live: Callable[..., Live], runnable: type[Runnable], said: Said) -> None:
    """The same trees, and more of them, on the same four workers."""
    Node.together = threading.Barrier(1)
    kernel = kernel_of(runnable, KernelPolicy(workers=4, mode="lanes", lanes=(0, 25, 25)))
    live(kernel)
    for _ in range(10 * TREES):
        kernel.kernel.post(1, runnable, lane=1, owner="trees")
    assert [done.result for done in kernel.kernel.joined("trees")] == [WIDTH ** (LEVELS - 1)] * 10 * TREES
    assert not said.texts
    assert kernel.figures().blocked == 0


def test_those_that_wait_may_fail_instead(live: Callable[..., Live], said: Said) -> None:
    """`on_stall = "fail"`: again and again, as often as they stall, and everything ends, with the reason."""
    kernel = kernel_of(Node, KernelPolicy(workers=TREES, on_stall="fail"))
    live(kernel)
    Node.together = threading.Barrier(TREES)
    for _ in range(3 * TREES):
        kernel.kernel.post(1, Node, lane=1, owner="trees")
    trees = list(kernel.kernel.joined("trees"))
    assert len(trees) == 3 * TREES
    for tree in trees:
        assert tree.error is not None
        assert "thread exhaustion" in tree.error
        assert tree.trace is not None
        assert "kernel.joined()" in tree.trace
    figures = until(kernel, lambda figures: not figures.executing)
    assert (figures.blocked, sum(figures.ready), sum(figures.rejoinable), figures.owners) == (0, 0, 0, 0)
    assert figures.posted_total == figures.ended_total + figures.withdrawn_total
    assert figures.withdrawn_total, "what a failed owner has posted is not executed"
    assert len(said.texts) >= 3


def test_who_waits_for_his_own_owner_is_named(live: Callable[..., Live], said: Said) -> None:
    """A request that waits for the owner that it belongs to waits for itself."""

    class Itself(Runnable):
        def execute(self, request: int, kernel: Context) -> int:
            return sum(1 for _ in kernel.joined("everybody"))

    kernel = kernel_of(Itself, KernelPolicy(workers=2, on_stall="fail"))
    live(kernel)
    kernel.kernel.post(1, Itself, owner="everybody")
    (done,) = kernel.kernel.joined("everybody")
    assert done.error is not None
    assert "is a request waiting for its own owner?" in done.error


def test_a_parent_that_posts_more_than_the_rejoin_pool_takes_is_named(live: Callable[..., Live], said: Said) -> None:
    """It waits for room, which only it could make, by rejoining what it waits to post more of."""

    class Fan(Runnable):
        def execute(self, request: int, kernel: Context) -> int:
            if request == 0:
                return 1
            kernel.post_all([0] * request, Fan)
            return sum(done.result for done in kernel.joined())

    kernel = kernel_of(Fan, KernelPolicy(workers=2, ready=3, rejoin=5, on_stall="fail"))
    live(kernel)
    kernel.kernel.post(20, Fan)
    (done,) = kernel.kernel.joined()
    assert done.error is not None
    assert "rejoin pool" in done.error
