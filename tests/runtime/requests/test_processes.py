"""Processes: what the kernel makes of what its worker processes say, and of what they do not come to say."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

import pytest

from appbackplane.runtime.requests import State
from appbackplane.runtime.testing import OutsideCall
from appbackplane.transport.errors import Busy, FailedPrecondition, PeerDown, Unavailable

from .outside import RECALL, Bulk, Outside, Short, Work, failed, ids, row


def learn(outside: Outside, name: str = "worker-1", run_ns: int = 1000) -> None:
    """Have it be known that both take next to nothing, so that they travel together."""
    for runnable in (Work, Short):
        outside.post(0, runnable, owner="learning", rejoin=False)
        batch = outside.batch(name)
        batch.reply([row(ids(batch)[0], run_ns=run_ns)])
        outside.run()


def states(batch: Iterable[object]) -> list[str]:
    return [each.state.value for each in batch]  # type: ignore[attr-defined]


def together(outside: Outside, count: int, **options: object) -> tuple[OutsideCall, list[int]]:
    """So many requests that travel in one batch, and their numbers."""
    outside.kernel._ledger.hold(is_held=True)
    elements = [outside.post(n, owner="x", **options) for n in range(count)]
    outside.kernel._ledger.hold(is_held=False)
    batch = outside.batch("worker-1")
    assert ids(batch) == [each.id for each in elements]
    return batch, ids(batch)


def test_one_that_came_behind_another_may_post_and_how_that_one_ended_is_known_from_then() -> None:
    """A worker says all its results at once; but it may be for one of those that somebody waits, this very request perhaps."""
    outside = Outside("worker-1")
    learn(outside)
    batch, (first, second, third) = together(outside, 3)
    asked = outside.asked("worker-1", batch, second, [row(first, 7)], [third])
    posted = outside.says_posts("worker-1", asked, 1, 2).result()
    assert posted[1] is None
    found, element = outside.rejoin("x")
    assert (found, element is not None and element.result) == ("returned", 7)
    assert outside.check().executing == 1
    batch.reply([row(second)])
    outside.run()
    assert outside.rejoin("x")[0] == "returned"
    # The third came back, and is in the next batch, after those that were posted after it: they are as urgent as it is.
    after = outside.batch("worker-1")
    assert third in ids(after) and len(ids(after)) == 3
    after.reply([row(each) for each in ids(after)])
    outside.run()
    assert outside.check().unclaimed_total == 2, "of those that the second has posted"


def test_what_an_iteration_has_left_behind_stands_in_nobodys_way() -> None:
    """The worker says with its next call which of them are over: what has not begun never will, and no entry is taken."""
    outside = Outside("worker-1", workers=1, ready=3, rejoin=3)
    parent = outside.post(0, owner="x")
    batch = outside.batch("worker-1")
    asked = outside.asked("worker-1", batch, parent.id)
    assert outside.says_posts("worker-1", asked, 1, 2, 3, owner=[0], wait=False).result()[1] is None
    assert outside.says_posts("worker-1", asked, 4, owner=[1], wait=False).result()[1] is not None, "it is full"
    ids_of_next, problem = outside.says_posts("worker-1", asked, 5, owner=[2], wait=False, over=[0, 1, 7]).result()
    assert len(ids_of_next) == 1 and problem is None
    assert outside.check().withdrawn_total == 3
    assert [*parent.parts] == [2]
    batch.reply([row(parent.id)])
    outside.run()
    assert outside.rejoin("x")[0] == "returned"


def test_a_worker_that_outlives_its_kernel_is_not_taken_for_who_it_was() -> None:
    """Requests are counted from 1 at each start: what it goes on with would post, end and give back those of others."""
    outside = Outside("worker-1")
    element = outside.post(1, owner="x")
    batch = outside.batch("worker-1")
    stale = [*outside.asked("worker-1", batch, element.id)]
    stale[1] -= 1
    stale[4] = [element.id]
    for call in (
        outside.says_posts("worker-1", stale, 1),
        outside.says_rejoins("worker-1", stale, wait=False),
    ):
        error = call.error()
        assert isinstance(error, FailedPrecondition)
        assert "has been restarted" in error.message
    assert element.state is State.EXECUTING
    assert outside.check().posted_total == 1


def test_what_a_lost_worker_says_afterwards_changes_nothing() -> None:
    """It was given up: its request has failed, and somebody may have been told."""
    outside = Outside("worker-1", "worker-2")
    element = outside.post(1, owner="x")
    outside.run()
    name = next(each for each in ("worker-1", "worker-2") if outside.given(each))
    batch = outside.batch(name)
    asked = outside.asked(name, batch, element.id, [row(element.id, 5)], [element.id])
    outside.kill(name)
    outside.run()
    outside.start(name)
    found, lost = outside.rejoin("x")
    assert lost is element
    assert (found, element.state, element.result) == ("returned", State.FAILED, None)
    assert element.error is not None
    assert element.is_lost
    assert element.error.startswith(f"lost worker: {name}: ")
    for call in (outside.says_posts(name, asked, 1), outside.says_rejoins(name, asked)):
        assert "given up as lost" in call.error().message
    batch.reply([row(element.id, 5)])
    outside.run()
    now = outside.check()
    assert (now.lost_total, now.joined_total, now.ended_total, now.posted_total) == (1, 1, 1, 1)


def test_a_post_that_waited_for_room_when_its_worker_died_does_not_take_the_entry() -> None:
    """It would be executed for nobody, and stay in the rejoin pool for ever: one more each time, until no one may post."""
    outside = Outside("worker-1", ready=1)
    parent = outside.post(1, owner="x")
    batch = outside.batch("worker-1")
    filler = outside.post(2, owner="x")
    waiting = outside.says_posts("worker-1", outside.asked("worker-1", batch, parent.id), 3)
    assert outside.check().posting == 1
    outside.kill("worker-1")
    outside.run()
    outside.virtual.advance(2.0)
    assert not waiting.done() or waiting.error()
    assert outside.check().posting == 0
    outside.start("worker-1")
    batch = outside.batch("worker-1")
    assert ids(batch) == [filler.id]
    batch.reply([row(filler.id)])
    outside.run()
    assert [outside.rejoin("x")[0] for _ in range(3)] == ["returned", "returned", "none exist"]
    now = outside.check()
    assert (now.owners, sum(now.ready), sum(now.rejoinable)) == (0, 0, 0)


def test_a_worker_that_refuses_gets_them_again_and_none_is_lost() -> None:
    """What has certainly not begun may be executed by anybody."""
    outside = Outside("worker-1")
    element = outside.post(1, owner="x")
    for number in range(3):
        batch = outside.batch("worker-1")
        assert len(outside.given("worker-1")) == number + 1
        batch.fail(Unavailable("not now"), is_refused=True)
        outside.run()
        assert element.state is State.READY
        outside.check()
        outside.virtual.advance(0.06)
    batch = outside.batch("worker-1")
    batch.reply([row(element.id, 5)])
    outside.run()
    assert outside.rejoin("x") == ("returned", element)
    assert (element.result, outside.check().wait_ns_total > 100_000_000) == (5, True)


def test_answers_that_make_no_sense_count_for_nothing() -> None:
    """Numbers that nobody has, of others, and twice."""
    outside = Outside("worker-1", "worker-2")
    elements = [outside.post(n, owner="x") for n in range(2)]
    outside.run()
    first, second = (outside.given(name)[-1] for name in ("worker-1", "worker-2"))
    mine, other = ids(first)[0], ids(second)[0]
    first.reply([row(mine, 1), row(mine, 2), row(other, 3), row(10**9, 4)])
    outside.run()
    outside.check()
    second.reply([failed(other)])
    second.reply([row(other)])
    outside.run()
    assert {outside.rejoin("x")[0] for _ in elements} == {"returned"}
    assert {each.id: (each.result, each.error) for each in elements} == {
        mine: (1, None),
        other: (None, "ValueError: no"),
    }
    assert outside.check().ended_total == 2


def test_those_that_the_answer_does_not_name_are_executed_later() -> None:
    """Their results would not have gone into one message, or it was told not to go on: they have not begun."""
    outside = Outside("worker-1")
    learn(outside)
    batch, (first, second, third) = together(outside, 3)
    batch.reply([row(first)])
    outside.run()
    assert outside.check().ready[3] == 1
    assert ids(outside.batch("worker-1")) == [second, third]


def test_a_kernel_that_was_moved_down_works_again() -> None:
    """Its connections and services were there before; and nobody serves the old start."""
    outside = Outside("worker-1")
    element = outside.post(1, owner="x")
    old = outside.batch("worker-1")
    outside.virtual.move("down")
    outside.virtual.advance(1.0)
    outside.virtual.move("initializing")
    outside.virtual.move("primary")
    outside.tell()
    old.reply([row(element.id)])
    outside.run()
    again = outside.post(2, owner="x")
    assert again.id == element.id
    batch = outside.batch("worker-1")
    assert (batch is not old, ids(batch)) == (True, [again.id])
    batch.reply([row(again.id, 6)])
    outside.run()
    assert outside.rejoin("x") == ("returned", again)
    assert outside.check().ended_total == 1
    assert [each._key for each in outside.kernel.objects] == [
            "commands", "service", "connection@worker-1", "recaller@worker-1", "service@worker-1",
        ]  # fmt: skip


def test_nothing_of_a_start_is_left_when_it_has_been_moved_down_and_up() -> None:
    """Its requests and their results would stay in memory until the backplane ends, with those of each restart."""
    outside = Outside("worker-1")
    starts = []
    for _ in range(3):
        starts.append(weakref.ref(outside.kernel._executor))  # which has the rest
        outside.post(1, owner="x")
        outside.batch("worker-1").reply([])
        for state in ("down", "initializing", "primary"):
            outside.virtual.move(state)
        outside.run()
    outside.tell()
    gc.collect()
    assert [start() for start in starts] == [None] * 3
    outside.post(1, owner="x")
    assert len(ids(outside.batch("worker-1"))) == 1, "it hears of its workers as before"


def test_a_dead_process_is_given_nothing_more_until_the_next_is_there() -> None:
    """Each batch would be lost for nothing."""
    outside = Outside("worker-1")
    elements = [outside.post(n, owner="x") for n in range(5)]
    batch = outside.batch("worker-1")
    batch.fail(PeerDown("the process that held the call died"))  # the news of the call before that of the directory
    outside.kill("worker-1")
    outside.run()
    outside.virtual.advance(1.0)
    assert states(elements) == ["rejoinable", *["ready"] * 4]
    outside.start("worker-1")
    outside.run()
    assert outside.check().lost_total == 1
    assert outside.given("worker-1")


def test_a_full_component_still_serves_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 9. What a request in execution posts and rejoins has been admitted with it: refused, it would fail for nothing, and
    those who fill the component wait for it.
    """
    monkeypatch.setattr(Bulk, "max_requests", 1)
    outside = Outside("worker-1")
    parent = outside.post(1, owner="x")
    waiting = outside.virtual.call("bulk.wait_for", owner="x")
    batch = outside.batch("worker-1")
    assert isinstance(outside.virtual.call("bulk.wait_for", owner="x").error(), Busy)
    asked = outside.asked("worker-1", batch, parent.id)
    assert outside.says_posts("worker-1", asked, 2, rejoin=False).result() == [[parent.id + 1], None]
    assert outside.says_rejoins("worker-1", asked, wait=False).result() == ["none ready", []]
    batch.reply([row(parent.id)])
    outside.run()
    assert waiting.result() == 1


