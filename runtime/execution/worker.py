"""Worker: a thread that takes the lead, chooses an action, gives the lead up to run it, and takes the lead again.

The same worker receives, schedules and runs (leader/follower): short work is never handed from thread to thread. A relief
worker runs the same loop. It is parked until all others overrun, and then runs only actions more urgent than theirs.
Threads are daemons: a process that is told to stop does not wait for an operation that never returns.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from ..objects.action import Action
from .async_log import last_words
from .current import current

if TYPE_CHECKING:
    from .engine import Engine

#: EX_SOFTWARE of sysexits.h.
EXIT_BUG = 70

log = logging.getLogger("appbackplane.runtime")


class Worker:
    """One thread. Its fields are read by the sentinel without the lead: each is one reference or one integer."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.engine = engine
        self.number = number
        #: The action that it runs now, or is about to run.
        self.action: Action | None = None
        #: When that began; 0 while no action runs.
        self.started_ns = 0
        #: When the run began or last checked for more urgent work, and the longest time without such a check in this run.
        self.looked_ns = self.unseen_ns = 0
        #: The thread's CPU clock when it was last read.
        self.cpu_mark_ns = 0
        #: Time of that reading.
        self.marked_ns = 0
        self.is_relief = False
        #: Whether its action blocks the thread to wait for other actions: meanwhile the board does not count it as work.
        self.is_blocked = False
        #: It may run only priorities above this one; None: all.
        self.below: int | None = None
        self.is_stopping = False
        self.gate = threading.Lock()
        self.gate.acquire()
        #: The kernel's number of the thread; 0 until it runs (and in a test that has none).
        self.tid = 0
        self._os_thread = threading.Thread(target=self._run, name=f"worker-{number}", daemon=True)

    def begins(self, now_ns: int) -> None:  # hot: scripts/bench call_rtt
        """The run of `action` begins. `started_ns` is set last, because the sentinel reads the others once it is set."""
        self.unseen_ns = 0
        self.looked_ns = now_ns
        self.started_ns = now_ns

    def has_looked(self, now_ns: int) -> None:  # hot: scripts/bench requests
        """The running action has checked for more urgent work and found none."""
        unseen_ns = now_ns - self.looked_ns
        self.looked_ns = now_ns
        if unseen_ns > self.unseen_ns:
            self.unseen_ns = unseen_ns

    def start(self) -> None:
        """Start the thread."""
        self._os_thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread, at most `timeout` seconds; returns whether it has ended."""
        self._os_thread.join(timeout)
        return not self._os_thread.is_alive()

    @property
    def ident(self) -> int:
        """`Thread.ident` of the thread, for its stack and CPU clock; 0 before it starts."""
        return self._os_thread.ident or 0

    def _run(self) -> None:
        current.worker = self
        self.tid = threading.get_native_id()
        try:
            with self.engine.lead:
                self._serve()
                self.engine.watch.leaves(self)
                self.engine.step_back(self)
                self.engine.presence.left(self)
        except BaseException:
            # An invariant of the runtime is broken and its state may be inconsistent: end, and let the supervisor restart us.
            log.critical("worker %d failed: this is a bug of the runtime", self.number, exc_info=True)
            last_words()
            os._exit(EXIT_BUG)

    def _serve(self) -> None:  # hot: scripts/bench call_rtt
        engine = self.engine
        while not self.is_stopping:
            action = engine.choose(self)
            if action is None:
                engine.wait(self)
            else:
                self._run_without_lead(action)

    def _run_without_lead(self, action: Action) -> None:  # hot: scripts/bench call_rtt
        engine = self.engine
        lead = engine.lead
        lead.release()
        try:
            outcome, now_ns, run_ns, cpu_ns = engine.execute(self, action)
        finally:
            lead.acquire()
        engine.complete(action, outcome, now_ns, run_ns, cpu_ns)


class ReliefWorker(Worker):
    """Runs only more urgent actions while all regular workers overrun; else parked."""

    def __init__(self, engine: Engine, number: int) -> None:
        super().__init__(engine, number)
        self.is_relief = True
        #: Whether it is to poll and run, and whether it waits at its gate. Both are used under the lead.
        self.is_active = False
        self.is_parked = False

    def let_in(self) -> None:
        """Activate it, and unpark it if it is parked. Needs the lead."""
        self.is_active = True
        if self.is_parked:
            self.is_parked = False
            self.gate.release()

    def _serve(self) -> None:
        engine = self.engine
        while not self.is_stopping:
            self.action = None
            if not self.is_active or engine.watch.is_looked_after_besides(self):
                self.is_active = False
                self.is_parked = True
                engine.step_back(self)
                engine.lead.release()
                self.gate.acquire()
                engine.lead.acquire()
                continue
            self.below = engine.watch.relief_limit()
            if self.below is None:
                self.is_active = False
                continue
            action = engine.choose(self)
            if action is None:
                engine.wait(self)
            else:
                self._run_without_lead(action)
