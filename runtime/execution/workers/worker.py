"""Worker: the state of one thread that runs actions, as the poll, the board and the sentinel see it (worker_loop.py: the loop).

A relief worker is parked until all others overrun. It then runs only actions more urgent than the least urgent of theirs.
Threads are daemons: a process that is told to stop does not wait for an operation that never returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from ...objects.action import Action


class WorkerHost(Protocol):
    """The services of a backplane that code of a running action uses through its thread (current.py)."""

    def now_ns(self) -> int: ...
    def has_work_above(self, worker: Worker) -> bool: ...
    def begins_to_block(self, action: Action, what: str = "") -> None: ...
    def blocks_no_more(self, action: Action) -> None: ...
    def asks_for_items(self, action: Action, gate: threading.Lock) -> bool: ...
    def at_end(self, action: Action, function: Callable[[Action], None]) -> None: ...
    def trace_of(self, action: Action) -> str | None: ...
    def change_priority(self, worker: Worker, action: Action, priority: int) -> None: ...

    @property
    def is_draining(self) -> bool: ...
    @property
    def stand_in(self) -> Callable[[Any, float], bool] | None: ...


class Worker:
    """One thread. Its fields are read by the sentinel without the lead: each is one reference or one integer."""

    def __init__(self, number: int, lead: threading.RLock, host: WorkerHost) -> None:
        self.number = number
        #: The lock of its backplane.
        self.lead = lead
        self.host = host
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
        self._os_thread: threading.Thread | None = None

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

    def start(self, run: Callable[[], None]) -> None:
        thread = self._os_thread = threading.Thread(target=run, name=f"worker-{self.number}", daemon=True)
        thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread, at most `timeout` seconds; returns whether it has ended."""
        thread = self._os_thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    @property
    def ident(self) -> int:
        """`Thread.ident` of the thread, for its stack and CPU clock; 0 before it starts."""
        return 0 if self._os_thread is None else self._os_thread.ident or 0


class ReliefWorker(Worker):
    """Runs only more urgent actions while all regular workers overrun; else parked."""

    def __init__(self, number: int, lead: threading.RLock, host: WorkerHost) -> None:
        super().__init__(number, lead, host)
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
