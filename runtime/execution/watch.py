"""Watch: who looks after the link while others run actions (DESIGN section 5).

One idle worker polls, the others are parked; polling by several would wake all of them for each message. Before an action
that is known to take its time the link is handed to an idle worker. When every regular worker is busy for longer than a
quantum, a relief worker is let in, which runs only what is more urgent than what they run, and polls meanwhile. Should what
it runs take long as well, the next relief is let in, for what is more urgent still. One relief looks, the others run; the
first regular worker to be back sends them away. Everything here needs the lead.
"""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .worker import ReliefWorker, Worker

#: How long one action may run before somebody else looks after the link. With 0.5 ms, urgent p99 behind 20 ms actions
#: was 1.4 ms and bulk throughput unchanged; without it, 20 ms (DESIGN section 5).
QUANTUM_NS: Final = 500_000
#: With one, a call of priority 0 waited for as long as an action of priority 1 took that the relief had begun. Two, so that
#: long actions of three priorities run side by side; each more is a thread that is looked at in every turn.
RELIEFS_MAX: Final = 2


class Watch:
    """The workers of one backplane, as far as they wait."""

    def __init__(self, fileno: int) -> None:
        self._link_fd = fileno
        #: Regular workers, in the order they were added.
        self.workers: list[Worker] = []
        #: All alike: whichever is free looks, while the others run.
        self.reliefs: list[ReliefWorker] = []
        #: Both. Also for those without the lead: a tuple of the moment.
        self.team: tuple[Worker, ...] = ()
        self._is_relieved = False
        self.poller: Worker | None = None
        #: When the poller wakes by itself; None: not at all.
        self.wakes_ns: int | None = None
        self._parked: list[Worker] = []
        self._wake_fd = -1
        self._is_woken = False
        #: Whether the link was found readable by who has just polled it; whoever looks there takes this back.
        self.is_readable = False
        self._poll: select.poll | None = None
        #: The sentinel's alarm clock, and whether it relies on being woken.
        self.sentinel_fd = -1
        self.is_sentinel_asleep = False

    def joins(self, worker: Worker) -> None:
        """One more regular worker."""
        self.workers.append(worker)
        self.team = (*self.workers, *self.reliefs)

    def stands_by(self, relief: ReliefWorker) -> None:
        """One more relief."""
        self.reliefs.append(relief)
        self.team = (*self.workers, *self.reliefs)

    def leaves(self, worker: Worker) -> None:
        """A regular worker has ended."""
        if worker in self.workers:
            self.workers.remove(worker)
            self.team = (*self.workers, *self.reliefs)

    @property
    def is_relief_looking(self) -> bool:
        """Whether a relief polls the link."""
        return self.poller is not None and self.poller.is_relief

    def wait(self, worker: Worker, wake_ns: int | None, timeout_ms: int | None) -> None:
        """Wait, without the lead, until there may be something to do: until `wake_ns`, or until somebody says so.

        `timeout_ms` is `wake_ns` as poll() wants it.
        """
        lead = worker.engine.lead
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
        """Whether something falls due before the poller, if there is one, wakes by itself."""
        return self.poller is not None and wake_ns is not None and (self.wakes_ns is None or wake_ns < self.wakes_ns)

    def notify(self) -> None:
        """There is work that did not come over the link: let one idle worker look."""
        if self._parked:
            self._parked.pop().gate.release()
        elif self.poller is not None:
            self._wake_poller()

    def wake_all(self) -> None:
        """Let everybody look: some are to stop."""
        while self._parked:
            self._parked.pop().gate.release()
        for relief in self.reliefs:
            if relief.is_stopping:
                relief.let_in()
        self._wake_poller()

    def hand_over(self) -> None:
        """The caller stops looking after the link: let a parked worker do it."""
        if self.poller is None and self._parked:
            self._parked.pop().gate.release()

    def before_long(self, worker: Worker, *, is_overrun_sure: bool) -> None:
        """`worker` begins an action that is known to take its time: somebody else takes the link over, if there is one.

        Below the quantum no relief is kept beside it: whatever came in would make the two take turns at the interpreter.
        Beside bulk actions of 100 us, urgent p99 was 0.8 ms with it and is 0.4 ms without, with 5 % more bulk calls.
        """
        if not is_overrun_sure and not worker.is_relief:
            self.retire_reliefs()
        if self.poller is None:
            if self._parked:
                self.hand_over()
            elif is_overrun_sure:
                self._relieve()
        elif self.poller.is_relief and is_overrun_sure:
            self._relieve()  # it may be on its way out

    def overrun(self, now_ns: int) -> None:
        """An action has run longer than the quantum, and nobody knew it would: somebody else must look after the link,
        unless another worker is about to.
        """
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
        """What a relief worker may run now: only what is more urgent than this; None while a regular worker is free."""
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
        """Whether another relief looks after the link, or is about to."""
        return any(each.is_active and each.action is None for each in self.reliefs if each is not relief)

    def retire_reliefs(self) -> None:  # hot: scripts/bench call_rtt
        """A regular worker looks after the link again."""
        if not self._is_relieved:
            return
        self._is_relieved = False
        for relief in self.reliefs:
            relief.is_active = False
        if self.is_relief_looking:
            self._wake_poller()

    def close(self) -> None:
        """Let go of the descriptor."""
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
        """Let a relief in: the one that looks already, or is on its way out; else one that is parked."""
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
