"""Process: generation and phase of a backplane's process. It has one process at a time, each of a generation of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """The phase of a backplane's process; `status` shows the values."""

    WAITING = "waiting"  # no process: not spawned yet, or its next start is due later
    STARTING = "starting"  # spawned, not registered
    UP = "up"  # registered: its components are being moved, or serve
    DRAINING = "draining"  # accepts nothing new and finishes its work; then its components go down (draining.py)
    STOPPING = "stopping"  # ordered to exit
    KILLED = "killed"  # SIGKILL is sent, its death not seen yet
    FAILED = "failed"  # given up: it stays down while the others go on
    ENDED = "ended"  # exited by itself, and not to be restarted (restart.type)
    DOWN = "down"  # exited as ordered


#: Phases with a process.
LIVING = frozenset((Phase.STARTING, Phase.UP, Phase.DRAINING, Phase.STOPPING, Phase.KILLED))
#: Phases of a registered process whose components can be moved.
MOVABLE = (Phase.UP, Phase.DRAINING)
#: Phases without a process, in which none is to be started.
GONE = (Phase.FAILED, Phase.ENDED)


@dataclass(slots=True)
class ChildProcess:
    """The current process, or the last one."""

    #: Before the first process: above all that a killed supervisor may have left in this run directory, or that a removed
    #: backplane of this name had, because file names are never reused.
    generation: int = 0
    first_generation: int = field(init=False)
    phase: Phase = Phase.WAITING
    #: When it entered its phase.
    since_ns: int = 0
    #: When it is killed (starting, draining, stopping) or spawned (waiting).
    deadline_ns: int | None = None
    pid: int | None = None
    #: The folder of its own cgroup; its next generation starts in it, too.
    cgroup: str | None = None

    def __post_init__(self) -> None:
        self.first_generation = self.generation + 1

    @property
    def is_living(self) -> bool:
        return self.phase in LIVING

    @property
    def is_movable(self) -> bool:
        return self.phase in MOVABLE

    @property
    def restarts(self) -> int:
        return max(0, self.generation - self.first_generation)

    def is_at(self, generation: int, *phases: Phase) -> bool:
        """Whether an event of `generation` concerns the current process, and that is in one of these phases (or living)."""
        return generation == self.generation and self.phase in (phases or LIVING)

    def enter(self, phase: Phase, now_ns: int, deadline_ns: int | None = None) -> None:
        """Enter a phase; the deadline of the phase before no longer counts."""
        self.phase, self.since_ns, self.deadline_ns = phase, now_ns, deadline_ns

    def set_deadline(self, at_ns: int | None) -> None:
        """Change the deadline of the current phase; None: it has none."""
        self.deadline_ns = at_ns

    def begin(self, now_ns: int, deadline_ns: int) -> None:
        """Begin the next generation, which has to register by the deadline."""
        self.generation += 1
        self.enter(Phase.STARTING, now_ns, deadline_ns)

    def spawned(self, pid: int, cgroup: str | None) -> None:
        """Note the process that was spawned."""
        self.pid, self.cgroup = pid, cgroup

    def placed(self, cgroup: str) -> None:
        """Note that it was moved to a cgroup of its own."""
        self.cgroup = cgroup

    def exited(self, now_ns: int) -> None:
        """Note that the process is dead."""
        self.pid = None
        self.enter(Phase.DOWN, now_ns)
