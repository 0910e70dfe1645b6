"""Ledger: every request of one kernel, in exactly one state; decides which may be posted, taken and rejoined. Pure.

The pools of the source (seed 001, sections 3.1 and 5) as one plain object. Facts and `now_ns` come in; posters and waiters
that may go on come out (`admitted`, `handed`). The kernel holds its mutex around each call, so all answers are authoritative,
NONE_EXIST above all. A request exists for its owner from its post on, with or without room; each step that makes room admits
waiting posters. A worker may take several requests of one lane: the first is executing, the others keep their entries until
their turn, so lane limits hold exactly however requests travel. Ending never waits: a full rejoin pool holds up posters, never
workers; with lanes only by ended requests of the poster's lane or below, so that no poster waits for a lane above its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from ..policy import KernelPolicy
from .element import LANES, LOST, Element, Failure, State
from .lanes import Lanes, shares
from .owners import Account, Owners, Rejoin, ScopedOwner, named
from .posters import Posters
from .ready_pool import ReadyPool

_ALL_LANES = list(range(LANES))
#: So many ended requests are enough for a patient waiter: they share the cost of waking it.
ENOUGH: Final = 64


class WorkerSlot:
    """A worker, and the requests that it has taken."""

    __slots__ = ("elements", "ended_count", "lane", "name", "run_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lane = 0
        #: The first is executing, the others have not begun.
        self.elements: list[Element] = []
        self.ended_count = self.run_ns = 0


class Ledger:
    """The state of one kernel's requests. The caller holds the kernel's mutex."""

    def __init__(self, policy: KernelPolicy) -> None:
        self.ready = ReadyPool(policy.boost, is_fair=policy.fair_by == "owner")
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
        self.ready.is_fair = policy.fair_by == "owner"
        if self.ready.boost != policy.boost:
            taken = [element for held in self.workers.values() for element in held.elements]
            self.ready.change_boost(policy.boost, taken)
        self._admit_posters()

    # -- posting ------------------------------------------------------------------------------------------------------

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

    # -- executing ----------------------------------------------------------------------------------------------------

    def take(
        self, worker: str, count_max: int, now_ns: int, costs: Mapping[str, int] | None = None, budget_ns: int = 0,
        bytes_max: int = 0,
    ) -> list[Element]:  # fmt: skip  # hot: scripts/bench requests
        """Requests for a worker to execute: of one lane, the most urgent first; [] if it may execute none now.

        `costs`: expected run time of each runnable, ns. A request is added while those before it stay below `budget_ns` and
        `bytes_max` together; none is added after one of unknown cost.
        """
        held = self.workers.get(worker)
        if held is None:
            held = self.workers[worker] = WorkerSlot(worker)
        assert not held.elements, f"{worker} takes again before it has ended what it had"
        if not self.ready.count:
            return []
        first = self.best()
        if first is None:
            return []
        lane = held.lane = first.lane
        self.executing.add(lane)
        held.elements.append(first)
        self.ready.take(first)
        first.worker = worker
        self._begin(first, now_ns)
        last = first
        while len(held.elements) < count_max:
            if costs is not None:
                budget_ns -= costs.get(last.runnable, budget_ns)
                bytes_max -= len(last.packed)
                if budget_ns <= 0 or bytes_max <= 0:
                    break
            following = self.ready.head(lane)
            if following is None:
                break
            last = following
            self.ready.take(following)
            following.worker = worker
            held.elements.append(following)
        if self.posters.count:
            self._admit_posters()
        return held.elements.copy()

    def end(
        self, worker: str, element: Element, result: Any, failure: Failure | None, run_ns: int, now_ns: int
    ) -> bool:  # hot: scripts/bench requests
        """The worker has executed the request. False: the worker no longer holds it (it was lost), and nothing is counted."""
        held = self.workers.get(worker)
        if held is None or element.worker != worker or element not in held.elements:
            return False
        held.ended_count += 1
        held.run_ns += run_ns
        self.run_ns_total += run_ns
        element.run_ns = run_ns
        self._release(held, element, now_ns)
        self._end(element, result, failure, now_ns)
        if self.posters.count:
            self._admit_posters()
        return True

    def give_back(self, worker: str, elements: Sequence[Element], now_ns: int) -> None:
        """Make requests ready again, in their old places, that were taken and certainly not begun."""
        held = self.workers.get(worker)
        for element in elements:
            if held is None or element.worker != worker or element not in held.elements:
                continue
            if element.state is State.EXECUTING:
                element.ready_ns = now_ns  # its wait so far is counted; a new wait begins, so that no total shrinks
            self._release(held, element, now_ns)
            self.entries.add(element.lane)  # perhaps one above the limit, if it was executing, until a worker takes one
            element.state, element.worker, element.started_ns = State.READY, "", 0
            self.ready.put_back(element)

    def lose(self, worker: str, elements: Sequence[Element], why: str, now_ns: int) -> None:
        """Fail requests whose worker was lost: whether they ran is unknown."""
        held = self.workers.get(worker)
        for element in elements:
            if held is not None and element.worker == worker and element in held.elements:
                self.lost_total += 1
                self._release(held, element, now_ns)
                self._end(element, None, Failure(LOST + why), now_ns)
        self._admit_posters()

    def dismiss(self, worker: str) -> None:
        """Forget a worker. No effect while it holds requests."""
        held = self.workers.get(worker)
        if held is not None and not held.elements:
            del self.workers[worker]

    def best(self) -> Element | None:  # hot: scripts/bench requests
        """The most urgent request that may be executed now; None: there is none."""
        executing = self.executing
        if executing.total >= executing.total_max:
            return None
        if not executing.limits:
            return self.ready.best(_ALL_LANES)
        return self.ready.best([lane for lane in _ALL_LANES if executing.has_room(lane)])

    def overtaken(self, element: Element) -> str:
        """A worker with an unbegun request less urgent than this one, which would run next; "": there is none."""
        most, found = self.ready.aged_priority(element), ""
        if self.ready.count > 1 and self.ready.best(_ALL_LANES) is not element:
            return ""
        for held in self.workers.values():
            if len(held.elements) > 1:
                priority = self.ready.aged_priority(held.elements[-1])
                if priority > most:
                    most, found = priority, held.name
        return found

    def blocks(self, element: Element, waits_for: str) -> None:
        """Note the reason for which an execution waits in the kernel, "rejoin" or "room"; "": it goes on."""
        if waits_for and element.state is not State.EXECUTING:
            return
        self.blocked_count += bool(waits_for) - bool(element.waits_for)
        element.waits_for = waits_for

    def grow_older(self) -> None:
        """With ageing on, an interval has passed: waiting requests become more urgent."""
        self.ready.age += 1
        self.posters.age += 1

    @property
    def has_takeable(self) -> bool:
        """Whether a worker that asked now would be given something."""
        return self.ready.count > 0 and self.best() is not None

    def find(self, id: int, worker: str) -> Element | None:
        """The request with this id, if this worker has taken it; else None."""
        held = self.workers.get(worker)
        return None if held is None else next((each for each in held.elements if each.id == id), None)

    def end_waiting(self, *, everybody: bool) -> list[Any]:
        """End the waits of executing requests, or all waits (`everybody`). Returns the waiters, for the caller to notify."""
        ended: list[Any] = []
        for element in [each for each in self.posters if everybody or each.parent is not None]:
            ended.append(element.waiter)
            if element.parent is not None:
                self.blocks(element.parent, "")
            self.withdraw(element)
        for account in self.owners:
            for waiter in [each for each in account.waiters if everybody or each.asking is not None]:
                account.waiters.remove(waiter)
                if waiter.asking is not None:
                    self.blocks(waiter.asking, "")
                ended.append(waiter)
        return ended

    # -- rejoining ----------------------------------------------------------------------------------------------------

    def rejoin(self, owner: Hashable) -> tuple[Rejoin, Element | None]:  # hot: scripts/bench requests
        """A request that has ended, or why there is none; the answer is authoritative."""
        account = self.owners.get(owner)
        if account is None:
            return Rejoin.NONE_EXIST, None
        if not account.done:
            return Rejoin.NONE_READY, None
        element = self._take_done(account)
        self.tell_none_exist(account)
        if self.posters.count:
            self._admit_posters()
        return Rejoin.RETURNED, element

    def unjoin(self, element: Element) -> None:
        """Undo a rejoin whose receiver was gone: the request waits to rejoin again, unless its owner has ended."""
        self.joined_total -= 1
        owner = element.owner
        is_over = (
            owner.is_over
            if isinstance(owner, ScopedOwner)
            else owner is element.parent and not _executes(element.parent)
        )
        if is_over:
            element.state = State.DONE
            self.unclaimed_total += 1
            return
        account = self.owners.posts(element)
        account.existing_count -= 1
        if account.waiters:
            self._join(element)
            self.handed.append((account.waiters.popleft(), element))
            self.tell_none_exist(account)
            return
        element.state = State.REJOINABLE
        self.rejoinable[element.lane] += 1
        account.done.appendleft(element)

    def disown(self, owner: Hashable, now_ns: int) -> int:
        """Drop an owner's requests: nobody will rejoin them, and those not begun are withdrawn. Returns how many these were.

        An operation's requests that were posted with `rejoin=False` are executed: nobody was to rejoin them anyway.
        """
        is_all = True
        if isinstance(owner, ScopedOwner):
            owner.is_over = True
            if owner.whose is not None:
                owner.whose.parts.pop(owner.number, None)
            is_all = not owner.name
        account = self.owners.get(owner)
        if account is None:
            return 0
        withdrawn_count = self._drop(account, f"nobody rejoins the requests of {named(owner)}", now_ns, is_all=is_all)
        self._admit_posters()
        return withdrawn_count

    def await_rejoin(self, owner: Hashable, waiter: Any, *, is_patient: bool = False) -> None:
        """Put the waiter into `handed` as soon as there is an answer. There is none yet: `rejoin` has just said NONE_READY.

        A patient waiter is notified when `ENOUGH` have ended, no more will come, or its waiting holds up others.
        """
        account = self.owners.get(owner)
        assert account is not None and not account.done, "there is an answer already"
        account.waiters.append(waiter)
        if is_patient:
            account.patient = waiter

    def lose_patience(self, owner: Hashable, waiter: Any) -> None:
        """One request is now enough for the waiter: one that has ended, or else the next one."""
        account = self.owners.get(owner)
        if account is None or waiter not in account.waiters:
            return
        if account.patient is waiter:
            account.patient = None
        if account.done:
            account.waiters.remove(waiter)
            self.handed.append((waiter, self._take_done(account)))
            self.tell_none_exist(account)
            self._admit_posters()

    def forget(self, owner: Hashable, waiter: Any) -> bool:
        """Remove a waiter. False: it has been handed an answer meanwhile."""
        account = self.owners.get(owner)
        if account is None or waiter not in account.waiters:
            return False
        account.waiters.remove(waiter)
        return True

    def tell_none_exist(self, account: Account) -> None:
        """If nothing of this owner exists any more, answer its waiters so, and drop its account."""
        if account.existing_count or account.done:
            return
        while account.waiters:
            self.handed.append((account.waiters.popleft(), None))
        self.owners.close_if_empty(account)

    # -- steps --------------------------------------------------------------------------------------------------------

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

    def _begin(self, element: Element, now_ns: int) -> None:  # hot: scripts/bench requests
        self.entries.remove(element.lane)
        element.state = State.EXECUTING
        element.started_ns = now_ns
        self.begun_total += 1
        self.wait_ns_total += now_ns - element.ready_ns

    def _release(self, held: WorkerSlot, element: Element, now_ns: int) -> None:  # hot: scripts/bench requests
        """Take the request from the worker that holds it."""
        elements = held.elements
        was_first = elements[0] is element
        elements.remove(element)
        if element.waits_for:
            self.blocks(element, "")
        if not elements:
            self.executing.remove(held.lane)
        elif was_first:
            self._begin(elements[0], now_ns)
        if not was_first:
            self.entries.remove(element.lane)

    def _end(
        self, element: Element, result: Any, failure: Failure | None, now_ns: int
    ) -> None:  # hot: scripts/bench requests
        element.ended_ns = now_ns
        element.result = result
        self.ended_total += 1
        if failure is not None:
            element.error, element.failure = failure.error, failure
            self.failed_total += 1
        own = self.owners.get(element)
        if own is not None:
            because = "" if element.error is None else f"its owner {element!r} failed"
            self._drop(own, because, now_ns)
        if element.parts:
            for part in list(element.parts.values()):
                self.disown(part, now_ns)
        account: Account = element.account
        if not account.wants(element):
            self.unclaimed_total += element.is_rejoined
            if failure is not None:
                self.goes_unheard(element)
            element.state = State.DONE
            self._exists_no_more(element)
            return
        account.existing_count -= 1
        element.state = State.REJOINABLE
        self.rejoinable[element.lane] += 1
        account.done.append(element)
        if account.waiters and not self._would_rather_wait(account):
            self.handed.append((account.waiters.popleft(), self._take_done(account)))
            self.tell_none_exist(account)

    def _drop(self, account: Account, because: str, now_ns: int, *, is_all: bool = True) -> int:
        """Nobody will rejoin the requests of this owner. Returns how many were withdrawn.

        `because`: the reason to withdraw unbegun requests, since the work that they are part of has failed or is not wanted;
        "": they still run, and end unclaimed. `is_all`: False withdraws none that were posted with `rejoin=False`.
        Commonly no request is ready, and the pool, which may be large, need not be searched.
        """
        withdrawn_count = 0
        for element in account.done:
            self.rejoinable[element.lane] -= 1
            element.state = State.DONE
            self.unclaimed_total += 1
            if element.error is not None:
                self.goes_unheard(element)
        account.done.clear()
        account.dropped_to = account.posted_count
        if because and account.existing_count > self._not_ready(account):
            for element in self.ready.remove_of(account, is_all=is_all):
                self.entries.remove(element.lane)
                element.state, element.error = State.FAILED, f"withdrawn: {because}"
                element.ended_ns = now_ns
                self.withdrawn_total += 1
                account.existing_count -= 1
                withdrawn_count += 1
        self.tell_none_exist(account)
        return withdrawn_count

    def _not_ready(self, account: Account) -> int:
        """How many of the owner's requests wait for room, or are with a worker."""
        taken = sum(element.account is account for held in self.workers.values() for element in held.elements)
        return taken + sum(element.account is account for element in self.posters)

    def _would_rather_wait(self, account: Account) -> bool:  # hot: scripts/bench requests
        """Whether a patient waiter would soon find more requests, and holds up nobody by waiting for them."""
        return (
            account.existing_count > 0
            and account.waiters[0] is account.patient
            and len(account.waiters) == 1
            and len(account.done) < ENOUGH
            and not self.posters.count
        )

    def _take_done(self, account: Account) -> Element:  # hot: scripts/bench requests
        element = account.done.popleft()
        self.rejoinable[element.lane] -= 1
        self._join(element)
        return element

    def _join(self, element: Element) -> None:  # hot: scripts/bench requests
        element.state = State.JOINED if element.error is None else State.FAILED
        self.joined_total += 1


def _executes(element: Element | None) -> bool:
    return element is not None and element.state is State.EXECUTING
