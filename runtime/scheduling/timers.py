"""Timers: what is due and when. They become actions in the scheduler, never calls in a timer's own thread (law 8).

A repeating timer stays in step with its first due time. While its last action has not run, the next is skipped and
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

#: Entries from which on those of cancelled timers are swept out, each time their number has doubled: time-outs that are
#: nearly always taken back would otherwise stay until they fall due. Below this there is nothing to gain.
SWEEP_MIN = 256


class Timer:
    """One timer; also the handle by which it is taken back."""

    __slots__ = (
        "account",
        "arguments",
        "due_ns",
        "failed_count",
        "function",
        "interval_ns",
        "is_over",
        "is_pending",
        "make",
        "name",
        "object",
        "priority",
        "skipped_count",
    )

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
        #: 0: one shot.
        self.interval_ns = interval_ns
        self.due_ns = 0
        #: An action of this timer is queued or running.
        self.is_pending = False
        #: It will not fire (again): taken back, or a one-shot that has become an action.
        self.is_over = False
        self.skipped_count = 0
        #: Runs in a row that raised, up to now; of one that is not over.
        self.failed_count = 0
        #: Makes the action that it becomes, where that is not a run of `function`; None of it: nothing is to be done this time.
        #: Called with the lead. A repeating timer of this kind keeps its account, and whose action it is clears `is_pending`.
        self.make: Callable[[], Action | None] | None = None
        #: Where it counts until it is taken back or has become an action; None: nowhere, as declared timers.
        self.account: OwnWork | None = None

    def cancel(self) -> bool:
        """Take it back; False when it had been, or when a one-shot has already become an action."""
        was_waiting = not self.is_over
        self.is_over = True
        account = self.account
        if was_waiting and account is not None:
            account.taken_back.append(
                self
            )  # atomic, so any thread may; `settle` finds out whether it fired all the same
        return was_waiting


class Timers:
    """All timers of a backplane, nearest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()
        self._sweep_at = SWEEP_MIN

    def __len__(self) -> int:
        return sum(not timer.is_over for _, _, timer in self._heap)

    def set(self, timer: Timer, due_ns: int) -> None:
        """Have `timer` fall due at `due_ns`."""
        timer.due_ns = due_ns
        if len(self._heap) >= self._sweep_at:
            self._heap[:] = [entry for entry in self._heap if not entry[2].is_over]
            heapq.heapify(self._heap)
            self._sweep_at = max(SWEEP_MIN, 2 * len(self._heap))
        heapq.heappush(self._heap, (due_ns, next(self._order), timer))

    def due(self, now_ns: int) -> list[Timer]:
        """Those that fire now, in the order they fell due; repeating ones are set again."""
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
        """Take back all timers of these objects. All at once, since it looks at every timer there is."""
        gone = {id(object) for object in objects}  # by identity: they may be equal, or unhashable
        for _, _, timer in self._heap:
            if id(timer.object) in gone:
                timer.cancel()

    def next_ns(self) -> int | None:
        """When the nearest falls due."""
        heap = self._heap
        while heap and heap[0][2].is_over:
            heapq.heappop(heap)
        return heap[0][0] if heap else None
