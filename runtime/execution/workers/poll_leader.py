"""Poll leader: leader/follower hand-over of the poll: which worker polls the link while others run actions (DESIGN section 5).

One idle worker polls, the others are parked; polling by several would wake all of them for each message. Before an action
that is known to take long, the poll is handed to an idle worker. When every regular worker is busy for longer than a
quantum, a relief worker is let in. It polls, and runs only actions more urgent than the least urgent action of the regular
workers (`relief_limit`). If its own action takes long as well, the next relief is let in, for actions more urgent than that
one. One relief polls, the others run; the first regular worker to return retires them. The poll is not the lead: whoever
polls has given up the lead. Everything else here needs it.
"""

from __future__ import annotations

import os
import select
from typing import Final

from .worker import ReliefWorker, Worker

#: How long one action may run before another worker polls the link. With 0.5 ms, urgent p99 behind 20 ms actions
#: was 1.4 ms and bulk throughput unchanged; without it, 20 ms (DESIGN section 5).
QUANTUM_NS: Final = 500_000
#: With one relief, a call of priority 0 waited for a whole action of priority 1 that the relief had begun. With two, long
#: actions of three priorities run side by side. Each further one is a thread to inspect in every iteration.
RELIEFS_MAX: Final = 2


class PollLeader:
    """The workers of one backplane: which one polls, which are parked, and which reliefs are active."""

    def __init__(self, fileno: int) -> None:
        self._link_fd = fileno
        #: Regular workers, in the order they were added.
        self.workers: list[Worker] = []
        #: Interchangeable: a free one polls, while the others run.
        self.reliefs: list[ReliefWorker] = []
        #: Workers and reliefs. Readable without the lead: the tuple is replaced, never changed.
        self.team: tuple[Worker, ...] = ()
        self._is_relieved = False
        self.poller: Worker | None = None
        #: When the poller's timeout ends; None: it has none.
        self.wakes_ns: int | None = None
        self._parked: list[Worker] = []
        self._wake_fd = -1
        self._is_woken = False
        #: Whether the last poll found the link readable; reset by the next drain.
        self.is_readable = False
        self._poll: select.poll | None = None
        #: The eventfd that wakes the sentinel (-1: none), and whether the sentinel sleeps until it is woken.
        self.sentinel_fd = -1
        self.is_sentinel_asleep = False

    def joins(self, worker: Worker) -> None:
        if isinstance(worker, ReliefWorker):
            self.reliefs.append(worker)
        else:
            self.workers.append(worker)
        self.team = (*self.workers, *self.reliefs)

    def leaves(self, worker: Worker) -> None:
        """Remove a regular worker that has ended; a relief stays."""
        if worker in self.workers:
            self.workers.remove(worker)
            self.team = (*self.workers, *self.reliefs)

    @property
    def is_relief_looking(self) -> bool:
        return self.poller is not None and self.poller.is_relief

    def wait(self, worker: Worker, wake_ns: int | None, timeout_ms: int | None) -> None:
        """Poll or park, without the lead, until there may be work: input, `wake_ns`, or a notification.

        `timeout_ms` is `wake_ns` converted for poll().
        """
        lead = worker.lead
        if not worker.is_relief:
            self.retire_reliefs()
        if self.poller is not None:
            if self.oversleeps(wake_ns):
                self._wake_poller()
            self._parked.append(worker)
            lead.release()
            worker.gate.acquire()
            lead.acquire()
            self._wake_sentinel()
            return
        poll = self._poll or self._open()
        self.poller, self.wakes_ns = worker, wake_ns
        lead.release()
        try:
            for fd, _ in poll.poll(timeout_ms):
                if fd == self._link_fd:
                    self.is_readable = True
        finally:
            lead.acquire()
            self.poller = None
            self._wake_sentinel()
            if self._is_woken:
                self._is_woken = False
                os.eventfd_read(self._wake_fd)

    def oversleeps(self, wake_ns: int | None) -> bool:
        """Whether `wake_ns` is due before the poller, if there is one, wakes by itself."""
        return self.poller is not None and wake_ns is not None and (self.wakes_ns is None or wake_ns < self.wakes_ns)

    def notify(self) -> None:
        """Wake one idle worker for work that did not come over the link."""
        if self._parked:
            self._parked.pop().gate.release()
        elif self.poller is not None:
            self._wake_poller()

    def wake_all(self) -> None:
        """Wake all parked workers, stopping reliefs and the poller, so that those with `is_stopping` end."""
        while self._parked:
            self._parked.pop().gate.release()
        for relief in self.reliefs:
            if relief.is_stopping:
                relief.let_in()
        self._wake_poller()

    def hand_over(self) -> None:
        """The calling worker will not poll the link: let a parked one do so."""
        if self.poller is None and self._parked:
            self._parked.pop().gate.release()

    def before_long(self, worker: Worker, *, is_overrun_sure: bool) -> None:
        """`worker` begins a long action: a parked worker takes over the poll; without one, a relief if an overrun is sure.

        If no overrun is sure, reliefs retire: at each message, relief and worker would take the GIL from each other.
        Beside bulk actions of 100 us, urgent p99 was 0.8 ms with a relief and is 0.4 ms without, with 5 % more bulk calls.
        """
        if not is_overrun_sure and not worker.is_relief:
            self.retire_reliefs()
        if self.poller is None:
            if self._parked:
                self.hand_over()
            elif is_overrun_sure:
                self._relieve()
        elif self.poller.is_relief and is_overrun_sure:
            self._relieve()  # the polling relief may be about to retire

    def overrun(self, now_ns: int) -> None:
        """An action has run longer than the quantum, unexpectedly: have another worker poll the link, unless one soon will."""
        if self.poller is None and self._parked:
            self.hand_over()
            return
        if self.poller is not None and not self.poller.is_relief:
            return
        for worker in self.team:
            if worker.action is not None and (not worker.started_ns or now_ns - worker.looked_ns < QUANTUM_NS):
                return
        self._relieve()

    def relief_limit(self) -> int | None:
        """A relief may run only actions more urgent than this priority; None while a regular worker is free.

        It is the least urgent action of the regular workers, or a relief's action where that is more urgent.
        """
        lowest: int | None = None
        for worker in self.workers:
            action = worker.action
            if action is None:
                return None
            lowest = action.priority if lowest is None else max(lowest, action.priority)
        for relief in self.reliefs:
            action = relief.action
            if action is not None and lowest is not None:
                lowest = min(lowest, action.priority)
        return lowest

    def is_looked_after_besides(self, relief: ReliefWorker) -> bool:
        """Whether another relief polls the link, or is about to."""
        return any(each.is_active and each.action is None for each in self.reliefs if each is not relief)

    def retire_reliefs(self) -> None:  # hot: scripts/bench call_rtt
        """Deactivate all reliefs: a regular worker polls the link again."""
        if not self._is_relieved:
            return
        self._is_relieved = False
        for relief in self.reliefs:
            relief.is_active = False
        if self.is_relief_looking:
            self._wake_poller()

    def close(self) -> None:
        if self._wake_fd >= 0:
            os.close(self._wake_fd)
            self._wake_fd = -1

    def _wake_poller(self) -> None:
        if self.poller is not None and not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)

    def _wake_sentinel(self) -> None:
        if self.is_sentinel_asleep and self.sentinel_fd >= 0:
            self.is_sentinel_asleep = False
            os.eventfd_write(self.sentinel_fd, 1)

    def _relieve(self) -> None:
        """Activate a relief that runs no action: preferably one still active, or not yet parked."""
        if self.relief_limit() is None:
            return
        free = [relief for relief in self.reliefs if relief.action is None]
        if free:
            self._is_relieved = True
            min(free, key=lambda relief: (not relief.is_active, relief.is_parked)).let_in()

    def _open(self) -> select.poll:
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        poll = self._poll = select.poll()
        poll.register(self._link_fd, select.POLLIN)
        poll.register(self._wake_fd, select.POLLIN)
        return poll
