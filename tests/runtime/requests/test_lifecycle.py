"""From before a kernel is initialized until after it has gone down: nobody is left waiting, and nothing is lost unsaid."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from appbackplane.runtime import operation
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.requests import Context, KernelPolicy, Rejoin, RequestFailed, RequestKernel, Runnable
from appbackplane.runtime.requests import kernel as kernel_module
from appbackplane.runtime.requests.executing.executor import KernelPort
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.errors import Busy, DeadlineExceeded, FailedPrecondition, InvalidArgument

from .conftest import LIMIT_S, Live, joined, until


class Echo(Runnable):
    def execute(self, request: int, kernel: Context) -> int:
        return request


class Held(Runnable):
    """Executes until the test lets it; then asks its kernel for one thing more."""

    begun = threading.Semaphore(0)
    may_end = threading.Event()

    def execute(self, request: int, kernel: Context) -> int:
        self.begun.release()
        assert self.may_end.wait(LIMIT_S)
        if request:
            kernel.post(request, Echo)
        return request


class Kernel(RequestKernel):
    runnables = (Echo, Held)

    @operation()
    async def ask(self, how: dict[str, Any]) -> str:
        """What a coroutine finds that asks before what it has posted can have begun."""
        self.kernel.post(1, Echo)
        return (await self.kernel.arejoin(**how))[0].value


@pytest.fixture(autouse=True)
def gates(live: Callable[..., Live]) -> Any:  # ended before those who run it
    Held.begun, Held.may_end = threading.Semaphore(0), threading.Event()
    yield
    Held.may_end.set()


class Asking(threading.Thread):
    """Does something that may wait; `said` is what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.function = function
        self.said: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.said = self.function()
        except Exception as error:
            self.said = error


def test_who_posts_too_early_is_told_when(live: Callable[..., Live]) -> None:
    kernel = Kernel()
    live(kernel, is_up=False)
    with pytest.raises(FailedPrecondition, match=r"does not run yet: post from on_initializing\(\) on"):
        kernel.kernel.post(1, Echo)


def test_who_waits_when_it_goes_down_is_told(live: Callable[..., Live], caplog: pytest.LogCaptureFixture) -> None:
    """Posters, and rejoiners; and what is lost with it is said. What executes may end, and has nobody to post to."""
    kernel = Kernel(KernelPolicy(workers=1, ready=1))
    at = live(kernel)
    context = kernel.kernel
    running = context.post(1, Held, owner="a")
    assert Held.begun.acquire(timeout=LIMIT_S)
    ready = context.post(2, Echo, owner="a")
    poster = Asking(lambda: context.post(3, Echo, owner="b"))
    until(kernel, lambda figures: figures.posting == 1)
    rejoiners = [Asking(lambda owner=owner: context.rejoin(owner, wait=True)) for owner in ("a", "b")]  # type: ignore[misc]
    with caplog.at_level(logging.WARNING, "appbackplane.runtime"):
        at.move(ModuleState.DOWN)
    for thread in (poster, *rejoiners):
        joined(thread)
    assert "goes down with 3 unfinished requests: they are lost" in caplog.text
    assert isinstance(poster.said, FailedPrecondition)
    assert isinstance(rejoiners[0].said, FailedPrecondition)
    assert isinstance(rejoiners[1].said, (FailedPrecondition, tuple)), "that of b was withdrawn: none exists any more"
    with pytest.raises(FailedPrecondition, match="goes down"):
        context.post(1, Echo)
    with pytest.raises(FailedPrecondition, match="goes down"):
        context.rejoin("a", wait=True)
    Held.may_end.set()
    until(kernel, lambda figures: not figures.executing)
    assert running.error is not None
    assert "goes down" in running.error
    assert ready.state.value == "ready", "nothing is begun any more"


class Elsewhere:
    """An executor as Spark's: a thread that takes, and says what it had is lost when it is told to stop."""

    def __init__(self) -> None:
        self.is_kicked, self.is_over = threading.Event(), threading.Event()
        self.has_ended = False

    def start(self, kernel: RequestKernel, ledger: KernelPort) -> None:
        self.ledger = ledger
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def kick(self, worker: str) -> None:
        self.is_kicked.set()

    def resize(self, workers: int) -> None: ...

    def workers(self) -> list[dict[str, Any]]:
        return []

    def work(self) -> None:
        while not (taken := self.ledger.take("one", 1)):
            assert self.is_kicked.wait(LIMIT_S)
            self.is_kicked.clear()
        assert self.is_over.wait(LIMIT_S)
        self.ledger.lost("one", taken, "it has been stopped")

    def stop(self) -> None:
        self.is_over.set()
        self.thread.join(LIMIT_S / 2)
        self.has_ended = not self.thread.is_alive()


