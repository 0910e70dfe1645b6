"""The ledger: who waits is told exactly once, whatever else happens at the moment; idle workers hear of all that is ready."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime.requests import KernelPolicy, Rejoin
from appbackplane.runtime.requests.contexts.waiting import AnswerWaiter
from appbackplane.runtime.requests.ledger.element import Done, Element, State
from appbackplane.runtime.requests.ledger.synchronized_ledger import SynchronizedLedger
from appbackplane.transport.errors import Busy, FailedPrecondition


class Noted(AnswerWaiter):
    """A waiter that is never in time: its limit has passed when it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.gone_on_count = 0

    def go_on(self) -> None:
        self.gone_on_count += 1


class Workers:
    """An executor that only remembers who was called."""

    def __init__(self) -> None:
        self.kicked: list[str] = []

    def kick(self, worker: str) -> None:
        self.kicked.append(worker)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def ledger(**settings: Any) -> SynchronizedLedger:
    made = SynchronizedLedger("ledger", KernelPolicy(**settings), {}, lambda: 0)
    made.executor = Workers()  # type: ignore[assignment]
    return made


def request(owner: Any = "a", **what: Any) -> Element:
    return Element(0, 0, "R", owner, 0, what.pop("lane", 3), **what)


def done(element: Element) -> list[Done]:
    return [Done(element, None, None, 0)]


def test_a_limit_that_passes_while_a_request_is_handed_over_does_not_lose_it() -> None:
    """Whose time is over as he is given something has it: else he would say NONE_EXIST of what exists, and it were gone."""
    at = ledger()
    at.post(request(), None)
    (taken,) = at.take("w", 1)
    waiter = Noted()
    assert at.rejoin("a", waiter, None) == (Rejoin.NONE_READY, None)
    with at._mutex:  # between the end of the request and the telling
        at._ledger.end("w", taken, "result", None, 0, 0)
    assert not at.forget("a", waiter)
    assert (waiter.element, waiter.error) == (taken, None)
    assert waiter.gone_on_count == 1
    at.ended("w", done(taken))
    assert waiter.gone_on_count == 1


def test_a_limit_that_passes_while_waiting_ends_otherwise_is_told_why() -> None:
    """A poster is not told that all is well when his request was never posted."""
    at = ledger(ready=1)
    at.post(request(), None)
    poster, waiting = Noted(), request()
    assert not at.post(waiting, poster)
    at.end_waiting("stalled", everybody=True)
    assert not at.withdraw(waiting), "it was withdrawn already: twice would take another's place"
    assert isinstance(poster.error, FailedPrecondition)
    assert at.figures().posting == 0


def test_who_waits_for_what_was_never_posted_is_told() -> None:
    """When a poster is told that he waits in vain, his request exists no more, and whoever waits for it learns that, too."""
    at = ledger(ready=1)
    at.post(request("full"), None)
    poster, rejoiner = Noted(), Noted()
    parent = at.take("w", 1)[0]
    at.post(request("full"), None)
    at.post(request("b", parent=parent), poster)
    assert at.rejoin("b", rejoiner, None)[0] is Rejoin.NONE_READY
    at.end_waiting("stalled", everybody=False)
    assert (poster.gone_on_count, rejoiner.gone_on_count) == (1, 1)
    assert (rejoiner.element, rejoiner.error) == (None, None), "nothing of that owner exists"


def test_each_of_those_who_wait_in_vain_has_an_error_of_his_own() -> None:
    """One error raised in several threads would collect the tracebacks of all."""
    at = ledger()
    at.post(request(), None)
    waiters = [Noted(), Noted()]
    for waiter in waiters:
        at.rejoin("a", waiter, None)
    at.end_waiting("stalled", everybody=True)
    assert len({id(waiter.error) for waiter in waiters}) == 2