def test_a_worker_that_asks_never_stands_behind_another_that_waits() -> None:
    """With many workers the least busy service of those looked at may be taken: by who waits for what this one is to post."""
    names = [f"worker-{number:02}" for number in range(20)]
    outside = Outside(*names)
    given = {}
    for _ in names:
        outside.post(0, owner="x")
    for name in names:
        batch = outside.batch(name)
        given[name] = outside.asked(name, batch, ids(batch)[0])
    *waiting, last = names
    for name in waiting:
        assert outside.says_posts(name, given[name], 1).result()[1] is None
        assert not outside.says_rejoins(name, given[name]).done()
    for _ in range(40):
        assert outside.says_posts(last, given[last], 1).done()


def test_what_has_not_begun_goes_back_for_what_is_more_urgent() -> None:
    """Or it would wait for all that travelled together, 20 ms of it, though it is the most urgent of all."""
    outside = Outside("worker-1", workers=1)
    learn(outside)
    batch, (first, second, third) = together(outside, 3)
    outside.post(10, owner="x")  # as urgent as they are: it has its turn
    outside.run()
    assert not outside.given("worker-1", RECALL)
    urgent = outside.post(11, owner="x", priority=95)
    outside.post(12, owner="x", priority=96)
    outside.run()
    [recall] = outside.given("worker-1", RECALL)
    recall.reply([[row(first)], [second, third]])
    outside.run()
    batch.reply([])
    following = outside.batch("worker-1")
    assert ids(following)[0] == urgent.id
    assert {second, third} < set(ids(following))
    outside.check()


def test_nothing_is_recalled_where_a_worker_is_free() -> None:
    """It takes what is urgent at once."""
    outside = Outside("worker-1", "worker-2")
    outside.kernel._ledger.hold(is_held=True)
    outside.post(1, owner="x")
    outside.kernel._ledger.hold(is_held=False)
    outside.run()
    urgent = outside.post(2, owner="x", priority=95)
    outside.run()
    given = {name: [ids(each) for each in outside.given(name)] for name in ("worker-1", "worker-2")}
    assert [urgent.id] in given["worker-1"] + given["worker-2"]
    assert not any(outside.given(name, RECALL) for name in given)


def test_no_worker_takes_more_than_its_share() -> None:
    """What one has is not begun by another that has nothing to do."""
    outside = Outside("worker-1")
    learn(outside)
    outside.start("worker-2")
    outside.run()
    outside.kernel._ledger.hold(is_held=True)
    for number in range(9):
        outside.post(number, owner="x")
    outside.kernel._ledger.hold(is_held=False)
    outside.run()
    taken = sorted(len(ids(outside.batch(name))) for name in ("worker-1", "worker-2"))
    assert taken == [2, 5], "half of nine, and half of what is left"
