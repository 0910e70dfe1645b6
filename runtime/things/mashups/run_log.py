"""RunLog: the last runs of a mashup's rules, and the keys of the events that have started them. Pure.

Everything that must outlive the process comes in as a record, which the journal has written before (journal.py). A new process
applies the same records again, and so finds the log, the keys, and the runs that have no end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import msgspec

from .rule import Cause

#: Runs that the log remembers: a kilobyte each, with their steps.
LINES_MAX: Final = 1_000
#: Steps of one run that the log names; later ones are left out.
STEPS_MAX: Final = 100
#: Packed bytes of an event's data that the log keeps, once its run has ended. A picture would be a megabyte each.
DATA_BYTES_MAX: Final = 4_096
#: Keys that are remembered, of all rules of a mashup: 300 bytes each. An event that comes again later than so many others may
#: start its rule again.
KEYS_MAX: Final = 100_000

COMPLETED: Final = "completed"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
INTERRUPTED: Final = "interrupted"
SKIPPED: Final = "skipped"
REFUSED: Final = "refused"
#: Of a run that has not ended.
WAITING: Final = "waiting"
RUNNING: Final = "running"


class RunTaken(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """A trigger was taken up: its run begins, or waits. Times are Unix seconds."""

    number: int
    rule: str
    cause: Cause
    at: float


class RunBegun(msgspec.Struct, frozen=True, array_like=True, tag="begun"):
    """The run begins."""

    number: int
    at: float


class RunStep(msgspec.Struct, frozen=True, array_like=True, tag="step"):
    """The run is about to make a call, or to pause."""

    number: int
    step: str


class RunEnded(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """The run has ended. `error`: why, if it is not "completed"."""

    number: int
    outcome: str
    error: str
    at: float


class TriggerSkipped(msgspec.Struct, frozen=True, array_like=True, tag="skipped"):
    """A trigger that started nothing."""

    number: int
    rule: str
    cause: Cause
    reason: str
    at: float


class KeysTaken(msgspec.Struct, frozen=True, array_like=True, tag="keys"):
    """Keys of earlier runs, in a journal that has been rewritten."""

    keys: list[tuple[str, str, str, str]]


RunRecord: TypeAlias = RunTaken | RunBegun | RunStep | RunEnded | TriggerSkipped | KeysTaken


@dataclass(slots=True)
class RunLine:
    """One run, or one trigger that was skipped. Times are Unix seconds; None: not yet. `number`: the later, the higher."""

    number: int
    rule: str
    cause: Cause | None
    outcome: str
    taken: float
    started: float | None = None
    ended: float | None = None
    error: str = ""
    steps: list[str] = field(default_factory=list)


class RunLog:
    """The lines, newest last. Bounded: the oldest ended ones are forgotten."""

    def __init__(self) -> None:
        self._ended: deque[RunLine] = deque(maxlen=LINES_MAX)
        #: Runs without an end, by number.
        self.open: dict[int, RunLine] = {}
        #: (rule, thing, event, key), the oldest first.
        self._keys: dict[tuple[str, str, str, str], None] = {}
        #: The highest number so far.
        self.last = 0

    def apply(self, record: RunRecord) -> None:
        """Take a record that has been written down."""
        match record:
            case RunTaken(number, rule, cause, at):
                self.last = max(self.last, number)
                self.open[number] = RunLine(number, rule, cause, WAITING, at)
                if cause.key is not None:
                    self._take(_key(rule, cause))
            case RunBegun(number, at):
                line = self.open[number]
                line.outcome, line.started = RUNNING, at
            case RunStep(number, step):
                if len(self.open[number].steps) < STEPS_MAX:
                    self.open[number].steps.append(step)
            case RunEnded(number, outcome, error, at):
                line = self.open.pop(number)
                line.outcome, line.error, line.ended = outcome, error, at
                self.add(line)
            case TriggerSkipped(number, rule, cause, reason, at):
                self.last = max(self.last, number)
                self.add(RunLine(number, rule, cause, SKIPPED, at, ended=at, error=reason))
            case KeysTaken(keys):
                for key in keys:
                    self._take(key)

    def add(self, line: RunLine) -> None:
        """Add a line of what has ended. By itself it is not kept beyond this process."""
        cause = line.cause
        if cause is not None:
            line.cause = replace(cause, data=_shortened(cause.data), previous=_shortened(cause.previous))
        self._ended.append(line)

    def is_taken(self, rule: str, cause: Cause) -> bool:
        """Whether a run of the rule for the key of this event has been written down."""
        return _key(rule, cause) in self._keys

    def lines(self, rule: str | None = None) -> Iterator[RunLine]:
        """The runs that have not ended, then the others; the newest first."""
        for line in (*reversed(self.open.values()), *reversed(self._ended)):
            if rule is None or line.rule == rule:
                yield line

    def records(self) -> Iterator[RunRecord]:
        """The records of a new journal that has the same content."""
        yield KeysTaken([*self._keys])
        for line in (*self._ended, *self.open.values()):
            if line.cause is None:
                continue
            if line.outcome == SKIPPED and line.started is None and not line.steps:
                yield TriggerSkipped(line.number, line.rule, line.cause, line.error, line.taken)
                continue
            yield RunTaken(line.number, line.rule, line.cause, line.taken)
            if line.started is not None:
                yield RunBegun(line.number, line.started)
            for step in line.steps:
                yield RunStep(line.number, step)
            if line.ended is not None:
                yield RunEnded(line.number, line.outcome, line.error, line.ended)

    def _take(self, key: tuple[str, str, str, str]) -> None:
        self._keys[key] = None
        if len(self._keys) > KEYS_MAX:
            del self._keys[next(iter(self._keys))]


def _key(rule: str, cause: Cause) -> tuple[str, str, str, str]:
    return rule, cause.thing, cause.name, cause.key or ""


def _shortened(data: Any) -> Any:
    size = len(msgspec.msgpack.encode(data))
    return data if size <= DATA_BYTES_MAX else f"({size:,} bytes)"


def as_data(line: RunLine) -> dict[str, Any]:
    """A line as it is answered."""
    found: dict[str, Any] = msgspec.to_builtins(line)
    return found
