"""The ledger and its slow twin are driven side by side through everything that may happen to requests.

What is told of one request has to be true of all of them at every moment: each in one state, none in two pools or lost between
them, no limit passed, NONE_EXIST only where nothing exists, and nobody kept waiting for what there is. Set
APPBACKPLANE_MODEL_EXAMPLES to a number to search that many programs from a new seed; the default is few, the same each time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appbackplane.runtime.requests.ledger.element import Element, Failure, State
from appbackplane.runtime.requests.ledger.figures import figures_of
from appbackplane.runtime.requests.ledger.ledger import Ledger
from appbackplane.runtime.requests.ledger.owners import Rejoin
from appbackplane.runtime.requests.policy import KernelPolicy
from tests.models.request_model import (
    EXECUTING,
    FAILED,
    GONE,
    JOINED,
    POSTED,
    READY,
    Job,
    Limits,
    RequestModel,
    of_the_source,
)
from tests.profiles import examples

#: A fourth is never asked before the others are, so it brings nothing new.
WORKERS = ("w1", "w2", "w3")

#: Small, so that everything is full all the time. Lane 0 with a share and without.
POLICIES = st.sampled_from(
    [
        KernelPolicy(workers=workers, ready=ready, rejoin=rejoin, boost=boost, mode=mode, lanes=lanes)
        for workers, ready, lanes in [
            (3, 3, (0, 20, 20)), (4, 4, (20, 20, 20)), (1, 1, (0, 0, 0)), (3, 5, (0, 0, 40)), (2, 9, (0, 30, 0)),
        ]
        for rejoin in (1, 2, 50)
        for boost in (0, 2)
        for mode in ("plain", "lanes")
    ]
)  # fmt: skip


class Somebody:
    """Who waits."""

    def __init__(self, asking: Element | None) -> None:
        self.asking = asking


class LedgerMachine(RuleBasedStateMachine):
    """Whatever is done to the ledger is done to the model; whatever can be seen of either must be the same."""

    @initialize(policy=POLICIES)
    def start(self, policy: KernelPolicy) -> None:
        self.now_ns = 0
        self.real, self.model = Ledger(policy), RequestModel(limits_of(policy))
        self.numbers = itertools.count(1)
        self.pairs: list[tuple[Element, Job]] = []
        self.refused_count = 0

    # -- what may happen ----------------------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        lane=st.integers(0, 3),
        priority=st.integers(-2, 2),
        rejoins=st.booleans() | st.just(True),
        marked=st.booleans(),
        waits=st.booleans(),
        count=st.integers(1, 3),
    )
    def post(
        self, data: st.DataObject, lane: int, priority: int, rejoins: bool, marked: bool, waits: bool, count: int
    ) -> None:
        executing = [pair for pair in self.pairs if pair[1].state == EXECUTING]
        parent, job_parent = data.draw(st.sampled_from([(None, None), *executing]))
        owner, job_owner = data.draw(
            st.sampled_from([("a", "a"), ("b", "b"), *executing, (parent or "a", job_parent or "a")])
        )
        for _ in range(count):
            number = next(self.numbers)
            element = Element(
                number,
                number,
                "R",
                owner,
                of_the_source(priority),
                lane,
                is_rejoined=rejoins,
                is_boosted=marked,
                parent=parent,
            )
            job = Job(number, job_owner, lane, priority, rejoins, marked, job_parent)
            is_posted = self.real.post(element, self.now_ns)
            assert is_posted == self.model.post(job, self.now_ns)
            if not is_posted:
                assert self.real.why_full(lane)
                if not waits:
                    self.refused_count += 1
                    continue
                element.waiter = job
                self.real.wait(element, self.now_ns)
                self.model.wait(job, self.now_ns)
            self.pairs.append((element, job))

    @precondition(lambda self: self.pairs)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        element, job = data.draw(st.sampled_from(self._having(POSTED, READY, GONE)))
        assert self.real.withdraw(element) == self.model.withdraw(job)

    @rule(worker=st.sampled_from(WORKERS), count_max=st.sampled_from([1, 1, 2, 3]))
    def take(self, worker: str, count_max: int) -> None:
        if self.model.held_by(worker):
            return
        self.real.take(worker, count_max, self.now_ns)
        self.model.take(worker, count_max, self.now_ns)

    @rule(data=st.data(), is_failed=st.booleans(), run_ns=st.integers(0, 9))
    def end(self, data: st.DataObject, is_failed: bool, run_ns: int) -> None:
        """The one that executes, or one out of turn; or one that is not with this worker any more."""
        element, job = data.draw(st.sampled_from(self._having(EXECUTING, EXECUTING, READY, GONE)))
        worker = data.draw(st.sampled_from([job.worker or "w1", job.worker or "w2", "w3"]))
        failure = Failure("broken", "trace") if is_failed else None
        is_ended = self.real.end(worker, element, job.number, failure, run_ns, self.now_ns)
        assert is_ended == self.model.end(worker, job, is_failed=is_failed, run_ns=run_ns, now_ns=self.now_ns)

    @rule(data=st.data(), worker=st.sampled_from(WORKERS), how=st.sampled_from(["give_back", "lose"]))
    def hand_over(self, data: st.DataObject, worker: str, how: str) -> None:
        """A worker gives back some of what it has, or is lost with it."""
        held = [pair for pair in self.pairs if pair[1] in self.model.held_by(worker)]
        chosen = data.draw(st.lists(st.sampled_from(held), unique=True, min_size=1)) if held else []
        elements, jobs = [element for element, _ in chosen], [job for _, job in chosen]
        if how == "give_back":
            self.real.give_back(worker, elements, self.now_ns)
            self.model.give_back(worker, jobs, self.now_ns)
        else:
            self.real.lose(worker, elements, "killed", self.now_ns)
            self.model.lose(worker, jobs, self.now_ns)

    @rule(
        data=st.data(),
        whats=st.lists(st.sampled_from(["post", "take", "end", "rejoin", "give_back"]), min_size=3, max_size=10),
        lane=st.sampled_from([3, 3, 2]),
    )
    def work(self, data: st.DataObject, whats: list[str], lane: int) -> None:
        """What there is most of in the life of a kernel, undisturbed: else little gets as far as to rejoin."""
        for what in whats:
            worker = data.draw(st.sampled_from(WORKERS))
            match what:
                case "post":
                    self.post(data, lane, 0, True, False, True, 3)
                case "take":
                    self.take(worker, data.draw(st.integers(1, 3)))
                case "end":
                    self.end(data, False, 1)
                case "rejoin":
                    self.rejoin(data, data.draw(st.booleans()))
                case _:
                    self.hand_over(data, worker, what)
            self.all_holds()

    @rule(worker=st.sampled_from(WORKERS))
    def dismiss(self, worker: str) -> None:
        self.real.dismiss(worker)
        assert (worker in self.real.workers) >= bool(self.model.held_by(worker))

    @rule(data=st.data(), waits=st.booleans(), is_patient=st.booleans())
    def rejoin(self, data: st.DataObject, waits: bool, is_patient: bool = False) -> None:
        owner, job_owner = data.draw(self._owners())
        found, element = self.real.rejoin(owner)
        expected, job = self.model.rejoin(job_owner)
        assert (found.value, None if element is None else element.id) == (expected, None if job is None else job.number)
        if found is Rejoin.NONE_READY and waits:
            executing = [each for each, job in self.pairs if job.state == EXECUTING]
            waiter = Somebody(data.draw(st.sampled_from([None, *executing])))
            self.real.await_rejoin(owner, waiter, is_patient=is_patient)
            self.model.await_rejoin(job_owner, waiter, is_patient=is_patient)

    @precondition(lambda self: self.model.patient)
    @rule(data=st.data())
    def lose_patience(self, data: st.DataObject) -> None:
        """Who waits; or who was told just before."""
        waiter = data.draw(st.sampled_from(self.model.patient))
        for owner, _ in self._all_owners():
            self.real.lose_patience(owner, waiter)
        self.model.lose_patience(waiter)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        owner, job_owner = data.draw(self._owners())
        waiters = [waiter for _, waiter in self.model.waiters] or [Somebody(None)]
        waiter = data.draw(st.sampled_from(waiters))
        assert self.real.forget(owner, waiter) == self.model.forget(job_owner, waiter)

    @precondition(lambda self: any(job.state in (JOINED, FAILED) for _, job in self.pairs))
    @rule(data=st.data())
    def unjoin(self, data: st.DataObject) -> None:
        element, job = data.draw(st.sampled_from(self._having(JOINED, FAILED)))
        self.real.unjoin(element)
        self.model.unjoin(job)

    @rule(data=st.data())
    def disown(self, data: st.DataObject) -> None:
        owner, job_owner = data.draw(self._owners())
        self.real.disown(owner, self.now_ns)
        self.model.disown(job_owner)

    @rule(everybody=st.booleans())
    def end_waiting(self, everybody: bool) -> None:
        ended = Counter(id(each) for each in self.real.end_waiting(everybody=everybody))
        assert ended == Counter(id(each) for each in self.model.end_waiting(everybody=everybody))

    @rule(intervals=st.integers(1, 3))
    def grow_older(self, intervals: int) -> None:
        for _ in range(intervals):
            self.real.grow_older()
            self.model.grow_older()

    @rule(policy=POLICIES)
    def change(self, policy: KernelPolicy) -> None:
        self.real.change(policy)
        self.model.change(limits_of(policy))

    @rule(passed_ns=st.integers(1, 100))
    def time_passes(self, passed_ns: int) -> None:
        self.now_ns += passed_ns

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def all_holds(self) -> None:
        self.the_same_is_told()
        self.each_request_is_where_the_model_has_it()
        self.all_counts_are_those_of_the_model()
        self.nothing_is_lost_and_nothing_comes_twice()
        self.an_owner_is_known_exactly_while_something_of_it_exists()
        self.nobody_waits_for_what_there_is()
        self.the_next_is_the_most_urgent_that_may_execute()

    def the_same_is_told(self) -> None:
        """Who may go on: posters in their order; and of each owner, those who wait in theirs."""
        assert [element.id for element in self.real.admitted] == [job.number for job in self.model.admitted]
        told = {id(waiter): None if element is None else element.id for waiter, element in self.real.handed}
        assert len(told) == len(self.real.handed), "told twice"
        assert told == {id(waiter): None if job is None else job.number for waiter, job in self.model.handed}
        for each in (self.real.admitted, self.real.handed, self.model.admitted, self.model.handed):
            each.clear()

    def each_request_is_where_the_model_has_it(self) -> None:
        for element, job in self.pairs:
            state = FAILED if job.state == GONE else job.state
            assert (element.state.value, element.is_failed) == (state, job.is_failed)
            if job.state in (READY, EXECUTING):
                assert (element.worker, element.account.wants(element)) == (job.worker, job.rejoins)
        assert [
            (element.id, self.real.ready.aged_priority(element))
            for element in sorted(
                self.real.ready, key=lambda each: (self.real.ready.aged_priority(each), each.sequence)
            )
        ] == [(job.number, of_the_source(job.urgency)) for job in self.model.pool()]
        assert self.real.ready.count == len(self.model.pool())

    def all_counts_are_those_of_the_model(self) -> None:
        figures = figures_of(self.real, self.now_ns)
        model = self.model
        assert list(figures.ready) == model.entries()
        assert list(figures.executing_lanes) == model.executing()
        assert figures.executing == sum(model.executing())
        assert list(figures.rejoinable) == model.rejoinable()
        assert figures.posting == len(model.having(POSTED))
        assert figures.joined_total == len(model.having(JOINED, FAILED))
        assert figures.run_ns_total == model.run_ns
        assert figures.wait_ns_total == sum(job.waited_ns for job in model.jobs)
        assert figures.begun_total == sum(job.begun_count for job in model.jobs)
        assert figures.refused_total == 0, "counted by the ledger"
        held = {name: count for name, (_, _, count) in figures.by_worker.items() if count}
        assert held == {name: len(model.held_by(name)) for name in WORKERS if model.held_by(name)}

    def nothing_is_lost_and_nothing_comes_twice(self) -> None:
        figures = figures_of(self.real, self.now_ns)
        exist = figures.posting + sum(figures.ready) + figures.executing
        assert figures.posted_total == len(self.pairs)
        assert figures.posted_total == exist + figures.ended_total + figures.withdrawn_total
        done = sum(element.state is State.DONE for element, _ in self.pairs)
        assert figures.ended_total == done + sum(figures.rejoinable) + figures.joined_total

    def an_owner_is_known_exactly_while_something_of_it_exists(self) -> None:
        owners = {id(job.owner) for _, job in self.pairs if self.model.of(job.owner)}
        assert len(self.real.owners) == len(owners)

    def nobody_waits_for_what_there_is(self) -> None:
        for lane in range(4):
            assert self.real.has_room(lane) == self.model.has_room(lane)
        assert not [job for job in self.model.having(POSTED) if self.real.has_room(job.lane)]
        for owner, waiter in self.model.waiters:
            if waiter in self.model.patient:
                continue
            states = {job.state for job in self.model.of(owner)}
            assert states
            assert "rejoinable" not in states

    def the_next_is_the_most_urgent_that_may_execute(self) -> None:
        best, expected = self.real.best(), self.model.best()
        assert (best and best.id) == (expected and expected.number)
        assert self.real.has_takeable == (expected is not None)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _having(self, *states: str) -> list[Any]:
        pairs = [pair for state in states for pair in self.pairs if pair[1].state == state]
        return pairs or self.pairs or [(Element(0, 0, "R", "a", 0, 3), Job(0, "a", 3, 0, True, False, None, DONE))]

    def _owners(self) -> st.SearchStrategy[Any]:
        return st.sampled_from(self._all_owners())

    def _all_owners(self) -> list[Any]:
        own = [pair for pair in self.pairs if any(job.owner is pair[1] for _, job in self.pairs)]
        return [("a", "a"), ("b", "b"), *own]


def limits_of(policy: KernelPolicy) -> Limits:
    percents = policy.lanes if policy.mode == "lanes" else ()
    return Limits(policy.workers, policy.ready, policy.rejoin, policy.boost, percents)


DONE = "done"
TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=examples(25),
    stateful_step_count=60,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
