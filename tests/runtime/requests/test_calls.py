"""The execution of a request calls operations of other components: by its context, in a coroutine and in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from appbackplane.runtime import AppObject, Component, FailedPrecondition, InvalidArgument, operation
from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.process_config import ProcessConfig
from appbackplane.runtime.requests import Context, KernelPolicy, RequestKernel, Runnable
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.link import Link
from tests.waiting import LIMIT_S


class Shelf(AppObject):
    """Something to call, by key."""

    @operation(priority=3)
    def double(self, number: int) -> list[object]:
        if number < 0:
            raise InvalidArgument(f"number={number}: expected 0 or more")
        return [self.key, number * 2]


class Store(Component):
    """Two of them."""

    def setup(self) -> None:
        for key in ("left", "right"):
            self.add(Shelf(), key=key)


class Awaiting(Runnable):
    """In a coroutine."""

    async def execute(self, request: int, kernel: Context) -> list[object]:
        found: list[object] = await kernel.acall("store.double", key="right", number=request)
        return found


class Blocking(Runnable):
    """In its thread."""

    def execute(self, request: int, kernel: Context) -> list[object]:
        found: list[object] = kernel.call("store.double", key="left", number=request)
        return found


class Work(RequestKernel):
    """Has both."""

    runnables = (Awaiting, Blocking)
    policy = KernelPolicy(workers=2)

    @operation(priority=3)
    async def run(self, name: str, numbers: list[int]) -> list[object]:
        await self.kernel.apost_all(numbers, name, owner="test")
        return sorted([[done.result, done.error] async for done in self.kernel.ajoined("test")], key=str)

    @operation(priority=3)
    async def ask(self) -> object:
        return await self.kernel.acall("store.double", key="left", number=4)


@pytest.fixture
def started() -> Iterator[Work]:
    """A kernel with threads, in a backplane without a system."""
    work = Work()
    config = ProcessConfig(system="test", backplane="test", run_dir="/nowhere", components=(), preempt=False)
    backplane = Backplane(config, [Store(), work], clock=RealClock(), link=Link("test"))
    backplane.start(1)
    for state in (ModuleState.INITIALIZING, ModuleState.PRIMARY):
        for name in ("store", "work"):
            moved = threading.Event()
            with backplane.engine.lead:
                backplane.engine.lifecycle.move(name, state, lambda error, moved=moved: moved.set())
            assert moved.wait(LIMIT_S)
    yield work
    backplane.stop(LIMIT_S)


def test_a_coroutine_calls_without_a_thread() -> None:
    """A request that asks somebody while it is executed would need a client of its own, without its priority."""
    backplane = VirtualBackplane(Store(), Work())
    assert backplane.call("work.run", name="Awaiting", numbers=[1, 2]).result() == [
        [["right", 2], None],
        [["right", 4], None],
    ]
    assert backplane.call("work.ask").result() == ["left", 8], "and so may who posts"


def test_a_plain_one_waits_in_its_thread(started: Work) -> None:
    """With the other worker at work meanwhile."""
    kernel = started.kernel
    kernel.post_all([1, 2, -1], Blocking, owner="test")
    done = sorted((each.request, each.result, each.error) for each in kernel.joined("test"))
    assert done[1:] == [(1, ["left", 2], None), (2, ["left", 4], None)]
    assert done[0][:2] == (-1, None)
    assert "number=-1: expected 0 or more" in str(done[0][2]), "the request fails as the call did"


def test_from_outside_it_is_refused(started: Work) -> None:
    """A thread that no action runs in has no priority to call with."""
    with pytest.raises(
        FailedPrecondition, match=r"store.double: only an operation or the execution of a request can call"
    ):
        started.kernel.call("store.double", number=1)