def test_an_idle_worker_hears_of_what_a_rejoiner_made_room_for() -> None:
    """A poster who waits for a full rejoin pool is let in by whoever rejoins: nobody else would call the worker."""
    at = ledger(rejoin=1, workers=1)
    at.register("w")
    at.post(request(), None)
    at.ended("w", done(at.take("w", 1)[0]))
    assert at.take("w", 1) == []
    poster = Noted()
    assert not at.post(request(), poster)
    assert at.rejoin("a", None, None)[0] is Rejoin.RETURNED
    assert poster.is_told
    assert at.executor.kicked == ["w"]  # type: ignore[union-attr]


def full(**settings: Any) -> tuple[SynchronizedLedger, Element, Noted]:
    """A full rejoin pool, one who waits to post, and a worker that has nothing to do."""
    at = ledger(rejoin=1, workers=1, **settings)
    at.register("w")
    at.post(request(), None)
    at.ended("w", done(at.take("w", 1)[0]))
    assert at.take("w", 1) == []
    waiting, poster = request("b"), Noted()
    assert not at.post(waiting, poster)
    return at, waiting, poster


def test_an_idle_worker_hears_of_what_was_given_up_made_room_for() -> None:
    """An iteration that was broken off has filled the pool: who is let in when it is disowned is executed, too."""
    at, waiting, poster = full()
    at.given_up.append("a")
    at.figures()
    assert poster.is_told
    assert waiting.state is State.READY
    assert at.executor.kicked == ["w"]  # type: ignore[union-attr]


def test_an_idle_worker_hears_of_it_whoever_tells_the_poster() -> None:
    """Between letting a poster in and telling him another thread may come, with something of its own to tell."""
    at, _, poster = full()
    with at._mutex:  # as in `rejoin`
        at._ledger.rejoin("a")
    at._resume_answered()  # somebody else's
    assert poster.is_told
    assert at.executor.kicked == ["w"]  # type: ignore[union-attr]


def test_once_it_has_ended_nobody_waits_any_more() -> None:
    """Who comes after everybody has been told would wait for ever."""
    at = ledger()
    at.post(request(), None)
    (parent,) = at.take("w", 1)
    at.post(request("b"), None)
    at.close(is_closed=True)
    at.end("it goes down")
    with pytest.raises(FailedPrecondition, match="it goes down"):
        at.rejoin("a", Noted(), parent)
    with pytest.raises(FailedPrecondition, match="it goes down"):
        at.post(request(parent=parent), Noted())
    assert at.rejoin("nobody", Noted(), None) == (Rejoin.NONE_EXIST, None)


def test_what_is_refused_is_counted_and_leaves_nothing() -> None:
    at = ledger(ready=1)
    at.post(request(), None)
    with pytest.raises(Busy, match="ready pool is full: 1 of 1"):
        at.post(request(), None)
    figures = at.figures()
    assert (figures.refused_total, figures.posted_total, figures.owners) == (1, 1, 1)


def test_a_request_that_has_ended_posts_nothing() -> None:
    """Its sub-requests would have nobody to rejoin them."""
    at = ledger()
    at.post(request(), None)
    (parent,) = at.take("w", 1)
    at.lost("w", [parent], "killed")
    assert parent.state is State.REJOINABLE
    with pytest.raises(FailedPrecondition, match="has ended"):
        at.post(request(parent=parent), None)


def test_held_requests_are_taken_once_they_are_released() -> None:
    at = ledger(workers=2)
    for worker in ("v", "w"):
        at.register(worker)
        assert at.take(worker, 1) == []
    at.hold(is_held=True)
    at.post(request(), None)
    at.post(request(), None)
    assert at.executor.kicked == []  # type: ignore[union-attr]
    at.hold(is_held=False)
    assert at.executor.kicked == ["v"]  # type: ignore[union-attr]
    assert len(at.take("v", 1)) == 1
    assert at.executor.kicked == ["v", "w"], "who is told tells the next"  # type: ignore[union-attr]


def test_a_worker_that_is_dismissed_is_not_called() -> None:
    at = ledger()
    at.register("w")
    assert not at.register("w")
    at.take("w", 1)
    at.dismiss("w")
    at.post(request(), None)
    assert at.executor.kicked == []  # type: ignore[union-attr]
    assert at.register("w")
