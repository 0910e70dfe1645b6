"""Disowning: what nobody will ask for is not kept for him, however his end and theirs fall together."""

from __future__ import annotations

from appbackplane.runtime.requests import Element, Failure, KernelPolicy, Rejoin, State
from appbackplane.runtime.requests.ledger.figures import figures_of
from appbackplane.runtime.requests.ledger.ledger import Ledger
from appbackplane.runtime.requests.ledger.owners import ScopedOwner
from tests.steps import steps_of


class Case:
    """A ledger with a request that executes, and owns others."""

    def __init__(self, workers: int = 4) -> None:
        self.ledger = Ledger(KernelPolicy(workers=workers))
        self.ids = 0
        self.parent = self.post("x")
        (taken,) = self.ledger.take("worker-1", 1, 0)
        assert taken is self.parent

    def post(self, owner: object, parent: Element | None = None) -> Element:
        self.ids += 1
        element = Element(self.ids, None, "Work", owner, 0, 3, parent=parent)
        assert self.ledger.post(element, 0)
        return element

    def execute(self, worker: str = "worker-2") -> Element:
        """The next one, to its end."""
        (element,) = self.ledger.take(worker, 1, 0)
        assert self.ledger.end(worker, element, None, None, 0, 0)
        return element

    def part(self) -> ScopedOwner:
        part = ScopedOwner(self.parent, 0)
        self.parent.parts[0], self.parent.parts_count = part, 1
        return part

    def end_parent(self, failure: Failure | None = None) -> None:
        assert self.ledger.end("worker-1", self.parent, None, failure, 0, 0)

    def assert_empty(self) -> None:
        """But for the parent, which waits for its own owner."""
        now = figures_of(self.ledger, 0)
        assert (now.owners, sum(now.ready), now.executing, sum(now.rejoinable)) == (1, 0, 0, 1)
        assert now.posted_total == now.ended_total + now.withdrawn_total
        assert now.ended_total == now.joined_total + now.unclaimed_total + 1


def test_one_that_was_handed_to_who_is_cancelled_goes_back_to_nobody_when_its_owner_has_ended_meanwhile() -> None:
    """It would wait in the rejoin pool for ever."""
    for owner in ("its own", "a part"):
        case = Case()
        child = case.post(case.parent if owner == "its own" else case.part(), case.parent)
        assert case.execute() is child
        assert case.ledger.rejoin(child.owner) == (Rejoin.RETURNED, child)
        case.end_parent(Failure("lost worker: it died"))
        case.ledger.unjoin(child)
        assert child.state is State.DONE
        case.assert_empty()


def test_one_that_was_handed_to_who_is_cancelled_can_be_had_again_while_its_owner_lives() -> None:
    """Somebody else of it may ask."""
    case = Case()
    child = case.post(case.parent, case.parent)
    assert case.execute() is child
    assert case.ledger.rejoin(case.parent) == (Rejoin.RETURNED, child)
    case.ledger.unjoin(child)
    assert case.ledger.rejoin(case.parent) == (Rejoin.RETURNED, child)
    assert case.ledger.rejoin(case.parent) == (Rejoin.NONE_EXIST, None)


def test_with_a_request_end_the_iterations_that_it_has_left() -> None:
    """Whether it failed or not: those that have begun end for nobody, those that have not never begin."""
    for failure in (None, Failure("ValueError: no")):
        case = Case()
        part = case.part()
        children = [case.post(part, case.parent) for _ in range(3)]
        assert case.execute() is children[0]
        (executing,) = case.ledger.take("worker-2", 1, 0)
        case.end_parent(failure)
        assert [each.state.value for each in children] == ["done", "executing", "failed"]
        assert children[2].error is not None
        assert children[2].error.startswith("withdrawn: nobody rejoins the requests of part 0 of ")
        assert case.ledger.end("worker-2", executing, None, None, 0, 0)
        assert executing.state is State.DONE
        case.assert_empty()


def test_an_iteration_from_outside_can_be_left_too() -> None:
    """And who still waits there is told that nothing exists."""
    case = Case()
    part = ScopedOwner(None, 0)
    case.post(part)
    (executing,) = case.ledger.take("worker-2", 1, 0)
    ready = case.post(part)
    waiter = object()
    case.ledger.await_rejoin(part, waiter)
    case.ledger.disown(part, 0)
    assert (ready.state, case.ledger.handed) == (State.FAILED, [])
    assert case.ledger.end("worker-2", executing, None, None, 0, 0)
    assert case.ledger.handed == [(waiter, None)]
    case.end_parent()
    case.assert_empty()


def test_a_failure_that_its_owner_has_not_asked_for_is_told_to_somebody() -> None:
    """Whoever returns, or breaks off, has not seen it: only the log will say it."""
    for failure in (None, Failure("ValueError: no")):
        case = Case()
        child = case.post(case.parent, case.parent)
        (taken,) = case.ledger.take("worker-2", 1, 0)
        assert case.ledger.end("worker-2", taken, None, Failure("KeyError: 'a'"), 0, 0)
        case.end_parent(failure)
        assert (case.ledger.unheard_count, case.ledger.unheard) == (1, f"{child!r}: KeyError: 'a'")


def test_what_is_posted_for_an_owner_after_he_has_disowned_all_rejoins() -> None:
    """Some that he has disowned may be executing then; those end for nobody."""
    case = Case()
    before = case.post("anna")
    assert case.ledger.take("worker-2", 1, 0) == [before]
    case.ledger.disown("anna", 0)
    after = case.post("anna")
    assert case.ledger.end("worker-2", before, None, None, 0, 0)
    assert case.ledger.rejoin("anna") == (Rejoin.NONE_READY, None)
    assert case.execute() is after
    assert case.ledger.rejoin("anna") == (Rejoin.RETURNED, after)
    assert case.ledger.rejoin("anna") == (Rejoin.NONE_EXIST, None)
    case.end_parent()
    case.assert_empty()


def test_how_many_are_ready_does_not_matter_to_the_end_of_one_with_children() -> None:
    """It is under the mutex: with 100,000 ready each such end took 11 ms, a hundred times what executing it took."""

    def steps_with(ready_count: int, failure: Failure | None) -> int:
        case = Case()
        case.ledger.change(KernelPolicy(workers=4, ready=1_000))
        child = case.post(case.parent, case.parent)
        assert case.ledger.take("worker-2", 1, 0) == [child]
        for _ in range(ready_count):
            case.post("others")
        steps = steps_of(lambda: case.end_parent(failure))
        assert sum(element.owner == "others" for element in case.ledger.ready) == ready_count
        return steps

    for failure in (None, Failure("ValueError: no")):
        assert steps_with(1_000, failure) == steps_with(10, failure)