class Asker(Kernel):
    """Has a coroutine wait for a request of its own."""

    def on_primary(self) -> None:
        self.told: list[Exception] = []
        self.has_been_told = threading.Event()
        self.after(0, self.ask)

    async def ask(self) -> None:
        try:
            await self.kernel.arun(1, Echo)
        except (FailedPrecondition, RequestFailed) as error:
            self.told.append(error)
            self.has_been_told.set()


def test_an_executor_that_waits_for_its_workers_does_not_wait_for_who_needs_the_lead(
    live: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops with the lead: who heard then that his request is lost would go on with it, and all would wait for all."""
    executor = Elsewhere()
    monkeypatch.setattr(kernel_module, "executor_of", lambda policy: executor)
    kernel = Asker()
    at = live(kernel)
    until(kernel, lambda figures: figures.executing == 1)
    at.move(ModuleState.DOWN)
    assert executor.has_ended
    assert kernel.has_been_told.wait(LIMIT_S)
    assert [str(error) for error in kernel.told] == ["k/asker goes down"]
    figures = kernel.figures()
    assert (figures.ended_total, figures.failed_total, figures.lost_total, figures.executing) == (1, 1, 1, 0)


def test_it_comes_up_again(live: Callable[..., Live]) -> None:
    """As if nothing had been: its workers are there, more of them if need be, and what it counts begins anew."""
    kernel = Kernel(KernelPolicy(workers=2))
    at = live(kernel)
    for time in range(3):
        kernel.change(workers=2 + time)
        assert [kernel.kernel.post(number, Echo).id for number in range(4)] == [1, 2, 3, 4]
        assert sorted(done.result for done in kernel.kernel.joined()) == [0, 1, 2, 3]
        at.move(ModuleState.DOWN)
        at.up()


class Parent(Runnable):
    """Waits until the test lets it, and then for as many children."""

    def execute(self, request: int, kernel: Context) -> int:
        Held.begun.release()
        assert Held.may_end.wait(LIMIT_S)
        return sum(done.get() for done in kernel.map_unordered(range(request), Echo))


class Family(RequestKernel):
    runnables = (Parent, Echo)
    policy = KernelPolicy(workers=4, on_stall="fail")


@pytest.mark.parametrize("then", ["resume", "drain"])
def test_one_that_waits_for_what_is_held_is_at_rest_and_goes_on_with_it(live: Callable[..., Live], then: str) -> None:
    """It was taken for a stall, and failed; what was stopped so never was, and lost all when it went down."""
    kernel = Family()
    at = live(kernel)
    parent = kernel.kernel.post(3, Parent, owner="x")
    assert Held.begun.acquire(timeout=LIMIT_S)
    with at.backplane.engine.lead:
        kernel._mode.stop(is_now=True)
    assert kernel._mode.state == "stopping"
    Held.may_end.set()
    until(kernel, lambda figures: figures.blocked == 1 and sum(figures.ready) == 3)
    assert kernel._mode.state == "stopped"
    kernel._watch()
    assert kernel._ledger.stall is None and parent.error is None
    with at.backplane.engine.lead:
        kernel._mode.resume() if then == "resume" else kernel._drains()
    assert kernel.kernel.rejoin("x", wait=True) == (Rejoin.RETURNED, parent)
    assert parent.result == 3


def test_what_is_held_is_executed_before_a_kernel_stops(live: Callable[..., Live]) -> None:
    """`stop` says that all that is posted ends first: what was held would keep it from that for ever."""
    kernel = Kernel()
    at = live(kernel)
    with at.backplane.engine.lead:
        kernel._mode.hold()
    element = kernel.kernel.post(1, Echo, owner="x")
    with at.backplane.engine.lead:
        kernel._mode.stop(is_now=False)
    assert kernel.kernel.rejoin("x", wait=True) == (Rejoin.RETURNED, element)


def ages(kernel: RequestKernel, seconds: float) -> int:
    """How many intervals of ageing pass in a time."""
    before = kernel._ledger._ledger.ready.age
    threading.Event().wait(seconds)
    return kernel._ledger._ledger.ready.age - before


def test_what_is_changed_while_it_is_down_has_no_timers_until_it_comes_up(live: Callable[..., Live]) -> None:
    """Else it grows older while it is down, and twice as fast once it is up."""
    kernel = Kernel(KernelPolicy(ageing=True, interval=0.05))
    at = live(kernel)
    at.move(ModuleState.DOWN)
    kernel.change(interval=0.04)
    assert ages(kernel, 0.2) == 0


def test_a_change_while_it_comes_up_is_not_lost(live: Callable[..., Live]) -> None:
    """It is made before or after, and holds nothing that whoever brings it up, with the lead, would wait for."""
    kernel = Kernel(KernelPolicy(ageing=True))
    at = live(kernel)
    at.move(ModuleState.DOWN)
    with at.backplane.engine.lead:  # as who brings it up
        changing = Asking(lambda: kernel.change(interval=0.04))
        changing.join(0.2)
        assert changing.is_alive(), "it waits for the lead"
        at.backplane.engine.lifecycle.move(kernel.component_name, ModuleState.INITIALIZING, lambda _: None)
    changing.join(LIMIT_S)
    assert isinstance(changing.said, KernelPolicy)
    assert (kernel.policy.interval, kernel._ledger.policy.interval) == (0.04, 0.04)


def test_a_user_with_much_to_do_does_not_cost_it_a_worker(live: Callable[..., Live]) -> None:
    """At `max_posted` a worker could not be called, and was never again; and the post said Busy of what was posted."""

    class Small(Kernel):
        max_posted = 5

    kernel = Small(KernelPolicy(workers=1))
    live(kernel)
    until(kernel, lambda _: bool(kernel._ledger._idle))
    with suppress(Busy):
        for _ in range(5):
            kernel.after(60.0, kernel.figures)
    with pytest.raises(Busy):
        kernel.after(60.0, kernel.figures)
    kernel.kernel.post(2, Echo, owner="b")
    assert kernel.kernel.rejoin("b", wait=True, timeout=LIMIT_S)[0] is Rejoin.RETURNED


def test_two_who_change_it_at_once_make_each_worker_once(live: Callable[..., Live]) -> None:
    kernel = Kernel(KernelPolicy(workers=1))
    live(kernel)
    add, both = kernel.add, threading.Barrier(2)

    def slow(*arguments: Any, **keywords: Any) -> Any:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        return add(*arguments, **keywords)

    kernel.add = slow  # type: ignore[method-assign]
    asking = [Asking(lambda: kernel.change(workers=2)), Asking(lambda: kernel.change(ready=50))]
    for each in asking:
        each.join(LIMIT_S)
        assert isinstance(each.said, KernelPolicy), each.said


def test_a_drained_kernel_finishes_what_it_has(live: Callable[..., Live]) -> None:
    """From outside nothing comes in; what executes may post, and is waited for."""
    kernel = Kernel(KernelPolicy(workers=2))
    at = live(kernel)
    context = kernel.kernel
    context.post(5, Held, owner="a")
    assert Held.begun.acquire(timeout=LIMIT_S)
    engine = at.backplane.engine
    with engine.lead:
        engine.lifecycle.suspend_timers()
    with pytest.raises(FailedPrecondition, match=r"accepts no requests|drain"):
        context.post(1, Echo)
    Held.may_end.set()
    assert [(done.result, done.error) for done in context.joined("a")] == [(5, None)]


def test_a_kernel_that_never_came_up_is_drained(live: Callable[..., Live]) -> None:
    kernel = Kernel()
    engine = live(kernel, is_up=False).backplane.engine
    with engine.lead:
        engine.lifecycle.suspend_timers()


def test_limits_of_waiting(live: Callable[..., Live]) -> None:
    """Whose time is over has not posted, and has not rejoined; whoever does not wait is answered at once."""
    kernel = Kernel(KernelPolicy(workers=1, ready=1))
    live(kernel)
    context = kernel.kernel
    context.post(0, Held)
    assert Held.begun.acquire(timeout=LIMIT_S)
    context.post(1, Echo)
    with pytest.raises(DeadlineExceeded, match=r"Echo was not posted: no room within 0\.01 s"):
        context.post(2, Echo, timeout=0.01)
    with pytest.raises(Busy, match="ready pool is full: 1 of 1"):
        context.post(2, Echo, wait=False)
    with pytest.raises(DeadlineExceeded, match=r"none of the requests of 'main' ended within 0\.01 s"):
        context.rejoin(wait=True, timeout=0.01)
    assert context.rejoin() == (Rejoin.NONE_READY, None)
    assert context.rejoin("nobody") == (Rejoin.NONE_EXIST, None)
    figures = kernel.figures()
    assert (figures.posted_total, figures.withdrawn_total, figures.refused_total, figures.posting) == (3, 1, 1, 0)
    Held.may_end.set()
    assert sorted(done.result for done in context.joined()) == [0, 1]


def test_a_limit_alone_is_waited_for(live: Callable[..., Live]) -> None:
    """`rejoin(owner, timeout=5)` that came back at once would be polled, or taken for five seconds in vain."""
    kernel = Kernel(KernelPolicy(workers=1))
    live(kernel)
    context = kernel.kernel
    context.post(0, Held)
    with pytest.raises(DeadlineExceeded, match=r"none of the requests of 'main' ended within 0\.01 s"):
        context.rejoin(timeout=0.01)
    asking = Asking(lambda: context.rejoin(timeout=LIMIT_S))
    Held.may_end.set()
    joined(asking)
    assert asking.said[0] is Rejoin.RETURNED


def test_a_limit_of_not_waiting_is_refused() -> None:
    """One of the two is not meant; and nothing is posted."""
    kernel = Kernel()
    VirtualBackplane(kernel).run_until_idle()
    context = kernel.kernel
    for ask in (
        lambda: context.post(1, Echo, wait=False, timeout=5),
        lambda: context.apost(1, Echo, wait=False, timeout=5),
        lambda: context.rejoin(wait=False, timeout=5),
        lambda: context.arejoin(wait=False, timeout=0),
    ):
        with pytest.raises(
            InvalidArgument, match=r"timeout=[05] has no effect with wait=False: leave out one of the two"
        ):
            ask()
    assert kernel.figures().posted_total == 0


@pytest.mark.parametrize(
    ("how", "said"),
    [({}, "none ready"), ({"wait": False}, "none ready"), ({"timeout": 5}, "returned"), ({"wait": True}, "returned")],
)
def test_a_coroutine_waits_when_a_thread_would(how: dict[str, Any], said: str) -> None:
    """Twins with opposite defaults: who replaces one by the other would wait for ever, or poll."""
    kernel = Kernel()
    backplane = VirtualBackplane(kernel)
    backplane.run_until_idle()
    assert backplane.call("kernel.ask", how=how).result() == said


@pytest.mark.parametrize("timeout", ["soon", -1, float("nan"), True])
def test_a_limit_that_makes_no_sense_is_refused(live: Callable[..., Live], timeout: Any) -> None:
    """Before anything is posted: else it would be executed though its poster was told that it failed."""
    kernel = Kernel(KernelPolicy(workers=1, ready=1))
    live(kernel)
    kernel.kernel.post(0, Held)
    assert Held.begun.acquire(timeout=LIMIT_S)
    kernel.kernel.post(1, Echo)
    with pytest.raises(InvalidArgument, match="timeout="):
        kernel.kernel.post(2, Echo, timeout=timeout)
    with pytest.raises(InvalidArgument, match="timeout="):
        kernel.kernel.rejoin(wait=True, timeout=timeout)
    assert kernel.figures().posted_total == 2


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"lane": 4}, r"lane=4: expected 0 \(service\), 1"),
        ({"lane": True}, "lane=True"),
        ({"lane": "3"}, "lane='3'"),
        ({"priority": 1.5}, r"priority=1\.5: expected a whole number"),
        ({"priority": None}, "priority=None"),
        ({"owner": []}, r"owner=\[\]: expected a hashable value, got a list"),
    ],
)
def test_a_post_that_makes_no_sense_is_refused(live: Callable[..., Live], what: dict[str, Any], said: str) -> None:
    kernel = Kernel()
    live(kernel)
    with pytest.raises(InvalidArgument, match=said):
        kernel.kernel.post(1, Echo, **what)
    for runnable in ("Nobody", Runnable, Echo(), None):
        with pytest.raises(InvalidArgument, match=r"has Echo, Held; name the class in its `runnables`"):
            kernel.kernel.post(1, runnable)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="Echo executes int, not str: got 'x'"):
        kernel.kernel.post_all([1, 2, "x"], Echo)
    assert kernel.figures().posted_total == 0, "of many, none or all"
