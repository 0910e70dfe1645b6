"""Health: what is a backplane doing, and is one that does nothing to be replaced? Pure: what was seen and when, come in.

Whether a process lives (its pidfd), whether its sentinel turns (heartbeat) and whether its workers get on (progress) are
three answers, never one (DESIGN 12.2). Two clocks run for each backplane: how long it has said nothing, and how long work was
ready while no worker began or ended anything. At `stuck_after` it is made to write its stacks, and is killed. What was not
seen does not count: no clock goes by more in one look than looks are apart, so neither a supervisor that was stopped nor a
lid that was closed finds everybody overdue. Cost: 5 us a backplane and look; with four, 0.3 ms of CPU a second in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from appbackplane.runtime.objects.module_state import ModuleState

from .child import Child, Phase
from .effects import Effect, Say, TakeStacks
from .events import Exited, Looked, Sight, Wrote

if TYPE_CHECKING:
    from appbackplane.runtime.execution.board import BoardSlot

#: A sentinel beats four times a second (runtime/execution/sentinel.py): two seconds of silence are a process that was
#: stopped, or an extension that keeps the GIL. With less, a machine that swaps looks like either.
SILENT_NS = 2_000_000_000
#: Where nobody is replaced (`stuck_after = "never"`), this makes a backplane wedged all the same, in what is shown.
STUCK_AFTER_NS = 60_000_000_000
#: Looks are so far apart, or a tenth of the shortest `stuck_after` if that is less: late by a tenth at most.
LOOK_EVERY_NS = 1_000_000_000
#: How long stacks may take: 100 threads of 100 frames were written in 40 ms, but not by one that shares its CPU with others.
STACKS_LIMIT_NS = 1_000_000_000
#: They are taken for complete when nothing has been written for so long.
STACKS_QUIET_NS = 100_000_000


class Health(StrEnum):
    """What `status` shows; the order is from good to bad."""

    IDLE = "idle"
    BUSY = "busy"  # work waits or runs
    WEDGED = "wedged"  # it beats, and work is ready, but no worker begins or ends anything
    UNKNOWN = "unknown"  # it says nothing: stopped, or an extension keeps the interpreter to itself
    DEAD = "dead"


@dataclass(slots=True)
class Clocks:
    """What is remembered of one generation from look to look."""

    generation: int
    beat_ns: int = 0
    cpu_ns: int = 0
    progress_ns: int = 0
    #: How long it has said nothing.
    silent_ns: int = 0
    #: How long work was ready since a worker last began or ended anything, and what CPU time was used meanwhile.
    stalled_ns: int = 0
    used_ns: int = 0

    def take(self, sight: Sight, passed_ns: int, passed_ns_max: int) -> None:
        """One look, so long after the one before, of which so much counts."""
        slot = sight.slot
        if slot is None or slot.heartbeat_ns == self.beat_ns:
            # Silence under a debugger does not count: once released, the process has its whole time to beat again.
            self.silent_ns = 0 if sight.is_traced else self.silent_ns + min(passed_ns, passed_ns_max)
            return
        self.silent_ns = 0
        if slot.progress_ns != self.progress_ns or not self.beat_ns:
            self.stalled_ns = self.used_ns = 0
        elif slot.ready_count:
            # By its own heartbeats: while it said nothing (stopped, starved), nothing could be finished.
            self.stalled_ns += min(slot.heartbeat_ns - self.beat_ns, passed_ns_max)
            self.used_ns += slot.cpu_ns - self.cpu_ns
        self.beat_ns, self.cpu_ns, self.progress_ns = slot.heartbeat_ns, slot.cpu_ns, slot.progress_ns

    def stall_ns(self, limit_percent: int | None) -> int:
        """The stall, as a judge may count it: to one that the kernel keeps at its CPU limit, less time has passed."""
        if limit_percent is not None and self.used_ns * 200 >= self.stalled_ns * limit_percent:
            return min(self.stalled_ns, self.used_ns)  # half of what it may use, or more: it works, or would
        return self.stalled_ns


@dataclass(slots=True)
class Replacement:
    """One that is to be killed as soon as its stacks are written, or the time for that is over."""

    generation: int
    reason: str
    limit_ns: int
    #: When nothing more is expected; None while nothing has come.
    quiet_ns: int | None = None
    #: The kernel keeps it from writing anything.
    is_stopped: bool = False

    @property
    def at_ns(self) -> int:
        return self.limit_ns if self.quiet_ns is None else min(self.limit_ns, self.quiet_ns)

    @property
    def sentence(self) -> str:
        """Why it was replaced, for whoever reads of its death."""
        if self.is_stopped:
            return f"{self.reason}; it is stopped (SIGSTOP), so no stacks could be had"
        if self.quiet_ns is None:
            return f"{self.reason}; its stacks could not be had within {STACKS_LIMIT_NS / 1e9:g} s"
        return f"{self.reason}; stacks are in the log"


class HealthWatch:
    """Of all backplanes. Part of the director, who has the last word on whom to kill."""

    def __init__(self, children: Mapping[str, Child], stuck_after_ns: Mapping[str, int]) -> None:
        """`stuck_after_ns`: by name; 0, or none: never replaced."""
        self._children = children
        self.configure(stuck_after_ns)
        self._clocks: dict[str, Clocks] = {}
        self._replaced: dict[str, Replacement] = {}
        self._looked_ns: int | None = None

    def configure(self, stuck_after_ns: Mapping[str, int]) -> None:
        """From now on."""
        self._stuck_after_ns = dict(stuck_after_ns)
        #: How far apart looks are to be.
        self.look_every_ns = min([LOOK_EVERY_NS, *(ns // 10 for ns in self._stuck_after_ns.values() if ns)])

    def suspects(self) -> list[str]:
        """At whose process it is worth looking: half of the time that it has is over."""
        return [
            name
            for name, clocks in self._clocks.items()
            if name in self._children
            and 2 * max(clocks.silent_ns, clocks.stalled_ns) >= (self._stuck_after_ns.get(name) or STUCK_AFTER_NS)
        ]

    def take(self, event: Looked | Wrote, now_ns: int, *, is_judging: bool) -> list[Effect]:
        """What was seen. `is_judging`: whether the system is up; before and after that others set the limits."""
        if isinstance(event, Wrote):
            replaced = self._replaced.get(event.backplane)
            if replaced is not None and replaced.generation == event.generation:
                replaced.quiet_ns = now_ns + STACKS_QUIET_NS
            return []
        passed_ns = 0 if self._looked_ns is None else now_ns - self._looked_ns
        self._looked_ns = now_ns
        effects: list[Effect] = []
        for name, sight in event.sights.items():
            child = self._children[name]
            clocks = self._clocks.get(name)
            if clocks is None or clocks.generation != child.generation or not is_judging or _is_excused(child):
                self._clocks[name] = clocks = Clocks(child.generation)
            clocks.take(sight, passed_ns, 2 * self.look_every_ns)
            if name not in self._replaced:
                effects += self._judge(child, clocks, sight, now_ns)
        return effects

    def _judge(self, child: Child, clocks: Clocks, sight: Sight, now_ns: int) -> list[Effect]:
        stuck_after_ns = self._stuck_after_ns.get(child.name)
        if not stuck_after_ns or sight.is_traced:  # a debugger has hold of it, and somebody sits there
            return []
        is_silent = clocks.silent_ns >= stuck_after_ns
        if is_silent:
            reason = f"{Health.UNKNOWN}: no heartbeat for {clocks.silent_ns / 1e9:.3g} s"
        elif clocks.stall_ns(sight.limit_percent) >= stuck_after_ns:
            assert sight.slot is not None
            queued = f"{sight.slot.queued_count} action{'s' * (sight.slot.queued_count != 1)} queued"
            stalled_s = clocks.stalled_ns / 1e9
            reason = f"{Health.WEDGED}: work is ready ({queued}), nothing begun or finished for {stalled_s:.3g} s"
        else:
            return []
        if sight.is_stopped:
            self._replaced[child.name] = Replacement(child.generation, reason, now_ns, is_stopped=True)
            return []
        self._replaced[child.name] = Replacement(child.generation, reason, now_ns + STACKS_LIMIT_NS)
        text = f"backplane {child.name!r}: {reason}: it is to write its stacks, and is replaced"
        return [Say(text, is_error=True), TakeStacks(child.name, child.generation, by_force=is_silent)]

    def awaits_stacks(self, backplane: str) -> bool:
        """Whether what it writes now is its stacks."""
        return backplane in self._replaced

    def obituary(self, event: Exited) -> str:
        """How it ended; of one that was to be replaced, and crashed or ended first, why that was."""
        replaced = self._replaced.get(event.backplane)
        is_it = replaced is not None and replaced.generation == event.generation
        return f"{replaced.reason}; {event.obituary}" if replaced is not None and is_it else event.obituary

    def due(self, now_ns: int, *, is_judging: bool) -> list[tuple[Child, str]]:
        """Who is to be killed now, and why."""
        found = []
        for name, replaced in list(self._replaced.items()):
            child = self._children.get(name)
            if child is None or not is_judging or child.generation != replaced.generation or _is_excused(child):
                del self._replaced[name]  # it died, or was told to go, meanwhile
            elif replaced.at_ns <= now_ns:
                del self._replaced[name]
                found.append((child, replaced.sentence))
        return found

    def wakes_at_ns(self) -> int | None:
        """When somebody is due."""
        return min((replaced.at_ns for replaced in self._replaced.values()), default=None)

    def of(self, child: Child, slot: BoardSlot | None, now_ns: int, unanswered_ns: int = 0) -> Health:
        """What `status` calls it.

        Who has left unanswered what it was asked at `unanswered_ns`, and has not beaten since, says nothing.
        """
        if not child.is_living:
            return Health.DEAD
        if slot is None or slot.heartbeat_ns <= unanswered_ns or now_ns - slot.heartbeat_ns > SILENT_NS:
            return Health.UNKNOWN
        clocks = self._clocks.get(child.name, Clocks(0))
        stuck_after_ns = self._stuck_after_ns.get(child.name) or STUCK_AFTER_NS
        is_the_same_stall = (clocks.generation, clocks.progress_ns) == (child.generation, slot.progress_ns)
        if is_the_same_stall and clocks.stalled_ns >= stuck_after_ns:
            return Health.WEDGED
        return Health.BUSY if slot.running_since_ns or slot.queued_count else Health.IDLE


def _is_excused(child: Child) -> bool:
    """Others set its limits: it starts, goes, or runs hooks whose time is not over (start_limit, stop_limit)."""
    falls = any(to is ModuleState.DOWN for to in child.moving.values())
    return child.phase is not Phase.UP or child.is_leaving or bool(child.hooks_due_ns) or falls
