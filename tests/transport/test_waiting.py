"""Threads that wait under one lock, and signals whose exceptions strike while it is taken back."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from appbackplane.transport.descriptors import Descriptors
from appbackplane.transport.waiting import Waitable, Waiting
from tests.waiting import LIMIT_S, Limit


@pytest.fixture
def fd() -> Iterator[int]:
    """Stands for the link's."""
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    yield fd
    os.close(fd)


class Struck(Exception):
    """What a person's Ctrl-C raises."""


@contextmanager
def strikes() -> Iterator[list[int]]:
    """SIGUSR1 raises `Struck`; an entry for each time that it has done so."""
    found: list[int] = []

    def strike(number: int, frame: FrameType | None) -> None:
        found.append(number)
        raise Struck

    before = signal.signal(signal.SIGUSR1, strike)
    try:
        yield found
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("is_leader", [True, False])
def test_who_is_interrupted_while_another_thread_has_the_lock_has_it_when_he_goes_on(fd: int, is_leader: bool) -> None:
    """Without it he would take his call back under the other's hands, two threads on one socket, and whoever waits for
    Ctrl-C would get an error about locks instead."""
    waitable, is_over = Waitable(), threading.Event()
    looks: list[bool] = []
    waiting = Waiting(fd, lambda now_ns: looks.append(keeper_has_it.is_set()), lambda: None, Descriptors("a test"))
    keeper_has_it = threading.Event()

    def strike(found: list[int], count: int) -> None:
        limit = Limit()
        while len(found) < count:
            limit.check(found)
            # Again, where it came between two calls: compiled code hears of signals only in calls that they interrupt.
            os.kill(os.getpid(), signal.SIGUSR1)
            again = Limit(LIMIT_S / 100)
            while len(found) < count and again.left_s:
                pass

    def lead() -> None:
        with waiting.lock:
            waiting.wait(Waitable(), time.monotonic_ns() + int(LIMIT_S * 1e9))

    def wait() -> None:
        with waiting.lock:
            try:
                waiting.wait(waitable, None)
            finally:
                assert not keeper_has_it.is_set(), "it goes on while another has the lock"

    def keep() -> None:
        limit = Limit()
        while not (waiting.is_led if is_leader else waiting._followers):
            limit.check("nobody waits")
        with waiting.lock:
            keeper_has_it.set()
            for count in (1, 2):  # in what it waits for, and in taking the lock back
                strike(found, count)
            keeper_has_it.clear()
        is_over.set()

    threads = [threading.Thread(target=keep, daemon=True)]
    with strikes() as found:
        if not is_leader:
            threads.append(threading.Thread(target=lead, daemon=True))
            threads[-1].start()
            while not waiting.is_led:
                pass
        threads[0].start()
        with pytest.raises(Struck):
            wait()
    assert is_over.wait(LIMIT_S)
    with waiting.lock:
        assert waitable.waiters == []
        if waiting._leader is not None:
            waiting.wake(waiting._leader)
    assert True not in looks, "it looked while another had the lock"


def test_a_look_that_takes_long_puts_no_deadline_off(fd: int) -> None:
    """A garbage collection of a second that fell into the look before the wait made a call of 1 s end after 2 s: the wait was
    counted from before that look."""
    waitable = Waitable()
    has_polled: list[bool] = []

    def look(now_ns: int) -> int:
        has_polled.append(waiting.is_readable)
        waitable.is_ready = len(has_polled) > 1
        return now_ns + 1  # that has passed when it is returned

    waiting = Waiting(fd, look, lambda: None, Descriptors("a test"))
    os.eventfd_write(fd, 1)  # whoever polls sees it
    with waiting.lock:
        assert waiting.wait(waitable, None)
    assert has_polled == [False, False], "it waited for a moment that had passed"
