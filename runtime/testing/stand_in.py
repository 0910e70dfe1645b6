"""StandIn: what runs in a virtual backplane waits in its thread, which is the test's; the others run meanwhile, inside it.

In a process an operation that waits in its thread has another thread in its place. A test has one, so the turns of the others
are taken in the call that waits, one within the other, until what it waits for is there. If nothing is left to run, time
passes, as it would; but not for ever: a test that hangs says nothing.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from ..execution.current import current
from ..execution.worker import Worker

if TYPE_CHECKING:
    from .virtual_backplane import VirtualBackplane

#: How much virtual time may pass in vain: less than the 30 s of a call that names no deadline, which is to be told the reason.
PATIENCE_NS: Final = 20_000_000_000


class StandIn:
    """For all that wait in one backplane: each takes turns as a worker of its own."""

    def __init__(self, backplane: VirtualBackplane) -> None:
        self._backplane = backplane
        self._free: list[Worker] = []
        self._count = 0

    def wait(self, gate: threading.Lock, limit_s: float) -> bool:
        """As `Engine.stand_in`; also for the test itself, outside any action."""
        backplane, outer = self._backplane, current.worker
        engine, clock = backplane.backplane.engine, backplane.clock
        waiting, started_ns = (None, 0) if outer is None else (outer.action, outer.started_ns)
        end_ns = clock.now_ns() + min(round(limit_s * 1e9), PATIENCE_NS)
        worker = current.worker = self._worker()
        try:
            while not gate.acquire(blocking=False):
                if backplane._turn(worker):
                    continue
                wake_ns = engine.next_wake_ns()
                if wake_ns is None or wake_ns > end_ns:
                    if limit_s * 1e9 <= PATIENCE_NS:
                        clock.move(max(end_ns, clock.now_ns()))
                        return gate.acquire(blocking=False)
                    who = "the test" if waiting is None else waiting.name
                    raise AssertionError(
                        f"{who} waits in its thread, for what nothing in this test brings about: nothing else is "
                        f"left to run, and {PATIENCE_NS // 10**9} s have passed"
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
        engine = self._backplane.backplane.engine
        worker = Worker(engine, self._count)
        engine.watch.joins(worker)
        return worker
