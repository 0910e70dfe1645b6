"""The ledger, case by case: what its model (test_ledger_model.py) comes upon seldom, and what went wrong once."""

from __future__ import annotations

from typing import Any

from appbackplane.runtime.requests import KernelPolicy, Rejoin
from appbackplane.runtime.requests.ledger.element import REQUEST_PRIORITY, Element
from appbackplane.runtime.requests.ledger.ledger import ENOUGH, Ledger


def posted(ledger: Ledger, count: int, priority: int = REQUEST_PRIORITY, **what: Any) -> list[Element]:
    """So many requests of owner "a"; those for which there is no room wait."""
    elements = [Element(number, None, "R", "a", priority, 3, **what) for number in range(1, count + 1)]
    for element in elements:
        if not ledger.post(element, 0):
            ledger.wait(element, 0)
    return elements


def test_what_is_given_back_out_of_turn_keeps_its_entry() -> None:
    """One that travelled behind another still counts as ready; else the pool would take one more for each."""
    ledger = Ledger(KernelPolicy())
    posted(ledger, 3)
    first, second, third = ledger.take("w", 3, 0)
    ledger.give_back("w", [third], 0)
    assert (ledger.entries.total, ledger.executing.total) == (2, 1)
    ledger.give_back("w", [first, second], 0)
    assert (ledger.entries.total, ledger.executing.total) == (3, 0)
    assert ledger.take("w", 3, 0) == [first, second, third], "where they were"


def test_a_boost_that_changes_while_a_request_is_taken_holds_for_it() -> None:
    """What it has gained stays gained, wherever it was at the time."""
    ledger = Ledger(KernelPolicy(boost=5))
    (element,) = posted(ledger, 1, is_boosted=True)
    ledger.grow_older()
    ledger.take("w", 1, 0)
    ledger.change(KernelPolicy(boost=50))
    ledger.give_back("w", [element], 0)
    assert ledger.ready.aged_priority(element) == REQUEST_PRIORITY - 6
    ledger.grow_older()
    assert ledger.ready.aged_priority(element) == REQUEST_PRIORITY - 57


def test_whoever_rejoins_lets_a_poster_in() -> None:
    ledger = Ledger(KernelPolicy(rejoin=1))
    posted(ledger, 1)
    (element,) = ledger.take("w", 1, 0)
    ledger.end("w", element, None, None, 0, 0)
    (waiting,) = posted(ledger, 1)
    assert ledger.posters.count == 1
    assert ledger.rejoin("a") == (Rejoin.RETURNED, element)
    assert ledger.admitted == [waiting]


def test_who_comes_later_does_not_pass_a_poster_that_is_as_urgent() -> None:
    """With room for one, and two that want it."""
    ledger = Ledger(KernelPolicy(ready=1, workers=1))
    first, waiting = posted(ledger, 2)
    ledger.posters.remove(waiting)  # room comes, and who waits has not been let in yet
    ledger.posters.add(waiting)
    ledger.entries.remove(first.lane)
    assert not ledger.post(Element(3, None, "R", "a", waiting.priority, 3), 0)
    assert ledger.post(Element(4, None, "R", "a", waiting.priority - 1, 3), 0)


def test_what_has_ended_in_a_lane_above_holds_up_nobody_below() -> None:
    """Its owner may be the one that waits for what is posted below: both would wait for ever."""
    ledger = Ledger(KernelPolicy(mode="lanes", rejoin=1))
    above, below = Element(1, None, "R", "a", 0, 1), Element(2, None, "R", "b", 0, 2)
    assert ledger.post(above, 0)
    assert ledger.take("w", 1, 0) == [above]
    ledger.end("w", above, None, None, 0, 0)
    assert not ledger.has_room(1)
    assert ledger.post(below, 0)


def test_what_was_lost_rejoins_as_failed() -> None:
    """Whoever posted it would wait for ever for what died with its worker."""
    ledger = Ledger(KernelPolicy())
    (element,) = posted(ledger, 1)
    ledger.take("w", 1, 0)
    ledger.lose("w", [element], "w died", 0)
    found, lost = ledger.rejoin("a")
    assert (found, lost) == (Rejoin.RETURNED, element)
    assert "w died" in str(element.error)


def test_a_worker_takes_what_is_expected_to_fit_into_its_time() -> None:
    """What travels behind something long waits there, while other workers have nothing to do."""
    ledger = Ledger(KernelPolicy())
    posted(ledger, 5)
    assert len(ledger.take("known", 5, 0, {"R": 10}, 25, 1_000)) == 3
    assert len(ledger.take("unknown", 5, 0, {}, 25, 1_000)) == 1


