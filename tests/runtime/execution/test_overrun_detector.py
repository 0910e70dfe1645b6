"""OverrunDetector: which worker keeps the link from being looked after, by the wall, its CPU clock and the kernel's word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.execution.workers.overrun_detector import OverrunDetector, proc_runnable
from appbackplane.runtime.execution.workers.poll_leader import QUANTUM_NS
from appbackplane.runtime.execution.workers.worker import Worker
from tests.waiting import LIMIT_S

MS = 1_000_000


@dataclass
class Stretch:
    """A worker, as the sentinel sees one."""

    looked_ns: int = 0
    cpu_ns: int = 0
    is_runnable: bool = True
    number: int = 1
    ident: int = 7
    tid: int = 0


@pytest.fixture
def worker() -> Stretch:
    return Stretch()


@pytest.fixture
def at(worker: Stretch) -> Callable[[int, int], bool]:
    """A look at a time, when the thread has used so much CPU."""
    unseen = OverrunDetector(lambda _ident: worker.cpu_ns, lambda _worker: worker.is_runnable)

    def look(now_ns: int, cpu_ns: int) -> bool:
        worker.cpu_ns = cpu_ns
        return unseen.overruns(cast("Worker", worker), now_ns)

    return look


def test_who_computes_for_longer_than_the_quantum_overruns(at: Any) -> None:
    assert not at(QUANTUM_NS - 1, QUANTUM_NS - 1)
    assert at(QUANTUM_NS, QUANTUM_NS)


def test_who_is_kept_from_its_core_does_not(at: Any, worker: Stretch) -> None:
    at(0, 0)
    assert not at(4 * MS, MS // 4)
    assert not at(8 * MS, MS // 4)
    assert at(9 * MS, MS // 2)  # 0.5 ms of CPU, whenever that was


def test_whose_thread_has_ended_does_not(worker: Stretch) -> None:
    """The sentinel looks while workers go: what the kernel says of one that has gone must not end the process."""

    def gone(_ident: int) -> int:
        raise ProcessLookupError(3, "No such process")

    assert not OverrunDetector(gone, lambda _worker: True).overruns(cast("Worker", worker), 9 * MS)


def test_who_blocks_does(at: Any, worker: Stretch) -> None:
    """Its thread has left the interpreter to others: a relief can run."""
    at(0, 0)
    worker.is_runnable = False
    assert not at(QUANTUM_NS - 1, 0)
    assert at(4 * MS, 0)


def test_a_look_of_its_own_begins_anew(at: Any, worker: Stretch) -> None:
    at(0, 0)
    assert at(MS, MS)
    worker.looked_ns = 2 * MS - 1
    assert not at(2 * MS, 2 * MS)
    assert at(2 * MS + QUANTUM_NS, 2 * MS + QUANTUM_NS)


def test_what_was_used_before_its_own_look_does_not_count(at: Any, worker: Stretch) -> None:
    """It ran for half of the time since the last look of the sentinel: so for half of the stretch, too."""
    at(0, 0)
    worker.looked_ns = 4 * MS - 3 * QUANTUM_NS // 2
    assert not at(4 * MS, 2 * MS)
    worker.looked_ns = 8 * MS - 3 * QUANTUM_NS // 2
    assert at(8 * MS, 5 * MS)


def test_the_kernel_knows_who_blocks_and_who_computes() -> None:
    is_over, is_blocked = threading.Event(), threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            sum(range(100))

    def block() -> None:
        is_blocked.set()
        is_over.wait(LIMIT_S)

    computing, blocking = threading.Thread(target=compute), threading.Thread(target=block)
    for each in (computing, blocking):
        each.start()
    try:
        assert is_blocked.wait(LIMIT_S)
        end_ns = RealClock.now_ns() + int(LIMIT_S * 1e9)
        for thread, is_runnable in ((computing, True), (blocking, False)):
            # Either may wait for the interpreter at a moment: the test has it as well.
            while proc_runnable(cast("Worker", Stretch(tid=thread.native_id or 0))) is not is_runnable:
                assert RealClock.now_ns() < end_ns, f"the kernel never says that it is so: {is_runnable}"
        assert RealClock().cpu_ns_of(computing.ident or 0) > 0
    finally:
        is_over.set()
        computing.join()
        blocking.join()
    assert proc_runnable(cast("Worker", Stretch(tid=2**22))) is False
