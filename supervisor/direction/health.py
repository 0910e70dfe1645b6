"""Health: judges whether each backplane works, and whether one that is stuck must be replaced. Pure: observations come in.

Whether a process lives (its pidfd), its sentinel runs (heartbeat) and its workers make progress are three separate answers
(DESIGN 12.2). Two times are added up for each backplane: without a heartbeat, and with ready work while no worker began or
ended an action. At `stuck_after` it is made to write its stacks, and is killed. Time that was not observed does not count: one
scan adds at most twice the interval of scans, so no backplane is overdue after the supervisor was stopped or a laptop slept.
Cost: 5 us a backplane and scan; with four, 0.3 ms of CPU a second in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from .child.child import Child
from .child.process import Phase
from .effects import Effect, Say, TakeStacks
from .events import Exited, Looked, Sight, Wrote

if TYPE_CHECKING:
    from appbackplane.runtime.execution.urgency.board import BoardSlot

#: A sentinel beats four times a second (runtime/execution/sentinel/sentinel.py). Two seconds without a heartbeat mean a stopped
#: process, or an extension that keeps the GIL. A shorter limit would take a swapping machine for either.
SILENT_NS = 2_000_000_000
#: The limit after which `status` shows a backplane as wedged, if it is never replaced (`stuck_after = "never"`).
STUCK_AFTER_NS = 60_000_000_000
#: Interval of scans, or a tenth of the shortest `stuck_after` if that is less: detection is late by a tenth at most.
LOOK_EVERY_NS = 1_000_000_000
#: How long stacks may take: 100 threads of 100 frames were written in 40 ms, but a process that shares its CPU is slower.
STACKS_LIMIT_NS = 1_000_000_000
#: The stacks count as complete when nothing has been written for so long.
STACKS_QUIET_NS = 100_000_000


class Health(StrEnum):
    """The health that `status` shows, ordered from good to bad."""

    IDLE = "idle"
    BUSY = "busy"  # work waits or runs
    WEDGED = "wedged"  # it has a heartbeat and ready work, but no worker begins or ends an action
    UNKNOWN = "unknown"  # no heartbeat: stopped, or an extension keeps the GIL
    DEAD = "dead"


@dataclass(slots=True)
class Clocks:
    """The state of one generation, updated by each scan."""

    generation: int
    beat_ns: int = 0
    cpu_ns: int = 0
    progress_ns: int = 0
    #: Time without a heartbeat.
    silent_ns: int = 0
    #: Time with ready work since a worker last began or ended an action, and the CPU time used meanwhile.
    stalled_ns: int = 0
    used_ns: int = 0

    def take(self, sight: Sight, passed_ns: int, passed_ns_max: int) -> None:
        """Add one scan, `passed_ns` after the one before; at most `passed_ns_max` of that is counted."""
        slot = sight.slot
        if slot is None or slot.heartbeat_ns == self.beat_ns:
            # Silence under a debugger does not count: once released, the process has its whole time to beat again.
            self.silent_ns = 0 if sight.is_traced else self.silent_ns + min(passed_ns, passed_ns_max)
            return
        self.silent_ns = 0
        if slot.progress_ns != self.progress_ns or not self.beat_ns:
            self.stalled_ns = self.used_ns = 0
        elif slot.ready_count:
            # Measured between its own heartbeats: without any (stopped, starved) it could not finish anything.
            self.stalled_ns += min(slot.heartbeat_ns - self.beat_ns, passed_ns_max)
            self.used_ns += slot.cpu_ns - self.cpu_ns
        self.beat_ns, self.cpu_ns, self.progress_ns = slot.heartbeat_ns, slot.cpu_ns, slot.progress_ns

    def stall_ns(self, limit_percent: int | None) -> int:
        """The stall to compare with `stuck_after`. For a process at its CPU limit only the CPU time that it used counts."""
        if limit_percent is not None and self.used_ns * 200 >= self.stalled_ns * limit_percent:
            return min(self.stalled_ns, self.used_ns)  # it used at least half of its limit: it works, or would
        return self.stalled_ns


@dataclass(slots=True)
class Replacement:
    """A backplane to be killed when its stacks are written, or at `limit_ns`."""

    generation: int
    reason: str
    limit_ns: int
    #: When its stacks count as complete; None: it has not written any.
    quiet_ns: int | None = None
    #: It is stopped by a signal, so it cannot write its stacks.
    is_stopped: bool = False

    @property
    def at_ns(self) -> int:
        return self.limit_ns if self.quiet_ns is None else min(self.limit_ns, self.quiet_ns)

    @property
    def sentence(self) -> str:
        """The reason of the replacement, for the log and `status`."""
        if self.is_stopped:
            return f"{self.reason}; it is stopped (SIGSTOP), so it could not write its stacks"
        if self.quiet_ns is None:
            return f"{self.reason}; it did not write its stacks within {STACKS_LIMIT_NS / 1e9:g} s"
        return f"{self.reason}; stacks are in the log"


class HealthWatch:
    """Watches all backplanes. Part of the director, which kills the ones that are `due`."""

    def __init__(self, children: Mapping[str, Child], stuck_after_ns: Mapping[str, int]) -> None:
        """`stuck_after_ns`: by backplane; 0, or no entry: it is never replaced."""
        self._children = children
        self.configure(stuck_after_ns)
        self._clocks: dict[str, Clocks] = {}
        self._replaced: dict[str, Replacement] = {}
        self._looked_ns: int | None = None

    def configure(self, stuck_after_ns: Mapping[str, int]) -> None:
        """Replace all limits, in force at once."""
        self._stuck_after_ns = dict(stuck_after_ns)
        #: Interval of scans.
        self.look_every_ns = min([LOOK_EVERY_NS, *(ns // 10 for ns in self._stuck_after_ns.values() if ns)])

    def suspects(self) -> list[str]:
        """The backplanes whose process state should be read: half of their `stuck_after` is over."""
        return [
            name
            for name, clocks in self._clocks.items()
            if name in self._children
            and 2 * max(clocks.silent_ns, clocks.stalled_ns) >= (self._stuck_after_ns.get(name) or STUCK_AFTER_NS)
        ]

    def take(self, event: Looked | Wrote, now_ns: int, *, is_judging: bool) -> list[Effect]:
        """Evaluate a scan, or note output of awaited stacks. `is_judging`: the system is up; otherwise other limits apply."""
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
            if clocks is None or clocks.generation != child.process.generation or not is_judging or _is_excused(child):
                self._clocks[name] = clocks = Clocks(child.process.generation)
            clocks.take(sight, passed_ns, 2 * self.look_every_ns)
            if name not in self._replaced:
                effects += self._judge(child, clocks, sight, now_ns)
        return effects

    def _judge(self, child: Child, clocks: Clocks, sight: Sight, now_ns: int) -> list[Effect]:
        stuck_after_ns = self._stuck_after_ns.get(child.name)
        if not stuck_after_ns or sight.is_traced:  # under a debugger, so a person takes care of it
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
            self._replaced[child.name] = Replacement(child.process.generation, reason, now_ns, is_stopped=True)
            return []
        self._replaced[child.name] = Replacement(child.process.generation, reason, now_ns + STACKS_LIMIT_NS)
        text = f"backplane {child.name!r}: {reason}: it is told to write its stacks, then replaced"
        return [Say(text, is_error=True), TakeStacks(child.name, child.process.generation, by_force=is_silent)]

    def awaits_stacks(self, backplane: str) -> bool:
        """Whether its current output is its stacks."""
        return backplane in self._replaced

    def obituary(self, event: Exited) -> str:
        """How it ended, preceded by the reason of its replacement, if that was pending."""
        replaced = self._replaced.get(event.backplane)
        is_it = replaced is not None and replaced.generation == event.generation
        return f"{replaced.reason}; {event.obituary}" if replaced is not None and is_it else event.obituary

    def due(self, now_ns: int, *, is_judging: bool) -> list[tuple[Child, str]]:
        """The backplanes to kill now, with the reason. Forgets replacements that are no longer needed."""
        found = []
        for name, replaced in list(self._replaced.items()):
            child = self._children.get(name)
            if child is None or not is_judging or child.process.generation != replaced.generation or _is_excused(child):
                del self._replaced[name]  # it died, or was ordered to go down, meanwhile
            elif replaced.at_ns <= now_ns:
                del self._replaced[name]
                found.append((child, replaced.sentence))
        return found

    def wakes_at_ns(self) -> int | None:
        """When the next backplane is due to be killed; None: there is none."""
        return min((replaced.at_ns for replaced in self._replaced.values()), default=None)

    def of(self, child: Child, slot: BoardSlot | None, now_ns: int, unanswered_ns: int = 0) -> Health:
        """The health for `status`.

        A backplane that did not reply to a request of `unanswered_ns`, and has had no heartbeat since, is UNKNOWN.
        """
        if not child.process.is_living:
            return Health.DEAD
        if slot is None or slot.heartbeat_ns <= unanswered_ns or now_ns - slot.heartbeat_ns > SILENT_NS:
            return Health.UNKNOWN
        clocks = self._clocks.get(child.name, Clocks(0))
        stuck_after_ns = self._stuck_after_ns.get(child.name) or STUCK_AFTER_NS
        is_the_same_stall = (clocks.generation, clocks.progress_ns) == (child.process.generation, slot.progress_ns)
        if is_the_same_stall and clocks.stalled_ns >= stuck_after_ns:
            return Health.WEDGED
        return Health.BUSY if slot.running_since_ns or slot.queued_count else Health.IDLE


def _is_excused(child: Child) -> bool:
    """Whether other limits apply (start_limit, stop_limit): it starts, goes down, or runs hooks within their time limit."""
    return child.process.phase is not Phase.UP or child.departure.is_leaving or child.components.is_moving_in_time
