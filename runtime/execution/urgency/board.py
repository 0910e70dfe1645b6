"""Board: shared memory in which each backplane shows the others the priority of its work (DESIGN section 7).

A sealed memfd of the supervisor, inherited and mapped by all. It vanishes with the last process; it has no name, so it cannot
be left behind or truncated (TRAPS 17). The first 256 bytes are the row, one byte a slot: 255 minus the highest priority that
has work there, 0 for none, so the largest byte is the most urgent work anywhere. 64-byte aligned slots of eight-byte words
follow. All words of a slot but one are written only by its owner, so there is no lock and no torn read (TRAPS 18: aligned
words never tore in 2.5 M trials). The supervisor clears a dead owner's slot.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import NamedTuple

#: Slots on a board, as many as the row has bytes.
SLOTS_MAX = 256
_WORDS = 16  # a slot: 128 bytes, two cache lines
_GENERATION, _PID, _HEARTBEAT, _FINISHED, _QUEUED, _WAITING, _RUNNING_SINCE, _CPU, _BOOSTS, _THROTTLED, _SLOW = range(
    11
)
#: The one word that other backplanes write: the priority lent to the slot's owner, and the time of the loan.
_LENT = 11
#: Written by the owner: ready objects, when a worker last began or ended an action, and failing timers.
_READY, _PROGRESS, _FAILING = 12, 13, 14
#: Lifetime of a loan. A call arrives within 0.1 ms and then counts by its own priority. If the caller has died meanwhile,
#: the loan disturbs other work for no longer than this.
LOAN_NS = 5_000_000


class BoardSlot(NamedTuple):
    """The published state of one backplane."""

    generation: int
    pid: int
    #: Monotonic ns of its sentinel's last heartbeat: proves that the process lives.
    heartbeat_ns: int
    #: Actions finished.
    finished_count: int
    queued_count: int
    waiting_count: int
    #: When the action that runs longest began; 0 when none runs.
    running_since_ns: int
    #: CPU time of the whole process, as the kernel's limit counts it; advances also while an action runs.
    cpu_ns: int
    boosts_count: int
    throttled_count: int
    slow_count: int
    #: None: no work.
    highest_priority: int | None
    #: Objects that wait only for a worker (progress.py); 0 while the CPU budget is spent.
    ready_count: int = 0
    #: When a worker last began or ended an action, to the precision of a heartbeat: proof of progress while work is ready.
    progress_ns: int = 0
    #: Timers that have failed several times in a row (completion.py).
    failing_count: int = 0


class Board:
    """The mapped memory. The supervisor calls `create`; a backplane passes the descriptor that it inherits."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, SLOTS_MAX + SLOTS_MAX * _WORDS * 8)
        self._words = memoryview(self._map)[SLOTS_MAX:].cast("Q")

    @classmethod
    def create(cls, slots: int) -> Board:
        """A new board of `slots` slots. Raises ValueError above `SLOTS_MAX`."""
        if not 0 < slots <= SLOTS_MAX:
            raise ValueError(f"{slots} backplanes: a board has 1 to {SLOTS_MAX} slots")
        fd = os.memfd_create("appbackplane-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, SLOTS_MAX + SLOTS_MAX * _WORDS * 8)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return cls(fd)

    def read(self, slot: int) -> BoardSlot:
        """A copy of one backplane's slot, possibly with values of two consecutive heartbeats."""
        base = slot * _WORDS
        words = self._words[base : base + 11].tolist()
        byte = self._map[slot]
        more = self._words[base + _READY : base + _FAILING + 1].tolist()
        return BoardSlot._make([*words, 255 - byte if byte else None, *more])

    def clear_slot(self, slot: int) -> None:
        """Clear the slot of a dead owner, whose values would stay for ever (DESIGN 12.9)."""
        self._map[slot] = 0
        base = slot * _WORDS
        for word in range(_WORDS):
            self._words[base + word] = 0

    def most_urgent(self) -> int | None:
        """The highest priority that has work in any backplane; None: there is no work."""
        largest = max(self._map[:SLOTS_MAX].translate(None, b"\0"), default=0)
        return 255 - largest if largest else None

    def close(self) -> None:
        """Unmap and close the descriptor."""
        self._words.release()
        self._map.close()
        os.close(self.fd)


class OwnSlot:
    """The slot this process writes. About 60 ns a write."""

    def __init__(self, board: Board, slot: int, generation: int) -> None:
        self._map, self._slot = board._map, slot
        self._words = board._words
        self._base = slot * _WORDS
        self._byte = 0
        # The row as last read, and its largest byte. Comparing rows takes 0.1 us, finding the largest byte 0.5 us; `max` over
        # all 256 numbers would take 3.6 us.
        self._seen: tuple[bytes, int] = (b"", 0)
        self._words[self._base + _GENERATION] = generation
        self._words[self._base + _PID] = os.getpid()

    def present(self, priority: int | None) -> None:
        """Publish the highest priority with work here, None for no work. Writes only if it changed."""
        byte = 0 if priority is None else 255 - priority
        if byte != self._byte:
            self._byte = self._map[self._slot] = byte

    def is_busy_below(self, slot: int, priority: int) -> bool:
        """Whether another backplane has work, all of it of lower priority than this."""
        return 0 < self._map[slot] < 255 - priority

    def lend(self, slot: int, priority: int, now_ns: int) -> None:
        """Lend a priority to another backplane, to which a call of that priority is on its way.

        Of two loans at once the last counts; the other's call counts by its own priority once it arrives.
        """
        self._words[slot * _WORDS + _LENT] = (now_ns >> 10) << 8 | priority

    def lent(self) -> int:  # hot: scripts/bench call_rtt
        """The loan to this backplane, packed for `borrowed`; 0: none."""
        return self._words[self._base + _LENT]

    def borrowed(self, lent: int, now_ns: int) -> int | None:
        """The priority of a loan that still holds; None: it has expired, and is cleared."""
        if now_ns - (lent >> 8 << 10) < LOAN_NS:
            return lent & 0xFF
        self.repay()
        return None

    def repay(self) -> None:
        """Clear the loan: it is no longer needed."""
        self._words[self._base + _LENT] = 0

    def has_above(self, priority: int) -> bool:  # hot: scripts/bench requests
        """Whether any backplane has work of higher priority than this."""
        row = self._map[:SLOTS_MAX]
        seen = self._seen  # read once, as one attribute: other threads replace it
        if seen[0] != row:
            seen = self._seen = row, max(row.translate(None, b"\0"), default=0)
        return seen[1] > 255 - priority

    def beat(
        self,
        now_ns: int,
        finished: int,
        queued: int,
        waiting: int,
        running_since_ns: int,
        cpu_ns: int,
        throttled: int,
        slow: int,
        boosts: int,
        ready: int,
        progress_ns: int,
        failing: int,
    ) -> None:
        """Write the sentinel's figures; the heartbeat comes last."""
        words, base = self._words, self._base
        words[base + _FINISHED] = finished
        words[base + _QUEUED] = queued
        words[base + _WAITING] = waiting
        words[base + _RUNNING_SINCE] = running_since_ns
        words[base + _CPU] = cpu_ns
        words[base + _THROTTLED] = throttled
        words[base + _SLOW] = slow
        words[base + _BOOSTS] = boosts
        words[base + _READY] = ready
        words[base + _PROGRESS] = progress_ns
        words[base + _FAILING] = failing
        words[base + _HEARTBEAT] = now_ns  # last: a fresh heartbeat vouches for all other words