def test_who_waited_first_is_handed_the_first() -> None:
    ledger = Ledger(KernelPolicy())
    elements = posted(ledger, 2)
    for waiter in ("one", "two", "three"):
        ledger.await_rejoin("a", waiter)
    for element in ledger.take("w", 2, 0):
        ledger.end("w", element, None, None, 0, 0)
    assert ledger.handed == [("one", elements[0]), ("two", elements[1]), ("three", None)]


def test_who_waits_for_an_entry_is_not_passed_for_ever() -> None:
    """With ageing on, a less urgent one is let in before a more urgent one that came much later."""
    ledger = Ledger(KernelPolicy(ready=1, workers=1))
    posted(ledger, 1)
    old = Element(10, None, "R", "a", 5, 3)
    ledger.wait(old, 0)
    for _ in range(6):
        ledger.grow_older()
    ledger.wait(Element(11, None, "R", "a", 0, 3), 0)
    ledger.take("w", 1, 0)
    assert ledger.admitted == [old]


def test_who_is_patient_is_told_once_there_are_enough() -> None:
    """Of the first, which he is given as if he had been told at once; and the others are there."""
    ledger = Ledger(KernelPolicy(ready=ENOUGH + 1))
    elements = posted(ledger, ENOUGH + 1)
    ledger.await_rejoin("a", "patient", is_patient=True)
    taken = ledger.take("w", ENOUGH + 1, 0)
    for element in taken[: ENOUGH - 1]:
        ledger.end("w", element, None, None, 0, 0)
    assert not ledger.handed
    ledger.end("w", taken[ENOUGH - 1], None, None, 0, 0)
    assert ledger.handed == [("patient", elements[0])]
    assert [ledger.rejoin("a") for _ in range(ENOUGH)][-1] == (Rejoin.NONE_READY, None)


def test_who_is_patient_is_told_when_no_more_will_come() -> None:
    ledger = Ledger(KernelPolicy())
    elements = posted(ledger, 2)
    ledger.await_rejoin("a", "patient", is_patient=True)
    for element in ledger.take("w", 2, 0):
        assert not ledger.handed
        ledger.end("w", element, None, None, 0, 0)
    assert ledger.handed == [("patient", elements[0])]


def test_nobody_is_held_up_by_who_is_patient() -> None:
    """What he does not fetch fills the rejoin pool."""
    ledger = Ledger(KernelPolicy(ready=1, rejoin=1))
    posted(ledger, 1)
    [first] = ledger.take("w", 1, 0)
    posted(ledger, 2)  # the second of them waits
    ledger.await_rejoin("a", "patient", is_patient=True)
    ledger.end("w", first, None, None, 0, 0)
    assert ledger.handed == [("patient", first)]


def test_who_loses_patience_is_told_of_what_there_is() -> None:
    """Or, if there is nothing, of the next."""
    ledger = Ledger(KernelPolicy())
    elements = posted(ledger, 3)
    ledger.await_rejoin("a", "patient", is_patient=True)
    first, second, _ = ledger.take("w", 3, 0)
    ledger.end("w", first, None, None, 0, 0)
    ledger.lose_patience("a", "patient")
    assert ledger.handed == [("patient", elements[0])]
    ledger.handed.clear()
    ledger.await_rejoin("a", "patient", is_patient=True)
    ledger.lose_patience("a", "patient")
    assert not ledger.handed
    ledger.end("w", second, None, None, 0, 0)
    assert ledger.handed == [("patient", elements[1])]


def test_what_is_less_urgent_and_has_not_begun_is_overtaken() -> None:
    """Of the worker that has what can wait longest; but what executes is interrupted by nothing."""
    ledger = Ledger(KernelPolicy(workers=2))
    posted(ledger, 1, priority=1)
    ledger.take("one", 1, 0)
    posted(ledger, 2, priority=8)
    ledger.take("two", 2, 0)
    [equal] = posted(ledger, 1, priority=8)
    assert ledger.overtaken(equal) == ""
    [urgent] = posted(ledger, 1, priority=7)
    assert ledger.overtaken(urgent) == "two"
    assert ledger.overtaken(equal) == "", "it is not the next"


def test_who_is_patient_keeps_nobody_behind_him_waiting() -> None:
    """With two of them, each request that ends is somebody's at once."""
    ledger = Ledger(KernelPolicy())
    elements = posted(ledger, 3)
    ledger.await_rejoin("a", "patient", is_patient=True)
    ledger.await_rejoin("a", "another")
    for element in ledger.take("w", 3, 0)[:2]:
        ledger.end("w", element, None, None, 0, 0)
    assert ledger.handed == [("patient", elements[0]), ("another", elements[1])]
