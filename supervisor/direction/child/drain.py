"""Drain: a backplane finishes its accepted work before it goes down. Keeps its progress, and the work left unfinished."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class DrainPhase(Enum):
    """The progress of draining: finishing the accepted work before its components go down."""

    NONE = "none"  # not ordered, or nothing to finish
    DUE = "due"  # ordered: its dependents are drained first
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True)
class DrainProgress:
    """The drain of one backplane's process."""

    phase: DrainPhase = DrainPhase.NONE
    #: The work that was refused or cut off when its last process went down on purpose.
    unfinished: list[str] = field(default_factory=list)
    #: Its last process was drained completely: all calls that it had accepted were done or refused.
    has_finished: bool = False

    @property
    def is_pending(self) -> bool:
        """Whether it has accepted work to finish before its components go down."""
        return self.phase in (DrainPhase.DUE, DrainPhase.RUNNING)

    def order(self) -> None:
        """Mark it for draining."""
        self.phase = DrainPhase.DUE

    def skip(self) -> None:
        """Unmark it: there is nothing to finish."""
        self.phase = DrainPhase.NONE

    def begin(self) -> None:
        """Note that the process has been told to finish its work."""
        self.phase = DrainPhase.RUNNING

    def end(self, unfinished: Iterable[str], *, has_finished: bool) -> None:
        """Note that the process has finished its work, but for `unfinished`. `has_finished`: no accepted call was cut off."""
        self.phase, self.has_finished = DrainPhase.DONE, has_finished
        self.unfinished += unfinished

    def cut(self, because: str) -> None:
        """Do not wait for its work any longer."""
        self.phase = DrainPhase.DONE if self.phase is DrainPhase.RUNNING else DrainPhase.NONE
        self.unfinished.append(because)

    def add_unfinished(self, line: str) -> None:
        """Add a line about work that is cut off."""
        self.unfinished.append(line)

    def forget_unfinished(self) -> None:
        """Forget the unfinished work of an earlier order."""
        self.unfinished = []

    def registered(self) -> None:
        """Note that there is a new process, which has not finished anything."""
        self.has_finished = False

    def exited(self) -> None:
        """Note that its process is dead. Its unfinished work is reported until the next order."""
        self.phase = DrainPhase.NONE
