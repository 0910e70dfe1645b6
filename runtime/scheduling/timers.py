"""Timers: one heap per backplane. A due timer becomes an action in the scheduler, never a call in a thread of its own (law 8).

A repeating timer stays in step with its first due time. While its last action has not ended, the next one is skipped and
counted: a timer that overruns must not fill its object's queue.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from ..objects.action import Action
from ..objects.app_object import AppObject
from .throttle import OwnWork

#: Least size of the heap at which cancelled timers are swept out; afterwards whenever it has doubled. Time-outs, which are
#: nearly always cancelled, would otherwise stay until they are due. Below this size there is nothing to gain.
SWEEP_MIN = 256


class Timer:
    """One timer, and the handle to cancel it."""

    def __init__(
        self,
        object: AppObject,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        priority: int,
        interval_ns: int,
    ) -> None:
        self.object, self.name, self.function, self.arguments = object, name, function, arguments
        self.priority = priority
        #: 0: a one-shot.
        self.interval_ns = interval_ns
        self.due_ns = 0
        #: An action of this timer is queued or running.
        self.is_pending = False
        #: It will not fire (again): cancelled, or a one-shot that has fired.
        self.is_over = False
        self.skipped_count = 0
        #: Failed runs in a row, up to the last run; kept only while the timer is not over.
        self.failed_count = 0
        #: Makes the action, instead of a run of `function`; returns None to skip this time. Called with the lead. A repeating
        #: timer of this kind keeps its account, and the owner of the action clears `is_pending`.
        self.make: Callable[[], Action | None] | None = None
        #: The account that counts it until it is cancelled or fires; None, as for declared timers: not counted.
        self.account: OwnWork | None = None

    def cancel(self) -> bool:
        """Cancel it, from any thread; False if it was cancelled before, or is a one-shot that has fired."""
        was_waiting = not self.is_over
        self.is_over = True
        account = self.account
        if was_waiting and account is not None:
            # Atomic, so any thread may do it; `settle` checks whether the timer fired all the same.
            account.taken_back.append(self)
        return was_waiting


class Timers:
    """All timers of a backplane, nearest first. Owned by the lead, but for `Timer.cancel`."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()
        self._sweep_at = SWEEP_MIN

    def __len__(self) -> int:
        return sum(not timer.is_over for _, _, timer in self._heap)

    def set(self, timer: Timer, due_ns: int) -> None:
        """Let `timer` fire at `due_ns`, in monotonic ns."""
        timer.due_ns = due_ns
        if len(self._heap) >= self._sweep_at:
            self._heap[:] = [entry for entry in self._heap if not entry[2].is_over]
            heapq.heapify(self._heap)
            self._sweep_at = max(SWEEP_MIN, 2 * len(self._heap))
        heapq.heappush(self._heap, (due_ns, next(self._order), timer))

    def due(self, now_ns: int) -> list[Timer]:
        """The timers that fire now, in the order they fell due; repeating ones are set again."""
        fired: list[Timer] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            _, _, timer = heapq.heappop(heap)
            if timer.is_over:
                continue
            if timer.interval_ns:
                missed = (now_ns - timer.due_ns) // timer.interval_ns
                timer.skipped_count += missed
                self.set(timer, timer.due_ns + (missed + 1) * timer.interval_ns)
                if timer.is_pending:
                    timer.skipped_count += 1
                    continue
            else:
                timer.is_over = True
            timer.is_pending = True
            fired.append(timer)
        return fired

    def cancel_of(self, objects: Iterable[AppObject]) -> None:
        """Cancel all timers of these objects. One call for all of them, because it scans every timer of the backplane."""
        gone = {id(object) for object in objects}  # by identity: they may be equal, or unhashable
        for _, _, timer in self._heap:
            if id(timer.object) in gone:
                timer.cancel()

    def next_ns(self) -> int | None:
        """When the nearest timer is due, in monotonic ns; None: no timer is set."""
        heap = self._heap
        while heap and heap[0][2].is_over:
            heapq.heappop(heap)
        return heap[0][0] if heap else None


def earlier(one_ns: int | None, other_ns: int | None) -> int | None:
    """The earlier of two times; None: never."""
    if one_ns is None:
        return other_ns
    return one_ns if other_ns is None or one_ns < other_ns else other_ns
