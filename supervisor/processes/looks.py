"""Looks: what is to be seen of all backplanes, at the rate that the director wants it (direction/health.py).

The board is memory, and costs nothing. /proc is read for those only who have said or done nothing for half of the time
they have: whether somebody has stopped the process, or has a debugger at it. Stacks are asked for by a signal
(runtime/execution/stacks.py).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

from appbackplane.runtime.execution.stacks import ASKED, FORCED

from ..direction.events import Looked, Sight
from ..direction.health import HealthWatch
from .board_file import BoardFile
from .out_of_memory import OutOfMemory, counter_of
from .placement import Placement
from .spawn import Process


class Looks:
    """One system's."""

    def __init__(self, health: HealthWatch, board: BoardFile, placement: Placement) -> None:
        self._health, self._board, self._placement = health, board, placement
        #: Judges how those ended who are gone.
        self.memory = OutOfMemory(counter_of())
        #: When the next is due.
        self.due_ns = 0

    def turn(self, now_ns: int, processes: Iterable[Process], take: Callable[[Looked], None]) -> None:
        """Look at all of them, if it is time."""
        if now_ns >= self.due_ns:
            take(self._look(now_ns, processes))

    def ask_for_stacks(self, process: Process, *, by_force: bool) -> None:
        """They come on its standard error. Where a CPU limit slowed it down, it does no longer: this is its end."""
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
    """Whether the process is stopped, and whether somebody traces it."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:  # it has just died
        return False, False
    is_traced = fields.get("TracerPid", "0").strip() != "0"
    return fields.get("State", "").strip().startswith("T"), is_traced
