"""Watch: who looks after the link while others run actions (DESIGN section 5).

One idle worker polls, the others are parked; polling by several would wake all of them for each message. Before an action
that is known to take its time the link is handed to an idle worker. When every regular worker is busy for longer than a
quantum, the relief worker is let in, which runs only what is more urgent than what they run, and polls meanwhile. The
first worker to be idle sends it away again. Everything here needs the lead.
"""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .worker import ReliefWorker, Worker

#: How long one action may run before somebody else looks after the link. With 0.5 ms, urgent p99 behind 20 ms actions
#: was 1.4 ms and bulk throughput unchanged; without it, 20 ms (DESIGN section 5).
QUANTUM_NS = 500_000


class Watch:
    """The workers of one backplane, as far as they wait."""

    def __init__(self, fileno: int) -> None:
        self._link_fd = fileno
        #: Regular workers, in the order they were added.
        self.workers: list[Worker] = []
        self.relief: ReliefWorker | None = None
        self.poller: Worker | None = None
        self._parked: list[Worker] = []
        self._wake_fd = -1
        self._is_woken = False
        self._poll: select.poll | None = None
        #: The sentinel's alarm clock, and whether it relies on being woken.
        self.sentinel_fd = -1
        self.is_sentinel_asleep = False

    def everybody(self) -> list[Worker]:
        """All workers, the relief among them. Also without the lead: a list of the moment."""
        return [*self.workers] if self.relief is None else [*self.workers, self.relief]

    def wait(self, worker: Worker, timeout_ms: int | None) -> None:
        """Wait, without the lead, until there may be something to do: at most `timeout_ms`, or until somebody says so."""
        lead = worker.engine.lead
        if worker is not self.relief:
            self.retire_relief()
        if self.poller is not None:
            self._parked.append(worker)
            lead.release()
            worker.gate.acquire()
            lead.acquire()
            return
        poll = self._poll or self._open()
        self.poller = worker
        lead.release()
        try:
            poll.poll(timeout_ms)
        finally:
            lead.acquire()
            self.poller = None
            if self.is_sentinel_asleep and self.sentinel_fd >= 0:
                self.is_sentinel_asleep = False
                os.eventfd_write(self.sentinel_fd, 1)
            if self._is_woken:
                self._is_woken = False
                os.eventfd_read(self._wake_fd)

    def notify(self) -> None:
        """There is work that did not come over the link: let one idle worker look."""
        if self._parked:
            self._parked.pop().gate.release()
        elif self.poller is not None and not self._is_woken:
            self._is_woken = True
            os.eventfd_write(self._wake_fd, 1)

    def wake_all(self) -> None:
        """Let everybody look: some are to stop."""
        while self._parked:
            self._parked.pop().gate.release()
        if self.relief is not None and self.relief.is_stopping:
            self._activate_relief()
        if self.poller is not None:
            self.notify()

    def hand_over(self) -> None:
        """The caller stops looking after the link: let a parked worker do it."""
        if self.poller is None and self._parked:
            self._parked.pop().gate.release()

    def before_long(self, worker: Worker, *, has_ready: bool, is_overrun_sure: bool) -> None:
        """`worker` begins an action that is known to take its time: somebody else takes the link over, if there is one."""
        if self._parked:
            self._parked.pop().gate.release()
        elif self.poller is self.relief and self.relief is not None:
            # It may be on its way out. It need not be told of anything: what was chosen is the most urgent there is.
            self._activate_relief()
        elif self.poller is not None:
            if has_ready:
                self.notify()
        elif is_overrun_sure and worker is not self.relief and self.relief_limit() is not None:
            self._activate_relief()

    def overrun(self) -> None:
        """An action has run longer than the quantum, and nobody knew it would: somebody else must look after the link."""
        if self.poller is None:
            if self._parked:
                self.hand_over()
            elif self.relief_limit() is not None:
                self._activate_relief()

    def relief_limit(self) -> int | None:
        """What a relief worker may run: only what is more urgent than this; None while a regular worker is free."""
        lowest: int | None = None
        for worker in self.workers:
            action = worker.action
            if action is None:
                return None
            lowest = action.priority if lowest is None else max(lowest, action.priority)
        return lowest

    def retire_relief(self) -> None:
        """A regular worker looks after the link again."""
        relief = self.relief
        if relief is not None and relief.is_active:
            relief.is_active = False
            if self.poller is relief:
                self.notify()

    def left(self, worker: Worker) -> None:
        """A worker has ended: somebody else takes over what it looked after."""
        if worker in self.workers:
            self.workers.remove(worker)
        self.hand_over()

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._wake_fd >= 0:
            os.close(self._wake_fd)
            self._wake_fd = -1

    def _activate_relief(self) -> None:
        relief = self.relief
        if relief is not None:
            relief.is_active = True
            if relief.is_parked:
                relief.is_parked = False
                relief.gate.release()

    def _open(self) -> select.poll:
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        poll = self._poll = select.poll()
        poll.register(self._link_fd, select.POLLIN)
        poll.register(self._wake_fd, select.POLLIN)
        return poll
