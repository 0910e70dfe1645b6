"""Waiting: each fact becomes the reason it is, the nearest cause first, and nothing else is said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from appbackplane.runtime.observation.waiting import (
    RUNNING_SHOWN,
    ActionFacts,
    Awaited,
    Because,
    QueuePlace,
    Running,
    Throttled,
    Where,
    explain,
)

SECOND_NS = 1_000_000_000
RUN = Running("index.build", "bp/index.a", 5, 2, 1_500_000_000)
FREE = QueuePlace(priority=3, ahead_count=0, higher_count=0, quota_left=1, quota=25)
READY = ActionFacts("bp/index.b", "index.find", Where.QUEUED, standing=FREE, workers_count=2)
REPLY = Awaited("index.find", 2 * SECOND_NS, "disk.read", "other", "other:bp-1:7")
PAUSE = Awaited("index.find", 250_000_000)


def because(facts: ActionFacts) -> list[Because]:
    """The kinds, in order."""
    return [reason.because for reason in explain(facts)]


@pytest.mark.parametrize(
    ("facts", "kinds", "words"),
    [
        (ActionFacts("bp:c:1", is_known=False), [Because.NOT_HERE], "no call bp:c:1 here"),
        (ActionFacts("bp/index"), [Because.IDLE], "bp/index has nothing to do"),
        (replace(READY, where=Where.RUNNING, running=RUN), [Because.RUNNING], "it runs on worker 2 for 1.5 s"),
        (
            replace(READY, where=Where.RUNNING, running=replace(RUN, worker=-1)),
            [Because.RUNNING], "it runs on a relief worker",
        ),
        (
            replace(READY, where=Where.SUSPENDED, awaited=(REPLY,)), [Because.AWAITS],
            "it awaits disk.read from backplane other (call other:bp-1:7, for at most 2.0 s more)",
        ),
        (replace(READY, where=Where.SUSPENDED, awaited=(PAUSE,)), [Because.PAUSES], "it pauses for another 250.0 ms"),
        (
            replace(READY, where=Where.SUSPENDED, awaited=(replace(PAUSE, what="requests of bp/index"),)),
            [Because.PAUSES], "it waits for requests of bp/index",
        ),
        (
            replace(READY, where=Where.RUNNING, running=replace(RUN, what="requests of bp/index")),
            [Because.RUNNING], "it runs on worker 2 for 1.5 s, and waits there for requests of bp/index",
        ),
        (
            replace(READY, where=Where.SUSPENDED, awaited=(replace(REPLY, is_stalled=True),)),
            [Because.NOT_READ, Because.AWAITS], "backplane other does not read",
        ),
        (
            replace(READY, where=Where.DEFERRED, machine_state="SHUT", accepted_in=("OPEN", "AJAR")),
            [Because.DEFERRED], "bp/index.b defers it in state SHUT (accepted in: OPEN, AJAR)",
        ),
        (READY, [Because.NEXT], "it is the next to run"),
        (replace(READY, ahead_count=1), [Because.BEHIND, Because.NEXT], "1 action of bp/index.b before it"),
        (
            replace(READY, ahead_count=2, ahead=("index.load", "index.stats")), [Because.BEHIND, Because.NEXT],
            "2 actions of bp/index.b before it (index.load, index.stats): an object's",
        ),
        (
            replace(READY, ahead_count=9, ahead=("index.load", "index.load")), [Because.BEHIND, Because.NEXT],
            "9 actions of bp/index.b before it (index.load, index.load, ...): an object's",
        ),
        (
            replace(READY, standing=replace(FREE, ahead_count=1, ahead=("bp/index.a",))), [Because.QUEUE],
            "1 object before bp/index.b in ready queue 3 (bp/index.a)",
        ),
        (
            replace(READY, standing=None, running=RUN), [Because.OBJECT_RUNS],
            "bp/index.b is busy: it runs index.build on worker 2 for 1.5 s",
        ),
        (
            replace(READY, standing=None, awaited=(REPLY,)), [Because.OBJECT_AWAITS],
            "bp/index.b is occupied: index.find awaits disk.read",
        ),
        (replace(READY, standing=None, awaited=(PAUSE,)), [Because.OBJECT_PAUSES], "index.find pauses for another"),
        (
            replace(READY, until_tick_ns=SECOND_NS // 2, cpu_limit=30), [Because.CPU_BUDGET],
            "the CPU budget (30 % of a core) is spent: nothing of priority 3 runs until the tick in 500.0 ms",
        ),
        (
            replace(READY, standing=replace(FREE, quota_left=0)), [Because.QUOTA],
            "priority 3 has spent its quota of 25",
        ),
        (
            replace(READY, standing=replace(FREE, higher_count=4)), [Because.MORE_URGENT],
            "4 objects of higher priority than 3 go first",
        ),
        (
            replace(READY, standing=replace(FREE, ahead_count=9, is_at_least=True)), [Because.QUEUE],
            "at least 9 objects before bp/index.b in ready queue 3",
        ),
        (
            replace(READY, busy=(RUN, RUN)), [Because.WORKERS],
            "all 2 workers are busy with index.build on bp/index.a (priority 5, for 1.5 s), index.build",
        ),
        (
            replace(READY, digests="index.search"), [Because.DIGESTED, Because.NEXT],
            "its target is being computed by index.find in bp/index.b, for index.search",
        ),
        (replace(READY, unserved_state="down"), [Because.NEXT, Because.STATE], "it is the next to run"),
        (
            ActionFacts("bp/index", throttled=Throttled("bp/index", 50, 50)), [Because.IDLE, Because.THROTTLED],
            "bp/index has nothing to do",
        ),
    ],
)  # fmt: skip
def test_each_fact_is_the_reason_it_is(facts: ActionFacts, kinds: list[Because], words: str) -> None:
    """A reason that is left out sends the reader to the wrong place; one too many does as well."""
    reasons = explain(facts)
    assert [reason.because for reason in reasons] == kinds
    assert words in reasons[0].text


def test_one_worker_that_is_free_is_no_reason_to_wait() -> None:
    """Only where all are busy does it wait for one."""
    assert because(replace(READY, busy=(RUN,))) == [Because.NEXT]
    assert because(replace(READY, busy=(RUN,), workers_count=1)) == [Because.WORKERS]


def test_a_component_with_room_is_not_called_full() -> None:
    """Throttling is a reason for those outside only at the limit."""
    assert because(replace(READY, throttled=Throttled("bp/index", 49, 50))) == [Because.NEXT]


def test_all_that_holds_at_a_time_is_said_in_the_order_in_which_it_is_in_the_way() -> None:
    """Spent budgets and quotas are often together; each needs another remedy."""
    facts = replace(
        READY, standing=QueuePlace(3, 2, 1, 0, 25), until_tick_ns=1, cpu_limit=10, busy=(RUN, RUN), ahead_count=2
    )
    assert because(facts) == [
        Because.BEHIND, Because.CPU_BUDGET, Because.QUOTA, Because.MORE_URGENT, Because.QUEUE, Because.WORKERS,
    ]  # fmt: skip


def test_what_is_awaited_names_the_call_to_ask_about_next() -> None:
    """Without it the chain ends at the first backplane."""
    (reason,) = explain(replace(READY, where=Where.SUSPENDED, awaited=(REPLY,)))
    assert (reason.callee, reason.next) == ("other", "other:bp-1:7")
    assert [r.next for r in explain(replace(READY, where=Where.SUSPENDED, awaited=(PAUSE,)))] == [""]


def test_many_busy_workers_are_summed_up() -> None:
    """The answer has a bound, whatever the number of threads."""
    (reason,) = explain(replace(READY, workers_count=200, busy=(RUN,) * 200))
    assert len(reason.data["running"]) == RUNNING_SHOWN
    assert reason.text.endswith("and 192 more")
