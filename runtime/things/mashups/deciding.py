"""Deciding: whether a trigger of a rule starts a run now, later, or never (modes, debounce, cooldown, hop limit, keys). Pure.

Triggers, times and ends come in, effects go out. Each trigger has a number; its run has the same. Keys are not kept here: a
start counts as such when it has been written down (run_log.py), so a start that could not be written takes no key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from .rule import Cause, RulePolicy

#: Runs along one chain: a rule's calls cause an event that starts a rule, and so on. Chains of people's rules have two or
#: three; a loop would go on for ever.
HOPS_MAX: Final = 8
#: Triggers of a rule that wait for its run to end: some 500 bytes each.
QUEUED_MAX: Final = 1_000
#: Runs of one rule at the same time, about 3 KB each.
PARALLEL_MAX: Final = 100

DISABLED: Final = "the rule is disabled"
HOP_LIMIT: Final = f"hop limit: {HOPS_MAX} runs of rules led to this trigger, so the rules are likely to form a loop"
DONE_ALREADY: Final = "an event with this key has started the rule before"
DEBOUNCED: Final = "debounce: a later trigger replaced it"
COOLING: Final = "cooldown"
RUNNING: Final = "single: the rule was running"
QUEUE_FULL: Final = f"queued: {QUEUED_MAX:,} triggers are waiting"
TOO_MANY: Final = f"parallel: {PARALLEL_MAX} runs are under way"


@dataclass(frozen=True, slots=True)
class StartRun:
    """Run the rule. `is_new`: the trigger was not put into the queue before."""

    number: int
    cause: Cause
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class QueueRun:
    """The trigger will be run later: write it down."""

    number: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class StopRun:
    """Stop a run."""

    number: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `wake` at this time. It replaces the time given before."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class SkipTrigger:
    """The trigger starts nothing."""

    number: int
    cause: Cause
    reason: str


RuleEffect: TypeAlias = StartRun | QueueRun | StopRun | WakeAt | SkipTrigger


class RuleState:
    """The triggers and runs of one rule."""

    def __init__(self, policy: RulePolicy, is_taken: Callable[[Cause], bool]) -> None:
        """`is_taken`: whether the rule has been started, or will be, by an event with the key of this one."""
        self.policy = policy
        self.is_enabled = True
        self._is_taken = is_taken
        self._running: list[int] = []
        self._queue: deque[tuple[int, Cause]] = deque()
        #: The trigger that a debounce holds back, and until when.
        self._held: tuple[int, Cause] | None = None
        self._due_ns = 0
        #: When the last trigger was taken up; None: none was.
        self._taken_ns: int | None = None

    @property
    def running_count(self) -> int:
        """Runs that have begun, or are about to."""
        return len(self._running)

    @property
    def queued_count(self) -> int:
        return len(self._queue)

    def trigger(self, number: int, cause: Cause, now_ns: int) -> list[RuleEffect]:
        """A trigger whose condition holds."""
        if not self.is_enabled:
            return [SkipTrigger(number, cause, DISABLED)]
        if cause.hops >= HOPS_MAX:
            return [SkipTrigger(number, cause, HOP_LIMIT)]
        if self._has_run(cause):
            return [SkipTrigger(number, cause, DONE_ALREADY)]
        if not self.policy.debounce_ns:
            return self._take(number, cause, now_ns)
        replaced = [] if self._held is None else [SkipTrigger(*self._held, DEBOUNCED)]
        self._held, self._due_ns = (number, cause), now_ns + self.policy.debounce_ns
        return [*replaced, WakeAt(self._due_ns)]

    def wake(self, now_ns: int) -> list[RuleEffect]:
        """The time of a `WakeAt` has come."""
        if self._held is None or now_ns < self._due_ns:
            return []
        (number, cause), self._held = self._held, None
        if self._has_run(cause):
            return [SkipTrigger(number, cause, DONE_ALREADY)]
        return self._take(number, cause, now_ns)

    def recover(self, number: int, cause: Cause) -> list[RuleEffect]:
        """A trigger that an earlier process wrote down and did not begin. Its key is its own, and its cooldown is over."""
        return self._by_mode(number, cause, is_new=False)

    def ended(self, number: int) -> list[RuleEffect]:
        """A run has ended, whatever its outcome, or will never begin."""
        if number in self._running:
            self._running.remove(number)
        elif any(queued == number for queued, _ in self._queue):
            self._queue = deque(each for each in self._queue if each[0] != number)
        if self._running or not self._queue:
            return []
        number, cause = self._queue.popleft()
        self._running.append(number)
        return [StartRun(number, cause, is_new=False)]

    def disable(self) -> list[RuleEffect]:
        """Take no more triggers. Those that wait are skipped; what runs goes on."""
        self.is_enabled = False
        waiting = [*self._queue] if self._held is None else [*self._queue, self._held]
        self._queue.clear()
        self._held = None
        return [SkipTrigger(number, cause, DISABLED) for number, cause in waiting]

    def _has_run(self, cause: Cause) -> bool:
        return cause.key is not None and self._is_taken(cause)

    def _take(self, number: int, cause: Cause, now_ns: int) -> list[RuleEffect]:
        cooldown_ns = self.policy.cooldown_ns
        if cooldown_ns and self._taken_ns is not None and now_ns - self._taken_ns < cooldown_ns:
            return [SkipTrigger(number, cause, COOLING)]
        effects = self._by_mode(number, cause, is_new=True)
        if not isinstance(effects[-1], SkipTrigger):
            self._taken_ns = now_ns
        return effects

    def _by_mode(self, number: int, cause: Cause, *, is_new: bool) -> list[RuleEffect]:
        stopped: list[RuleEffect] = []
        mode = self.policy.mode
        if self._running and mode == "single":
            return [SkipTrigger(number, cause, RUNNING)]
        if self._running and mode == "queued":
            if len(self._queue) >= QUEUED_MAX:
                return [SkipTrigger(number, cause, QUEUE_FULL)]
            self._queue.append((number, cause))
            return [QueueRun(number, cause)] if is_new else []
        if self._running and mode == "restart":
            stopped = [StopRun(each) for each in self._running]
            self._running.clear()
        if len(self._running) >= PARALLEL_MAX:
            return [SkipTrigger(number, cause, TOO_MANY)]
        self._running.append(number)
        return [*stopped, StartRun(number, cause, is_new=is_new)]
