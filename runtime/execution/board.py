"""Board: one page of shared memory by which every backplane sees what the others have to do (DESIGN section 7).

A sealed memfd of the supervisor's, inherited and mapped by all: it survives any child and vanishes with the last of us;
nothing named can be left behind or truncated (TRAPS 17). The first 256 bytes are the row, one byte a slot: 255 minus the
highest priority that has work there, 0 for none, so that the largest byte is the most urgent work anywhere. Behind it a
64-byte-aligned slot each, eight-byte words, all but one written by their owner alone, so no lock and no torn read
(TRAPS 18: aligned words never tore in 2.5 M trials). A dead owner's slot is cleared by the supervisor.
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
#: The one word that others write: the priority somebody lends this backplane, and since when.
_LENT = 11
#: Again its owner's: what waits for nothing but a worker, and when a worker last began or ended something.
_READY, _PROGRESS, _FAILING = 12, 13, 14
#: How long a loan holds by itself. A call is there within 0.1 ms; once it is, it speaks for itself, and if the caller has
#: died meanwhile, nobody else's work is in the way for longer than this.
LOAN_NS = 5_000_000


class BoardSlot(NamedTuple):
    """What one backplane says of itself."""

    generation: int
    pid: int
    #: Monotonic ns of its sentinel's last turn: proves that the process lives.
    heartbeat_ns: int
    #: Actions finished.
    finished_count: int
    queued_count: int
    waiting_count: int
    #: When the action that runs longest began; 0 when none runs.
    running_since_ns: int
    #: Of the whole process: what the kernel's limit counts, also while an action runs.
    cpu_ns: int
    boosts_count: int
    throttled_count: int
    slow_count: int
    #: None: no work.
    highest_priority: int | None
    #: Work that waits for nothing but a worker (progress.py); 0 where the CPU budget is spent.
    ready_count: int = 0
    #: When a worker last began or ended something, to a heartbeat: while work is ready, the proof of progress.
    progress_ns: int = 0
    #: Timers that fail each time.
    failing_count: int = 0


class Board:
    """The page. `create` it in the supervisor, `attach` it in a backplane."""

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

    @classmethod
    def attach(cls, fd: int) -> Board:
        """The board behind an inherited descriptor."""
        return cls(fd)

    def read(self, slot: int) -> BoardSlot:
        """One backplane's slot."""
        base = slot * _WORDS
        words = self._words[base : base + 11].tolist()
        byte = self._map[slot]
        more = self._words[base + _READY : base + _FAILING + 1].tolist()
        return BoardSlot._make([*words, 255 - byte if byte else None, *more])

    def clear_slot(self, slot: int) -> None:
        """Its owner is dead: what it left would stay for ever (DESIGN 12.9)."""
        self._map[slot] = 0
        base = slot * _WORDS
        for word in range(_WORDS):
            self._words[base + word] = 0

    def most_urgent(self) -> int | None:
        """The highest priority that has work in any backplane."""
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
        # The row as it was looked at last, and the largest in it: 0.1 us to see that it is the same, 0.5 to look for another
        # one, and 3.6 to have `max` visit 256 numbers.
        self._seen: tuple[bytes, int] = (b"", 0)
        self._words[self._base + _GENERATION] = generation
        self._words[self._base + _PID] = os.getpid()

    def present(self, priority: int | None) -> None:
        """The highest priority with work here; None for none. Writes only when it changes."""
        byte = 0 if priority is None else 255 - priority
        if byte != self._byte:
            self._byte = self._map[self._slot] = byte

    def is_busy_below(self, slot: int, priority: int) -> bool:
        """Whether another backplane has work, all of it of lower priority than this."""
        return 0 < self._map[slot] < 255 - priority

    def lend(self, slot: int, priority: int, now_ns: int) -> None:
        """Tell another backplane that a call of this priority is on its way to it. Two that lend at once: the last counts,
        and the other's call speaks for itself as soon as it is there.
        """
        self._words[slot * _WORDS + _LENT] = (now_ns >> 10) << 8 | priority

    def lent(self) -> int:  # hot: scripts/bench call_rtt
        """What has been lent to us, packed; 0 for nothing."""
        return self._words[self._base + _LENT]

    def borrowed(self, lent: int, now_ns: int) -> int | None:
        """The priority of a loan that still holds; None: it has run out, and is cleared."""
        if now_ns - (lent >> 8 << 10) < LOAN_NS:
            return lent & 0xFF
        self.repay()
        return None

    def repay(self) -> None:
        """What was lent is not needed any more."""
        self._words[self._base + _LENT] = 0

    def has_above(self, priority: int) -> bool:  # hot: scripts/bench requests
        """Whether any backplane has work of higher priority than this."""
        row = self._map[:SLOTS_MAX]
        seen = self._seen  # one attribute: others look at the same time
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
        """The sentinel's report."""
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
        words[base + _HEARTBEAT] = now_ns  # the last: a fresh one vouches for all the others
