"""Waiting: leader/follower hand-over of the poll among the waiting threads of a client.

There is no background thread. One waiting thread leads: it polls the link without the lock, takes a turn, and thereby ends
the waits of the others. When its own wait has ended, another is woken to lead. A thread that does not wait may take a turn as
well. Every thread that touches the link reads it until empty before it releases the lock, so that the leader misses no edge
of the descriptor. A lone caller pays for one poll and no hand-over.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from .descriptors import Descriptors
from .errors import FailedPrecondition
from .waitables import Waitable, Waiter

_INTERRUPTED: Final = (
    "this thread is within a call of this client already: a signal handler or a finalizer that interrupts it cannot use the "
    "same client; let it set a flag, or use a client of its own"
)
_monotonic_ns: Final = time.monotonic_ns
_get_ident: Final = threading.get_ident


class Waiting:
    """The lock of one client, and the threads that wait under it."""

    def __init__(
        self, fileno: int, look: Callable[[int], int | None], lifeline_cut: Callable[[], None], descriptors: Descriptors
    ) -> None:
        """`look(now_ns)` takes a turn and returns when the next is due; `lifeline_cut` is called when the system is gone;
        `descriptors` is the client's.

        A turn may leave frames on the link; then it says that the next is due at once. A thread whose wait has ended leaves
        them to the next thread that waits, or sends.
        """
        # An RLock knows its owner: if a signal's exception strikes while it is being acquired, the release that follows
        # raises, and does not open it under another thread's hands.
        self.lock = threading.RLock()
        self._has_lock: Callable[[], bool] = self.lock._is_owned  # type: ignore[attr-defined]
        self._look = look
        self._lifeline_cut = lifeline_cut
        self._leader: Waiter | None = None
        self._followers: deque[Waiter] = deque()
        #: Ids of the threads within `wait`, which releases the lock while they sleep.
        self._sleepers: set[int] = set()
        self._descriptors = descriptors
        self._wake_fd = descriptors.note(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
        self._lifeline_fd = -1
        #: Whether the link's descriptor was found readable; cleared by the next thread that takes a turn.
        self.is_readable = False
        self._fileno = fileno
        self._poll = select.poll()
        self._poll.register(fileno, select.POLLIN)
        self._poll.register(self._wake_fd, select.POLLIN)

    def expect_outside(self) -> None:  # hot: scripts/bench call_rtt
        """Raises `FailedPrecondition` if this thread holds the lock or waits: a signal handler or a finalizer calls."""
        if self.is_inside:
            raise FailedPrecondition(_INTERRUPTED)

    @property
    def is_inside(self) -> bool:  # hot: scripts/bench call_rtt
        """Whether this thread holds the lock, or waits."""
        return self._has_lock() or (len(self._sleepers) > 0 and _get_ident() in self._sleepers)

    @property
    def is_led(self) -> bool:
        """Whether a thread polls the link now."""
        return self._leader is not None

    def wait(self, waitable: Waitable, until_ns: int | None) -> bool:  # hot: scripts/bench call_rtt
        """Wait until it is ready; False: `until_ns` came first. The lock is held before and after."""
        waiter, me = Waiter(), _get_ident()
        try:
            while True:
                now_ns = _monotonic_ns()
                wake_ns = self._look(now_ns)
                if waitable.is_ready:
                    return True
                if until_ns is not None:
                    if now_ns >= until_ns:
                        return False
                    if wake_ns is None or until_ns < wake_ns:
                        wake_ns = until_ns
                # Measured from now, not from before the turn: one that takes a second, as with a garbage collection on a
                # starved machine, would put the deadline off by that second.
                patience_ns = None if wake_ns is None else wake_ns - _monotonic_ns()
                if patience_ns is not None and patience_ns <= 0:
                    continue
                waiters = waitable.waiters
                if waiters is None:
                    waiters = waitable.waiters = []
                waiters.append(waiter)
                try:
                    self._sleepers.add(me)
                    if self._leader is None:
                        self._lead(waiter, patience_ns)
                    else:
                        self._follow(waiter, patience_ns)
                finally:
                    waiters.remove(waiter)
        finally:
            self._sleepers.discard(me)
            if self._followers and self._leader is None:
                self.wake(self._followers[0])

    def ready(self, waitable: Waitable) -> None:  # hot: scripts/bench call_rtt
        """Mark it as ready, and wake the threads that wait for it."""
        waitable.is_ready = True
        if waitable.waiters:
            for waiter in waitable.waiters:
                self.wake(waiter)

    def wake(self, waiter: Waiter) -> None:
        """Wake one waiting thread, which takes another turn."""
        if waiter.is_woken:
            return
        waiter.is_woken = True
        if waiter is self._leader:
            os.eventfd_write(self._wake_fd, 1)
        elif waiter.gate is not None:
            waiter.gate.release()

    def wake_leader(self) -> None:
        """Wake the thread that polls, if any, to take a turn and poll again."""
        if self._leader is not None:
            self.wake(self._leader)

    def watch(self, lifeline_fd: int) -> None:
        """Poll this descriptor as well from now on; this object closes it."""
        self.unwatch()
        self._lifeline_fd = self._descriptors.note(lifeline_fd)
        self._poll.register(lifeline_fd, select.POLLIN)
        self.wake_leader()  # it polls without it

    def unwatch(self) -> None:
        """Stop polling the lifeline, and close it."""
        if self._lifeline_fd >= 0:
            self._poll.unregister(self._lifeline_fd)
            lifeline_fd, self._lifeline_fd = self._lifeline_fd, -1
            self._descriptors.close(lifeline_fd)

    def check_lifeline(self) -> None:
        """For a thread that has not waited for long: notice now, before anything is sent, that the system is gone."""
        if self._leader is None and self._lifeline_fd >= 0:
            self._take_note(self._poll.poll(0))

    def close(self) -> None:
        """Wait until no thread leads, then close the descriptors. Everything awaited must be ready by now."""
        while self._leader is not None:
            waiter = Waiter()
            self.wake(self._leader)
            self._follow(waiter, None)
        self.unwatch()
        self._descriptors.close(self._wake_fd)
        self._descriptors.end()

    def _lead(self, waiter: Waiter, patience_ns: int | None) -> None:  # hot: scripts/bench call_rtt
        self._leader = waiter
        # A signal's exception strikes after a call has taken effect: once `try` is entered, the lock has been released.
        try:
            self.lock.release()
            # Waking up to a millisecond late is better than waking before the deadline and polling twice.
            polled = self._poll.poll(None if patience_ns is None else patience_ns // 1_000_000 + 1)
        finally:
            try:
                self.lock.acquire()
            except BaseException:
                self._take_back()
                raise
            finally:
                self._leader = None
                if waiter.is_woken:
                    waiter.is_woken = False
                    os.eventfd_read(self._wake_fd)
        self._take_note(polled)

    def _follow(self, waiter: Waiter, patience_ns: int | None) -> None:
        gate = waiter.gate = threading.Lock()
        gate.acquire()
        try:
            self._followers.append(waiter)
            self.lock.release()
            gate.acquire(timeout=-1 if patience_ns is None else min(patience_ns / 1e9, threading.TIMEOUT_MAX))
        finally:
            try:
                if not self._has_lock():  # a signal's exception may have struck before it was released
                    self.lock.acquire()
            except BaseException:
                self._take_back()
                raise
            finally:
                self._followers.remove(waiter)
                waiter.gate, waiter.is_woken = None, False

    def _take_back(self) -> None:
        """A signal's exception struck as the lock was being acquired, or just then: hold it before the exception is raised.

        Code that handles the exception touches the link, which another thread may be using. Calling this function is a place
        where the next one may strike; so the first attempt is made by the caller.
        """
        if self._has_lock():
            return
        try:
            self.lock.acquire()
        except BaseException:
            self._take_back()
            raise

    def _take_note(self, polled: list[tuple[int, int]]) -> None:
        for fd, _ in polled:
            if fd == self._fileno:
                self.is_readable = True
            elif fd == self._lifeline_fd:
                self.unwatch()
                self._lifeline_cut()
