"""Time shares: each priority has a share of the time, and none starves for longer than a bound (`order = "shares"`).

An alternative to quotas, which count actions: "If more than 90 ms is spent processing msg1 and msg2 is starving, process one
msg2 for 10 ms. If a msg3 is pending and it has not been processed for the last 1 minute, process msg3" (seed 004). Time is
given out in rounds of 100 ms, of which a priority has its percentage. Within a round the most urgent goes first, as always.
When all that have work have used their time, the next round begins at once, so no time is lost. The time that an action takes
beyond its share is a debt of later rounds (deficit round robin, Shreedhar and Varghese, 1995), so long actions get no more than
short ones.

A priority without a share has what the others leave. If it has work, one action of it runs in each `max_starvation`. An action
is not interrupted, so a starving priority is served before its bound by as much as those before it may take (`Starvation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..objects.action import Action, Outcome
from ..objects.schedulable import Schedulable
from . import object_queue
from .object_queue import RUNNING
from .quotas import UNLIMITED, Quotas
from .scheduler import Policy, Scheduler

#: One round. A percent of it is a millisecond.
ROUND_NS: Final = 100_000_000
PERCENT_NS: Final = ROUND_NS // 100
STARVATION_DEFAULT_NS: Final = 60_000_000_000


def check_shares(shares: Sequence[int], priorities: int) -> None:
    """Raises ValueError unless these are percentages for at most so many priorities, and 100 together."""
    if len(shares) > priorities:
        raise ValueError(f"shares: {len(shares)} given for {priorities} priorities")
    for share in shares:
        if share < 0:
            raise ValueError(f"shares: {share} % is below 0")
    if sum(shares) != 100:
        raise ValueError(f"shares: {' + '.join(map(str, shares)) or 'nothing'} is {sum(shares)} %, expected 100 %")


class TimeShares(Quotas):
    """The time that each priority has left in this round, in ns; below 0: its debt. A tick changes nothing."""

    def reset(self) -> None:
        pass

    def change(self, full: Sequence[int]) -> None:
        """Raises ValueError: there are no quotas."""
        raise ValueError('quotas: this backplane has order = "shares", and no quotas')

    def begin_round(self, waiting: Sequence[int]) -> bool:
        """Begin as many rounds as it takes until one of the `waiting` priorities has time left. False: none has a share.

        Debts are paid off. Time that was not used is not kept.
        """
        needed = [-self.left[priority] // self.full[priority] + 1 for priority in waiting if self.full[priority]]
        if not needed:
            return False
        rounds = min(needed)
        for priority, full in enumerate(self.full):
            self.left[priority] = min(full, self.left[priority] + rounds * full)
        return True


class Starvation:
    """When each priority with work must be served at the latest, so that none starves for longer than the bound.

    The running action ends first, and several priorities may be due at the same time. So the one that is due as the n-th is
    served before its bound by n + 1 times the longest run of late: a schedule by earliest deadline that cannot be preempted,
    with one run in reserve. An action that takes more than twice as long as all others have since the bound before last makes
    the next one late by what is beyond.
    """

    def __init__(self, bound_ns: int, priorities: int, now_ns: int) -> None:
        self._bound_ns = bound_ns
        #: However long the actions are, a priority is not served before half of its bound for their sake.
        self._run_ns_max = bound_ns // (2 * (priorities + 1))
        #: When an action of each priority last began, or the priority was last seen without work.
        self.served_ns = [now_ns] * priorities
        #: When to ask `due` again.
        self.look_ns = now_ns
        #: The longest run since `_window_ns`, and that in the bound before it.
        self._longest_ns = self._longest_before_ns = 0
        self._window_ns = now_ns

    def ran(self, run_ns: int, now_ns: int) -> None:
        """An action has ended, or gives its worker back for now."""
        if now_ns - self._window_ns >= self._bound_ns:
            self._longest_before_ns, self._longest_ns, self._window_ns = self._longest_ns, 0, now_ns
        if run_ns > self._longest_ns:
            self._longest_ns, self.look_ns = run_ns, now_ns

    def due(self, depths: Sequence[int], end: int, now_ns: int) -> int | None:
        """The priority above `end` that must be served now, since it or one behind it would starve otherwise; None: none must.

        `depths`: how many objects of each priority have work.
        """
        served_ns = self.served_ns
        for priority, depth in enumerate(depths):
            if not depth:
                served_ns[priority] = now_ns
        waiting = sorted([priority for priority, depth in enumerate(depths) if depth], key=served_ns.__getitem__)
        run_ns = min(max(self._longest_ns, self._longest_before_ns), self._run_ns_max)
        # When a priority got work is known to an eighth of the bound, and the earliest time is taken.
        self.look_ns = now_ns + self._bound_ns // 8
        for runs, priority in enumerate(waiting, start=2):
            self.look_ns = min(self.look_ns, served_ns[priority] + self._bound_ns - runs * run_ns)
        if now_ns < self.look_ns:
            return None
        return next((priority for priority in waiting if priority < end), None)


class ShareScheduler(Scheduler):
    """A `Scheduler` that shares time out, by percentages."""

    def __init__(self, policy: Policy, now_ns: int, shares: Sequence[int], max_starvation_ns: int) -> None:
        """`shares`: percent of the time, by priority; further ones have none. `max_starvation_ns`: longest time in which a
        priority that has work gets none of it done. Raises ValueError.
        """
        super().__init__(policy, now_ns)
        check_shares(shares, policy.priorities)
        self.quotas = self._shares = TimeShares(
            [share * PERCENT_NS for share in (*shares, *[0] * (policy.priorities - len(shares)))]
        )
        self._everything = [UNLIMITED] * policy.priorities
        self._starvation = Starvation(max_starvation_ns, policy.priorities, now_ns)
        #: The priorities at which actions run, and since when, by their objects; and the time up to which they are charged.
        self._running: dict[int, tuple[int, int]] = {}
        self._charged_ns = now_ns
        #: How often a priority was served because it had starved.
        self.starved_count = 0

    def next(self, now_ns: int, below: int | None = None) -> Action | None:
        if now_ns >= self.ticks.next_ns:
            self.budget.reset(self.ticks.advance(now_ns))
            self.tick_count += 1
        if not self.ready.count:
            return None
        end = self.priorities if below is None else below
        if self.budget.is_spent:
            end = min(end, self.budget.exempt)
        self._charge(now_ns)
        object = self._starving(now_ns, end) if now_ns >= self._starvation.look_ns else None
        if object is None:
            object = self.ready.take(self._shares.left, end) or self._of_next_round(end)
        if object is None:
            return None
        priority = object._priority
        self._running[id(object)] = priority, now_ns
        self._starvation.served_ns[priority] = now_ns
        object._state = RUNNING
        self.queued_count -= 1
        return object_queue.pop(object)

    def finished(self, action: Action, outcome: Outcome, now_ns: int) -> None:
        self._ends(action, now_ns)
        super().finished(action, outcome, now_ns)

    def set_aside(self, action: Action, now_ns: int) -> None:
        self._ends(action, now_ns)
        super().set_aside(action, now_ns)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _ends(self, action: Action, now_ns: int) -> None:
        self._charge(now_ns)
        _, since_ns = self._running.pop(id(action.object))
        self._starvation.ran(now_ns - since_ns, now_ns)

    def _charge(self, now_ns: int) -> None:
        """Charge the time since the last charge to the priorities of the running actions, in equal parts."""
        passed_ns, self._charged_ns = now_ns - self._charged_ns, now_ns
        if self._running and passed_ns > 0:
            left, each_ns = self._shares.left, passed_ns // len(self._running)
            for priority, _ in self._running.values():
                left[priority] -= each_ns

    def _of_next_round(self, end: int) -> Schedulable | None:
        """No priority above `end` that has work has time left: its first object of the next round, or of what others leave."""
        left = self._shares.left
        waiting = [priority for priority, depth in enumerate(self.ready.depths()) if depth]
        if any(left[priority] > 0 for priority in waiting):  # below `end`
            return None
        if not self._shares.begin_round(waiting):
            return self.ready.take(self._everything, end)
        self.virtual_tick_count += 1
        return self.ready.take(left, end)

    def _starving(self, now_ns: int, end: int) -> Schedulable | None:
        """The first object of the priority above `end` that must be served now, if one must."""
        priority = self._starvation.due(self.ready.depths(), end, now_ns)
        if priority is None:
            return None
        self.starved_count += 1
        only = [0] * self.priorities
        only[priority] = 1
        return self.ready.take(only, priority + 1)
