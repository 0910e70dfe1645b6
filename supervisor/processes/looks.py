"""Looks: samples all backplanes, at the rate that the director asks for (direction/health.py).

The board is memory, and costs nothing. /proc is read only for a backplane that has given no sign of life or progress for half
of its limit: whether its process is stopped, or a debugger is attached. Stacks are requested by a signal
(runtime/execution/sentinel/stacks.py).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

from appbackplane.runtime.execution.sentinel.stacks import ASKED, FORCED

from ..direction.events import Looked, Sight
from ..direction.health import HealthWatch
from .board_file import BoardFile
from .out_of_memory import OutOfMemory, counter_of
from .placement import Placement
from .spawn import Process


class Looks:
    """Samples the backplanes of one system."""

    def __init__(self, health: HealthWatch, board: BoardFile, placement: Placement) -> None:
        self._health, self._board, self._placement = health, board, placement
        #: Tells whether a process died for its memory.
        self.memory = OutOfMemory(counter_of())
        #: When the next sample is due.
        self.due_ns = 0

    def turn(self, now_ns: int, processes: Iterable[Process], take: Callable[[Looked], None]) -> None:
        """Sample all backplanes, if it is time."""
        if now_ns >= self.due_ns:
            take(self._look(now_ns, processes))

    def ask_for_stacks(self, process: Process, *, by_force: bool) -> None:
        """Request the stacks, which come on its standard error. Its CPU limit is lifted, since it is killed next."""
        self._placement.lift(process.backplane)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process.pidfd, FORCED if by_force else ASKED)

    def _look(self, now_ns: int, processes: Iterable[Process]) -> Looked:
        self.due_ns = now_ns + self._health.look_every_ns
        self.memory.look()
        suspects = self._health.suspects()
        sights = {}
        for process in processes:
            name = process.backplane
            is_stopped, is_traced = process_state(process.pid) if name in suspects else (False, False)
            limit = self._placement.percent_of_kernel(name)
            sights[name] = Sight(self._board.read(name), limit, is_stopped=is_stopped, is_traced=is_traced)
        return Looked(sights)


def process_state(pid: int) -> tuple[bool, bool]:
    """(is stopped, is traced) of a process; (False, False): it has died."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:  # it has just died
        return False, False
    is_traced = fields.get("TracerPid", "0").strip() != "0"
    return fields.get("State", "").strip().startswith("T"), is_traced
