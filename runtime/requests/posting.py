"""Posting: the pools of one kernel, their limits, and admission to them. Pure; the lower half of the ledger (ledger.py).

A request exists for its owner from the moment of its post, with or without room; every step that makes room admits waiting
posters. A full rejoin pool holds up posters, never workers. With lanes, only ended requests of the poster's lane or below hold
it up, so that no poster waits for a lane above its own.
"""

from __future__ import annotations

from typing import Any

from .element import LANES, Element, State
from .lanes import Lanes, shares
from .owners import Account, Owners, named
from .policy import KernelPolicy
from .posters import Posters
from .ready_pool import ReadyPool


class WorkerSlot:
    """A worker, and the requests that it has taken."""

    __slots__ = ("elements", "ended_count", "lane", "name", "run_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lane = 0
        #: The first is executing, the others have not begun.
        self.elements: list[Element] = []
        self.ended_count = self.run_ns = 0


class Posting:
    """Part of the ledger. The caller holds the kernel's mutex."""

    def __init__(self, policy: KernelPolicy) -> None:
        self.ready = ReadyPool(policy.boost)
        self.owners = Owners()
        self.workers: dict[str, WorkerSlot] = {}
        #: Counts against the limits: executing requests, and entries in use.
        self.executing = Lanes(policy.workers)
        self.entries = Lanes(policy.ready)
        #: Requests in the rejoin pool, by lane.
        self.rejoinable = [0] * LANES
        self.posters = Posters()
        self.blocked_count = 0
        self.posted_total = self.ended_total = self.failed_total = self.joined_total = 0
        #: Failures that no owner will see, since the last report, and the text of the latest.
        self.unheard_count, self.unheard = 0, ""
        self.lost_total = self.refused_total = self.unclaimed_total = self.withdrawn_total = 0
        self.begun_total = self.wait_ns_total = self.run_ns_total = 0
        #: Effects of the last calls, for the kernel to act upon: posters that have an entry now, and waiters with their
        #: answers (None: nothing of their owner exists any more).
        self.admitted: list[Element] = []
        self.handed: list[tuple[Any, Element | None]] = []
        self.change(policy)

    def change(self, policy: KernelPolicy) -> None:
        """Apply the limits of another policy. Requests beyond them go on; none is added."""
        self.policy = policy
        percents = policy.lanes if policy.mode == "lanes" else ()
        self.executing.total_max, self.executing.limits = policy.workers, shares(percents, policy.workers)
        self.entries.total_max, self.entries.limits = policy.ready, shares(percents, policy.ready)
        if self.ready.boost != policy.boost:
            taken = [element for held in self.workers.values() for element in held.elements]
            self.ready.change_boost(policy.boost, taken)
        self._admit_posters()

    def post(self, element: Element, now_ns: int) -> bool:  # hot: scripts/bench requests
        """Admit a request. False: there is no room, and nothing has changed; see `wait`."""
        lane = element.lane
        if not self.has_room(lane) or (self.posters.count and self.posters.goes_before(element)):
            return False
        element.posted_ns = now_ns
        self.owners.posts(element)
        self._admit(element, now_ns)
        return True

    def wait(self, element: Element, now_ns: int) -> None:
        """The poster waits for room. Its request exists from now on, and is in `admitted` when it has its entry."""
        element.posted_ns = now_ns
        self.owners.posts(element)
        self.posted_total += 1
        self.posters.add(element)

    def withdraw(self, element: Element) -> bool:
        """The poster stops waiting. False: its request has been admitted meanwhile."""
        if element.state is not State.POSTED:
            return False
        self.posters.remove(element)
        self.withdrawn_total += 1
        element.state, element.error = State.FAILED, "withdrawn: its poster stopped waiting"
        self._exists_no_more(element)
        self._admit_posters()
        return True

    def has_room(self, lane: int) -> bool:  # hot: scripts/bench requests
        """Whether a request of this lane may be posted now."""
        return self.entries.has_room(lane) and self._rejoinable_from(lane) < self.policy.rejoin

    def is_rejoin_full(self, lane: int) -> bool:
        """Whether ended requests that nobody rejoins hold up posts of this lane."""
        return self._rejoinable_from(lane) >= self.policy.rejoin

    def why_full(self, lane: int) -> str:
        """Why this lane has no room, as a sentence for people."""
        policy = self.policy
        if self.is_rejoin_full(lane):
            most = self.owners.largest()
            whose = "" if most is None or not most.done else f", {len(most.done)} of them of {named(most.owner)}"
            return f"the rejoin pool is full: {sum(self.rejoinable)} requests have ended and nobody rejoins them{whose}"
        if self.entries.total >= self.entries.total_max:
            return f"the ready pool is full: {self.entries.total} of {policy.ready} entries"
        return f"lane {lane} is full: it and those above it have {self.entries.limits[lane]} entries of the ready pool together"

    def waiting_by_lane(self) -> list[int]:
        """Requests of each lane that wait to be executed, with those of waiting posters."""
        counts = list(self.entries.counts)
        for element in self.posters:
            counts[element.lane] += 1
        return counts

    def goes_unheard(self, element: Element) -> None:
        """Note a failure that no owner will see, for the log."""
        self.unheard_count += 1
        self.unheard = f"{element!r}: {element.error}"

    def _rejoinable_from(self, lane: int) -> int:
        """Ended requests that hold up posts of this lane. With lanes, those of the lanes above it do not count."""
        counts = self.rejoinable
        if not self.entries.limits:
            return counts[0] + counts[1] + counts[2] + counts[3]
        return sum(counts[lane:])

    def _admit(self, element: Element, now_ns: int) -> None:  # hot: scripts/bench requests
        self.posted_total += 1
        self.entries.add(element.lane)
        element.state = State.READY
        element.ready_ns = now_ns
        self.ready.add(element)

    def _admit_posters(self) -> None:
        """Admit waiting posters, the most urgent first, while there is room."""
        while self.posters.count:
            element = self.posters.pop(self.has_room)
            if element is None:
                return
            self.posted_total -= 1  # it was counted when it began to wait
            self._admit(element, element.posted_ns)
            self.admitted.append(element)

    def _exists_no_more(self, element: Element) -> None:
        account: Account = element.account
        account.existing_count -= 1
        self.tell_none_exist(account)

    def tell_none_exist(self, account: Account) -> None:
        """If nothing of this owner exists any more, answer its waiters so, and drop its account."""
        if account.existing_count or account.done:
            return
        while account.waiters:
            self.handed.append((account.waiters.popleft(), None))
        self.owners.close_if_empty(account)
