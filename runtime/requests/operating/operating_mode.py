"""OperatingMode: whether a kernel takes requests from outside, begins those that are ready, and has workers at all.

Open, held, quiesced, or stopped, as its operator commands. Quiescing ends by itself, when nothing is posted, ready or
executing any more; stopping goes on from there and ends the workers. No request is ever discarded by it: unbegun requests stay
where they are, visible, and go on when the kernel resumes. Whether all have ended is checked 50 times a second, and only while
somebody waits for that, so that it costs the requests nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from appbackplane.transport.errors import FailedPrecondition

from ...objects.platform import Platform, WorkHandle
from ..contexts.waiting import SignalWaiter
from ..executing.executor import Executor
from ..ledger.ledger import Ledger
from ..ledger.synchronized_ledger import SynchronizedLedger

#: Period of the check whether all requests have ended. One check takes 3 us.
LOOK_NS: Final = 20_000_000

log = logging.getLogger("appbackplane.runtime")


class OperatingMode:
    """How one kernel is run. Its commands come one after the other; `look` is called by its timer."""

    def __init__(
        self, name: str, ledger: SynchronizedLedger, executor: Executor, platform: Platform,
        set_timer: Callable[[int, Callable[[], None]], WorkHandle],
    ) -> None:  # fmt: skip
        """`set_timer`: calls a function at this interval, ns."""
        self.name = name
        self._ledger, self._executor, self._platform, self._set_timer = ledger, executor, platform, set_timer
        #: Whether the operator wants the workers to end: when nothing is left, or as soon as they can.
        self._is_stopping = False
        #: Whether there are to be no workers.
        self._is_stopped = False
        #: Whether the backplane goes down in order: then nothing can be resumed.
        self._is_draining = False
        self._waiters: list[SignalWaiter] = []
        self._timer: WorkHandle | None = None

    # -- the operator's commands --------------------------------------------------------------------------------------

    def quiesce(self) -> None:
        """Take no requests from outside; posted ones are executed, and may post sub-requests."""
        self._ledger.close(is_closed=True)

    def hold(self) -> None:
        """Begin no requests. Executing ones end, and new ones are taken while there is room."""
        self._check_not_draining()
        self._ledger.hold(is_held=True)

    def stop(self, *, is_now: bool) -> None:
        """Take no requests; end the workers when all posted ones have ended. `is_now`: do not begin those that are ready."""
        self._check_not_draining()
        self._ledger.close(is_closed=True)
        self._ledger.hold(is_held=is_now)
        self._is_stopping = True
        if is_now:
            self._stop()
        self._watch()
        self.look()

    def resume(self) -> None:
        """Take requests from outside, begin them, and have workers. Waits for the end of all requests fail."""
        self._check_not_draining()
        self._is_stopping = False
        self._ledger.close(is_closed=False)
        self._ledger.hold(is_held=False)
        if self._is_stopped:
            self._is_stopped = False
            self.match_workers()
        self._let_go(FailedPrecondition(f"{self.name} has been resumed before all requests had ended"))

    def match_workers(self) -> None:
        """Have as many workers as the settings say, or none. Any thread: repeated until these have not changed meanwhile."""
        wanted = -1
        while wanted != (wanted_now := 0 if self._is_stopped else self._ledger.policy.workers):
            wanted = wanted_now
            self._executor.resize(wanted)

    def drain(self) -> None:
        """The backplane goes down in order: posted requests are finished first."""
        self._is_draining = True
        self._ledger.close(is_closed=True)
        self._ledger.hold(is_held=False)
        self._is_stopping = False
        if self._is_stopped:
            self._is_stopped = False
            self.match_workers()

    async def ended(self) -> None:
        """Wait until nothing is posted, ready or executing; of a kernel that is to stop now, until nothing is executing."""
        while self.left_count():
            waiter = SignalWaiter(self._platform, None, f"the end of all requests of {self.name}")
            self._waiters.append(waiter)
            self._watch()
            try:
                await waiter.signal
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            if waiter.error is not None:
                raise waiter.error

    # -- status -------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """One of "open", "held", "quiescing", "quiesced", "stopping" and "stopped"."""
        ledger = self._ledger
        if self._is_stopping:
            return "stopped" if self._is_stopped and not self.left_count() else "stopping"
        if ledger.is_closed:
            return "quiescing" if self.left_count() else "quiesced"
        return "held" if ledger.is_held else "open"

    def left_count(self) -> int:
        """Requests that have to end before the kernel is at rest."""
        return self._ledger.inspect(_executing if self._is_stopped else _not_ended)

    @property
    def is_starting_requests(self) -> bool:
        """Whether ready requests are begun; if not, the throughput means nothing."""
        return not (self._ledger.is_held or self._is_stopped)

    def report(self) -> dict[str, Any]:
        """State and counts, as the reply to a command."""
        figures = self._ledger.figures()
        return {
            "state": self.state,
            "held": self._ledger.is_held,
            "posting": figures.posting,
            "ready": sum(figures.ready),
            "executing": figures.executing,
            "rejoinable": sum(figures.rejoinable),
        }

    # -- steps --------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check whether all requests have ended; if so, finish a stop, and resume the waiters for that."""
        if self.left_count():
            return
        if self._is_stopping and not self._is_stopped:
            self._stop()
            log.info("%s is stopped: all requests have ended, and so have its workers", self.name)
        self._let_go(None)

    def close(self) -> None:
        """The kernel goes down: waits for the end of all requests fail."""
        self._let_go(FailedPrecondition(f"{self.name} goes down"))

    def _stop(self) -> None:
        self._is_stopped = True
        self.match_workers()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._set_timer(LOOK_NS, self.look)

    def _let_go(self, error: FailedPrecondition | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.tell(None, error)
            waiter.go_on()

    def _check_not_draining(self) -> None:
        if self._is_draining:
            raise FailedPrecondition(f"{self.name} goes down with its backplane: it finishes what it has")


def _executing(ledger: Ledger, _now_ns: int) -> int:
    """Executing requests, but for those that wait for others, which may be held."""
    return ledger.executing.total - ledger.blocked_count


def _not_ended(ledger: Ledger, _now_ns: int) -> int:
    return ledger.executing.total + ledger.ready.count + ledger.posters.count
