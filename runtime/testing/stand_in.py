"""StandIn: lets an operation of a virtual backplane block its thread, the test's only one, while other actions run inside it.

In a process a spare thread replaces one that a waiting operation blocks. A test has a single thread, so the blocking call
itself runs other actions, nested, until its gate opens. If no action is left, virtual time passes, as it would in a process,
but at most `PATIENCE_NS`: then the test fails with the reason instead of hanging.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from ..execution.workers.current import current
from ..execution.workers.worker import Worker

if TYPE_CHECKING:
    from .virtual_backplane import VirtualBackplane

#: Virtual time that may pass without progress: below the default deadline of a call (30 s), so the failure names the reason.
PATIENCE_NS: Final = 20_000_000_000


class StandIn:
    """Serves all blocking waits of one backplane; each nested wait runs actions as a worker of its own."""

    def __init__(self, backplane: VirtualBackplane) -> None:
        self._backplane = backplane
        self._free: list[Worker] = []
        self._count = 0

    def wait(self, gate: threading.Lock, limit_s: float) -> bool:
        """Run other actions until `gate` opens; False: `limit_s` seconds of virtual time have passed.

        The value of `Platform.stand_in`; the test itself may call it outside any action. Raises AssertionError as above.
        """
        backplane, outer = self._backplane, current.worker
        clock = backplane.clock
        waiting, started_ns = (None, 0) if outer is None else (outer.action, outer.started_ns)
        end_ns = clock.now_ns() + min(round(limit_s * 1e9), PATIENCE_NS)
        worker = current.worker = self._worker()
        try:
            while not gate.acquire(blocking=False):
                if backplane._turn(worker):
                    continue
                if gate.acquire(blocking=False):  # opened by input that made no action
                    return True
                wake_ns = backplane._next_wake_ns()
                if wake_ns is None or wake_ns > end_ns:
                    if limit_s * 1e9 <= PATIENCE_NS:
                        clock.move(max(end_ns, clock.now_ns()))
                        return gate.acquire(blocking=False)
                    who = "the test" if waiting is None else waiting.name
                    raise AssertionError(
                        f"{who} blocks its thread for something that nothing in this test does: no action is left to run, "
                        f"and {PATIENCE_NS // 10**9} s of virtual time have passed"
                    )
                clock.move(max(wake_ns, clock.now_ns()))
            return True
        finally:
            self._free.append(worker)
            current.worker = outer
            if outer is not None:
                outer.action, outer.started_ns = waiting, started_ns

    def _worker(self) -> Worker:
        if self._free:
            return self._free.pop()
        self._count += 1
        return self._backplane.backplane.stand_in_worker(self._count)
