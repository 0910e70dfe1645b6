"""Posting: the pools of one kernel and their limits, and what may enter them. Pure; the lower half of the ledger (ledger.py).

A request exists for its owner from the moment of its post, whether or not there is room; who waits for room is let in by
whatever makes some. A full rejoin pool holds up who posts, never who ends: with lanes, by those alone that have ended in his
lane or below, so that no poster waits for a lane above his own.
"""

from __future__ import annotations

from typing import Any

from .element import LANES, Element, State
from .lanes import Lanes, shares
from .owners import Account, Owners, named
from .policy import KernelPolicy
from .posters import Posters
from .ready_pool import ReadyPool


class Held:
    """One worker, and what it has taken."""

    __slots__ = ("elements", "ended_count", "lane", "name", "run_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lane = 0
        #: The first is executing, the others have not begun.
        self.elements: list[Element] = []
        self.ended_count = self.run_ns = 0


class Posting:
    """Part of the ledger. Whoever calls holds the kernel's mutex."""

    def __init__(self, policy: KernelPolicy) -> None:
        self.ready = ReadyPool(policy.boost)
        self.owners = Owners()
        self.workers: dict[str, Held] = {}
        #: Against the limits: who executes, and who has an entry.
        self.executing = Lanes(policy.workers)
        self.entries = Lanes(policy.ready)
        #: In the rejoin pool, by lane.
        self.rejoinable = [0] * LANES
        self.posters = Posters()
        self.blocked_count = 0
        self.posted_total = self.ended_total = self.failed_total = self.joined_total = 0
        #: Failures of which no owner will hear, since they were last said, and the last of them.
        self.unheard_count, self.unheard = 0, ""
        self.lost_total = self.refused_total = self.unclaimed_total = self.withdrawn_total = 0
        self.begun_total = self.wait_ns_total = self.run_ns_total = 0
        #: What the last calls have brought about, for the kernel to take and act upon: posters that have an entry now, and
        #: waiters with what they waited for (None: nothing of their owner exists any more).
        self.admitted: list[Element] = []
        self.handed: list[tuple[Any, Element | None]] = []
        self.change(policy)

    def change(self, policy: KernelPolicy) -> None:
        """Other limits from now on. What is beyond them goes on; nothing is added to it."""
        self.policy = policy
        percents = policy.lanes if policy.mode == "lanes" else ()
        self.executing.total_max, self.executing.limits = policy.workers, shares(percents, policy.workers)
        self.entries.total_max, self.entries.limits = policy.ready, shares(percents, policy.ready)
        if self.ready.boost != policy.boost:
            taken = [element for held in self.workers.values() for element in held.elements]
            self.ready.change_boost(policy.boost, taken)
        self._admit_posters()

    def post(self, element: Element, now_ns: int) -> bool:  # hot: scripts/bench requests
        """It is ready; False: there is no room, and nothing has changed. See `wait`, `refuse`."""
        lane = element.lane
        if not self.has_room(lane) or (self.posters.count and self.posters.goes_before(element)):
            return False
        element.posted_ns = now_ns
        self.owners.posts(element)
        self._admit(element, now_ns)
        return True

    def wait(self, element: Element, now_ns: int) -> None:
        """Its poster waits for room; until then it exists, and is in `admitted` when it has its entry."""
        element.posted_ns = now_ns
        self.owners.posts(element)
        self.posted_total += 1
        self.posters.add(element)

    def withdraw(self, element: Element) -> bool:
        """Its poster waits no more; False: it has been admitted meanwhile."""
        if element.state is not State.POSTED:
            return False
        self.posters.remove(element)
        self.withdrawn_total += 1
        element.state, element.error = State.FAILED, "withdrawn: its poster waits no more"
        self._exists_no_more(element)
        self._admit_posters()
        return True

    def has_room(self, lane: int) -> bool:  # hot: scripts/bench requests
        """Whether a request of this lane may be posted now."""
        return self.entries.has_room(lane) and self._rejoinable_from(lane) < self.policy.rejoin

    def is_rejoin_full(self, lane: int) -> bool:
        """Whether a request of this lane may not be posted because of what nobody has rejoined."""
        return self._rejoinable_from(lane) >= self.policy.rejoin

    def why_full(self, lane: int) -> str:
        """Why not, for people."""
        policy = self.policy
        if self.is_rejoin_full(lane):
            most = self.owners.largest()
            whose = "" if most is None or not most.done else f", {len(most.done)} of them of {named(most.owner)}"
            return f"the rejoin pool is full: {sum(self.rejoinable)} requests have ended and nobody rejoins them{whose}"
        if self.entries.total >= self.entries.total_max:
            return f"the ready pool is full: {self.entries.total} of {policy.ready} entries"
        return f"lane {lane} is full: it and those above it have {self.entries.limits[lane]} entries of the ready pool together"

    def waiting_by_lane(self) -> list[int]:
        """How many are to be executed and are not yet."""
        counts = list(self.entries.counts)
        for element in self.posters:
            counts[element.lane] += 1
        return counts

    def goes_unheard(self, element: Element) -> None:
        """It has failed, and nobody is left to hear of it but who reads the log."""
        self.unheard_count += 1
        self.unheard = f"{element!r}: {element.error}"

    def _rejoinable_from(self, lane: int) -> int:
        """Those whose owners may have to be heard before this lane may go on: with lanes, no poster waits for a lane above."""
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
        """Those that wait, the most urgent first, while there is room."""
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
        """Those who wait for what there will not be."""
        if account.existing_count or account.done:
            return
        while account.waiters:
            self.handed.append((account.waiters.popleft(), None))
        self.owners.close_if_empty(account)
