"""Process: the phases of a backplane's process."""

from __future__ import annotations

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
