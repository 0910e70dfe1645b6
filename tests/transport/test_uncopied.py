"""Uncopied: pyzmq's bookkeeping of frames that ZeroMQ reads from our memory is out of reach of a signal's exception."""

import os
import signal
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest
from zmq.utils import garbage

from appbackplane.transport.uncopied import uncopied
from tests.waiting import LIMIT_S

FRAME = b"x" * (1 << 16)


def test_the_main_thread_runs_none_of_pyzmqs_bookkeeping() -> None:
    """Signal handlers run there. An exception that struck it lost the collector: peers were full for ever."""
    assert threading.current_thread() is threading.main_thread()
    ran: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == garbage.__file__:
            ran.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        part = uncopied(FRAME)
    finally:
        sys.setprofile(None)
    assert ran == []
    assert part.buffer == FRAME and not part.tracker.done


@pytest.mark.parametrize("is_main", [False, True], ids=["another", "main"])
def test_its_end_is_known_once_nobody_holds_it(is_main: bool) -> None:
    """By that the bytes in flight to a peer are bounded, whichever thread sends."""
    with ThreadPoolExecutor(1) as pool:
        part = uncopied(FRAME) if is_main else pool.submit(uncopied, FRAME).result(LIMIT_S)
    tracker = part.tracker
    assert not tracker.done
    del part
    tracker.wait(LIMIT_S)
    assert tracker.done


@pytest.mark.parametrize("is_main", [False, True], ids=["another", "main"])
def test_a_collector_that_has_stopped_leaves_a_copy(is_main: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyzmq stops it while the interpreter exits, where a program may still say goodbye."""
    assert uncopied(FRAME)
    monkeypatch.setattr(garbage.gc, "_stay_down", True)
    with ThreadPoolExecutor(1) as pool:
        part = uncopied(FRAME) if is_main else pool.submit(uncopied, FRAME).result(LIMIT_S)
    assert part.buffer == FRAME and part.tracker.done


@pytest.mark.systems
def test_a_forked_process_prepares_its_own() -> None:
    """The thread that prepares frames did not come along."""
    assert uncopied(FRAME)
    pid = os.fork()
    if pid == 0:
        signal.alarm(int(LIMIT_S))
        try:
            part = uncopied(FRAME)
            os._exit(0 if part.buffer == FRAME and not part.tracker.done else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Memory(bytearray):
    """Tells when it is freed."""


def test_no_frame_is_kept_until_the_next_one() -> None:
    """It may have 16 MiB, and the next one may never come."""
    memory, freed = Memory(FRAME), threading.Event()
    weakref.finalize(memory, freed.set)
    assert uncopied(memory)  # type: ignore[arg-type]
    del memory
    assert freed.wait(LIMIT_S)
