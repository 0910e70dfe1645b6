"""What no chaos excuses is a problem: an end that should not be, an answer to another question, no end at all."""

import random
from itertools import islice

import pytest
from chaos_run.clients import Hearing, report
from chaos_run.components import PARTS
from chaos_run.tally import LATE_S_MAX, PATIENCE_S, Question, Tally, questions

from appbackplane.transport import (
    BackplaneError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    Message,
    NotFound,
    PeerDown,
    Unavailable,
)

PATIENT = Question("north.echo", 7, {})
HASTY = Question("north.hold", 7, {}, timeout=0.1)
TAKEN_BACK = Question("north.hold", 7, {}, is_taken_back=True)


def problems(question: Question, answer: object, error: BackplaneError | None, took_s: float = 0.1) -> list[str]:
    """Of one call that has ended."""
    tally = Tally()
    tally.begin()
    tally.end(question, answer, error, took_s)
    return tally.problems


@pytest.mark.parametrize("error", [PeerDown("dead"), Unavailable("down"), Busy("full")])
def test_what_chaos_excuses(error: BackplaneError) -> None:
    """The process died, or was not there, or had too much to do: each of them is an end."""
    assert problems(PATIENT, None, error) == []


def test_a_deadline_excuses_itself_only_where_it_is_short() -> None:
    """A call that had twenty seconds and ended by its deadline was lost by somebody."""
    assert problems(HASTY, None, DeadlineExceeded("late")) == []
    assert problems(PATIENT, None, DeadlineExceeded("late")) != []


def test_only_who_takes_it_back_may_hear_that_it_was() -> None:
    """Nobody else's call may be cancelled."""
    assert problems(TAKEN_BACK, None, Cancelled("by us")) == []
    assert problems(PATIENT, None, Cancelled("by whom?")) != []


@pytest.mark.parametrize("error", [InternalError("a bug"), NotFound("no such route")])
def test_what_nothing_excuses(error: BackplaneError) -> None:
    """An operation that raises, a route that is gone: dying processes bring about neither."""
    assert "north.echo number 7" in problems(PATIENT, None, error)[0]


def test_an_answer_to_another_question_is_noticed() -> None:
    """And so is one that comes long after the deadline."""
    assert problems(PATIENT, 7, None) == []
    assert problems(PATIENT, 8, None) != []
    assert problems(HASTY, 7, None, HASTY.timeout + LATE_S_MAX + 1) != []


def test_a_call_without_an_end_is_named_by_its_route() -> None:
    """Which of ten thousand it was is all that there is to go by."""
    tally = Tally()
    tally.begin()
    found = report([tally], Hearing(tally), {0: (0.0, PATIENT)}, late=0)["problems"]
    assert any("north.echo number 7: no end" in problem for problem in found)
    assert any("1 calls were made, 0 have ended" in problem for problem in found)


def test_an_answer_that_comes_twice_is_noticed() -> None:
    """One that comes late may have had no end yet; one more than those has come for a call that had its answer."""
    tally = Tally()
    tally.begin()
    tally.end(PATIENT, None, PeerDown("dead"), 0.1)
    assert report([tally], Hearing(tally), {}, late=1)["problems"] == []
    assert report([tally], Hearing(tally), {}, late=2)["problems"] != []


def test_messages_of_one_process_that_are_out_of_order_are_noticed() -> None:
    """A number that comes again, or after a later one."""
    tally = Tally()
    hearing = Hearing(tally)
    for pid, number in ((1, 1), (2, 1), (1, 2), (1, 5)):
        hearing.take(Message("chaos.beat", {"origin": "north", "pid": pid, "number": number}, 0))
    assert tally.problems == []
    hearing.take(Message("chaos.beat", {"origin": "north", "pid": 1, "number": 5}, 0))
    assert len(tally.problems) == 1


def test_a_topic_that_falls_silent_is_noticed() -> None:
    """A subscription that was not made again at the next generation."""
    tally = Tally()
    hearing = Hearing(tally)
    for pid, part in enumerate(PARTS[1:]):
        hearing.take(Message("chaos.beat", {"origin": part, "pid": pid, "number": 1}, 0))
    assert hearing.unheard == [PARTS[0]]
    hearing.conclude(unconfirmed=())
    assert tally.problems == [f"chaos.beat: nothing is heard of {PARTS[0]} any more (the subscription was confirmed)"]


def test_what_is_asked_is_of_every_kind_and_never_in_a_ring() -> None:
    """Objects that wait for each other in a ring would wait until the deadline, and it would be our own doing."""
    asked = list(islice(questions("somebody", random.Random(1)), 2_000))
    assert {one.route.rpartition(".")[2] for one in asked} == {
        "echo",
        "note",
        "relay",
        "ask_twice",
        "grind",
        "block",
        "hold",
        "weigh",
    }
    assert [one.number for one in asked] == sorted({one.number for one in asked})
    assert any(one.timeout < PATIENCE_S for one in asked) and any(one.is_taken_back for one in asked)
    for one in asked:
        path = [
            one.route.partition(".")[0],
            *one.arguments.get("path", []),
            *filter(None, [one.arguments.get("other")]),
        ]
        assert path == sorted(set(path), key=PARTS.index)
