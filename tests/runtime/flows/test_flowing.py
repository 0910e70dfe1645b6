"""Flows under a virtual clock: order, credits, batches, dead letters, and what a death does, by the delivery."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import (
    Batch,
    Busy,
    DeclarationError,
    Flow,
    InvalidArgument,
    PeerDown,
    Unavailable,
    current,
    sink,
    source,
    stage,
)
from appbackplane.runtime.flows.turns import CAME_EARLY
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.codec import FRAME_BYTES_MAX

CREDITS = 64
TEN_MINUTES_S = 600.0


class Kept:
    """What the sinks of a test have got."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.batches: list[list[Any]] = []

    def one(self) -> Any:
        """A sink that takes one item."""

        @sink
        def keep(item: Any) -> None:
            self.items.append(item)

        return keep

    def several(self, **options: Any) -> Any:
        """A sink that takes batches."""

        @sink(**options)
        def keep(items: list[Any]) -> None:
            self.batches.append(items)
            self.items += items

        return keep


@pytest.fixture
def kept() -> Kept:
    return Kept()


@source
def thousand() -> Iterator[int]:
    yield from range(1_000)


@source(poll=0.5)
def endless(after: int | None, wanted: int) -> list[tuple[int, int]]:
    begin = 0 if after is None else after + 1
    return [(number, number) for number in range(begin, begin + wanted)]


@stage
def same(number: int) -> int:
    return number


def run(flow: Flow, seconds: float = 1.0, **options: Any) -> VirtualBackplane:
    """All of it in one backplane."""
    backplane = VirtualBackplane(*flow.construct(), **options)
    backplane.advance(seconds)
    return backplane


def without(flow: Flow, *parts: str) -> VirtualBackplane:
    """A flow of which some parts are in another backplane, which the test plays."""
    here = [flow.components[part]() for part in reversed(flow.components) if part not in parts]
    return VirtualBackplane(*here, outside=tuple(flow.plan.route(part) for part in parts), idempotent=())


def figures(backplane: VirtualBackplane, component: str) -> dict[str, Any]:
    """Of one part of a flow."""
    found: dict[str, Any] = backplane.backplane.statistics()["flows"][component]
    return found


def sent(backplane: VirtualBackplane) -> list[Any]:
    """All items that have left for the other backplane, in their order."""
    return [item for each in backplane.outside_calls() for item in each.arguments["items"]]


def test_all_items_come_in_order_once(kept: Kept) -> None:
    """With one lane, in the order of the source."""
    backplane = run(Flow("f", thousand >> same >> kept.one(), credits=CREDITS))
    assert kept.items == list(range(1_000))
    told = figures(backplane, "f_thousand")
    assert told["is_at_end"] and told["taken"] == told["edge"]["ended"] == 1_000
    assert told["edge"]["used"] == told["edge"]["waiting"] == 0


def test_none_drops_an_item(kept: Kept) -> None:
    """It is counted, and ends there."""

    @stage
    def even(number: int) -> int | None:
        return None if number % 2 else number

    backplane = run(Flow("f", thousand >> even >> kept.one(), credits=CREDITS))
    assert kept.items == list(range(0, 1_000, 2))
    assert figures(backplane, "f_even")["dropped"] == 500


def test_a_generator_makes_several_of_one(kept: Kept) -> None:
    """However many: they are sent by the credits of its own edge."""

    @stage
    def copies(number: int) -> Iterator[int]:
        yield from [number] * 300

    backplane = without(Flow("f", thousand >> copies >> kept.one(), credits=CREDITS), "keep")
    backplane.advance(1.0)
    assert sum(len(each.arguments["items"]) for each in backplane.outside_calls()) == CREDITS


def test_a_sink_that_stands_still_holds_the_source_at_its_credits(kept: Kept) -> None:
    """For ten minutes: nothing grows, nothing is given up, and no call ends by a deadline."""
    backplane = without(Flow("f", endless >> same >> kept.one(), credits=CREDITS, delivery="at_least_once"), "keep")
    backplane.advance(TEN_MINUTES_S)
    calls = backplane.outside_calls("f_keep.take")
    assert sum(len(each.arguments["items"]) for each in calls) == CREDITS
    assert figures(backplane, "f_endless")["taken"] == CREDITS
    edge = figures(backplane, "f_endless")["edge"]
    assert (edge["used"], edge["waiting"], edge["ended"], edge["lost"], edge["resent"]) == (CREDITS, 0, 0, 0, 0)
    assert edge["oldest_ms"] == TEN_MINUTES_S * 1e3
    for each in calls:
        each.reply()
    backplane.advance(1.0)
    assert figures(backplane, "f_endless")["edge"]["ended"] == CREDITS


def test_items_of_one_key_stay_in_order_in_one_lane(kept: Kept) -> None:
    """Each key has a lane; different keys may overtake each other."""
    lanes: dict[int, set[str]] = {}

    @stage(by=lambda number: number % 10, parallel=4)
    def by_rest(number: int) -> int:
        lanes.setdefault(number % 10, set()).add(current().object.name)
        return number

    run(Flow("f", thousand >> by_rest >> kept.one(), credits=CREDITS))
    assert sorted(kept.items) == list(range(1_000))
    for rest in range(10):
        assert [n for n in kept.items if n % 10 == rest] == list(range(rest, 1_000, 10))
    assert all(len(names) == 1 for names in lanes.values())
    assert len(set.union(*lanes.values())) > 1


def test_a_chunk_that_comes_before_the_one_it_follows_is_not_served(kept: Kept) -> None:
    """As in a process that has started again: it knows nothing of the chunk that died with its predecessor."""

    @sink(by=lambda number: number, parallel=1)
    def keep(number: int) -> None:
        kept.items.append(number)

    backplane = VirtualBackplane(Flow("f", thousand >> keep).components["keep"]())

    def take(number: int, follows: int | None, sender: str = "a") -> Any:
        return backplane.call("f_keep.take", key="0", items=[number], turn=(sender, number, follows)).result()

    assert take(2, 1) == CAME_EARLY and kept.items == []
    assert take(1, None) is None and take(2, 1) is None and take(4, 3) == CAME_EARLY
    assert take(9, 2, "b") == CAME_EARLY and take(9, None, "b") is None and take(3, 2) is None
    assert kept.items == [1, 2, 9, 3]


def test_what_came_early_is_sent_again_in_order(kept: Kept) -> None:
    """Behind the one before it, and no item is lost or counted as sent twice."""

    @sink(by=lambda number: number, parallel=1)
    def keep(number: int) -> None:
        """Another process."""

    backplane = without(Flow("f", endless >> keep, credits=CREDITS, delivery="at_least_once"), "keep")
    backplane.advance(0.1)
    first, second, *others = backplane.outside_calls("f_keep.take")
    assert second.arguments["turn"][2] == first.arguments["turn"][1]
    for each in (second, *others):
        each.reply(CAME_EARLY)
    backplane.advance(0.1)
    assert backplane.outside_calls("f_keep.take") == [first, second, *others], "the first one has not been answered"
    first.fail(Unavailable("starting", retry_after=0.05))
    backplane.advance(0.2)
    again = [each for each in backplane.outside_calls("f_keep.take") if each not in (first, second, *others)]
    assert [each.arguments["items"] for each in again] == [each.arguments["items"] for each in (first, second, *others)]
    edge = figures(backplane, "f_endless")["edge"]
    assert (edge["ended"], edge["lost"], edge["resent"]) == (0, 0, len(first.arguments["items"]))


def test_a_key_may_be_a_field_and_an_item_without_it_is_a_dead_letter(kept: Kept) -> None:
    """It would have no lane."""

    @source
    def people() -> Iterator[dict[str, Any]]:
        yield {"user": "ada", "n": 1}
        yield {"n": 2}
        yield {"user": "ada", "n": 3}

    @sink(by="user", parallel=2)
    def keep(person: dict[str, Any]) -> None:
        kept.items.append(person["n"])

    backplane = run(Flow("f", people >> keep))
    assert kept.items == [1, 3]
    (letter,) = backplane.call("f_people.dead_letters").result()
    assert letter["item"] == {"n": 2} and letter["error"] == "KeyError: 'user'"


def test_an_item_that_raises_is_a_dead_letter_and_the_others_go_on(kept: Kept) -> None:
    """The newest are kept, with their errors; all are counted."""

    @stage
    def check(number: int) -> int:
        if number % 100 == 7:
            raise ValueError(f"{number} is bad")
        return number

    backplane = run(Flow("f", thousand >> check >> kept.one(), dead_letters=3))
    assert len(kept.items) == 990
    letters = backplane.call("f_check.dead_letters").result()
    assert [(each["item"], each["error"]) for each in letters] == [
        (907, "ValueError: 907 is bad"),
        (807, "ValueError: 807 is bad"),
        (707, "ValueError: 707 is bad"),
    ]
    assert figures(backplane, "f_check")["dead_letters"] == 10
    assert backplane.call("f_check.dead_letters", count=1).result()[0]["item"] == 907


def test_an_item_that_cannot_be_sent_is_a_dead_letter(kept: Kept) -> None:
    """And it alone, of all in its chunk."""

    @stage
    def spoil(number: int) -> Any:
        return object() if number == 5 else number

    backplane = run(Flow("f", thousand >> spoil >> kept.one()))
    assert sorted(kept.items) == [n for n in range(1_000) if n != 5]
    (letter,) = backplane.call("f_spoil.dead_letters").result()
    assert "object object" in letter["item"] and "object" in letter["error"]
    assert figures(backplane, "f_thousand")["edge"]["ended"] == 1_000


def test_a_chunk_that_is_too_large_for_a_message_is_divided(kept: Kept) -> None:
    """Credits count items, however large they are; an item that is too large by itself is a dead letter."""

    @source
    def blobs() -> Iterator[bytes]:
        for number in range(40):
            yield bytes([number]) * (FRAME_BYTES_MAX + 1 if number == 7 else 1 << 20)

    @sink
    def keep(blob: bytes) -> None:
        kept.items.append(blob[0])

    backplane = run(Flow("f", blobs >> keep))
    assert sorted(kept.items) == [number for number in range(40) if number != 7]
    assert figures(backplane, "f_blobs")["dead_letters"] == 1


@dataclass
class Row:
    number: int


def test_items_are_converted_as_the_annotations_say(kept: Kept) -> None:
    """A dataclass is one again in the next stage; an item that is none is a dead letter there."""

    @stage
    def wrap(number: int) -> Any:
        return {"number": "six"} if number == 6 else Row(number)

    @sink
    def keep(row: Row) -> None:
        kept.items.append(row)

    backplane = run(Flow("f", thousand >> wrap >> keep))
    assert kept.items == [Row(n) for n in range(1_000) if n != 6]
    (letter,) = backplane.call("f_keep.dead_letters").result()
    assert letter["item"] == {"number": "six"}
    assert letter["error"] == "keep does not take it: Expected `int`, got `str` - at `$.number`"


def test_batches_are_bounded_and_a_failing_one_goes_as_a_whole(kept: Kept) -> None:
    """It is unknown which of its items were processed."""

    @sink(batch=Batch(max=10))
    def keep(numbers: list[int]) -> None:
        assert len(numbers) <= 10
        if 15 in numbers:
            raise ValueError("fifteen")
        kept.items += numbers

    backplane = run(Flow("f", thousand >> keep, credits=1_000))
    assert figures(backplane, "f_keep")["dead_letters"] == 10
    assert sorted(kept.items) == [n for n in range(1_000) if not 10 <= n < 20]


def test_a_failing_batch_is_tried_singly_where_that_is_declared(kept: Kept) -> None:
    """For functions that may be called twice for an item."""

    @stage(batch=Batch(max=10), retry_singly=True)
    def check(numbers: list[int]) -> list[int]:
        if 15 in numbers:
            raise ValueError("fifteen")
        return numbers

    backplane = run(Flow("f", thousand >> check >> kept.one(), credits=1_000))
    assert kept.items == [n for n in range(1_000) if n != 15]
    assert figures(backplane, "f_check")["dead_letters"] == 1


def test_a_batch_waits_for_company_and_not_longer(kept: Kept) -> None:
    """Items of several chunks make one batch; after `wait_ms` it goes as it is."""
    backplane = VirtualBackplane(*Flow("f", kept.several(batch=Batch(max=4, wait_ms=100))).construct())
    calls = [backplane.call("f.put", items=[number, number]) for number in range(3)]
    backplane.run_until_idle()
    assert kept.batches == [[0, 0, 1, 1]] and [call.done() for call in calls] == [True, True, False]
    backplane.advance(0.099)
    assert len(kept.batches) == 1
    backplane.advance(0.001)
    assert kept.batches[1:] == [[2, 2]] and calls[2].result() == 2


def test_what_is_put_waits_for_credit_and_too_much_is_refused(kept: Kept) -> None:
    """A caller is slowed by the reply, which comes when its items have ended; the queue has a bound, too."""
    flow = Flow("f", kept.one(), credits=8)
    backplane = without(flow, "keep")
    calls = [backplane.call("f.put", items=[number] * 4) for number in range(4)]
    backplane.run_until_idle()
    assert sum(len(each.arguments["items"]) for each in backplane.outside_calls()) == 8
    refused = backplane.call("f.put", items=[9])
    assert isinstance(refused.exception(), Busy) and refused.exception().retry_after
    assert isinstance(backplane.call("f.put", items=[9] * 9).exception(), InvalidArgument)
    for number in range(2):
        for each in backplane.outside_calls()[2 * number :]:
            each.reply()
        backplane.run_until_idle()
    assert [call.result() for call in calls] == [4, 4, 4, 4]


def test_a_death_loses_items_which_are_counted(kept: Kept) -> None:
    """Without `at_least_once` they are not sent again, and the source goes on."""
    backplane = without(Flow("f", endless >> kept.one(), credits=CREDITS), "keep")
    backplane.run_until_idle()
    before = backplane.outside_calls()
    for each in before:
        each.fail(PeerDown("it died"))
    backplane.run_until_idle()
    assert figures(backplane, "f_endless")["edge"]["lost"] == CREDITS
    assert sent(backplane)[CREDITS:] == list(range(CREDITS, 2 * CREDITS))


def test_what_was_refused_has_not_begun_and_is_sent_again_in_any_delivery(kept: Kept) -> None:
    """A backplane that goes down in order refuses: nothing was lost."""
    backplane = without(Flow("f", endless >> kept.one(), credits=CREDITS), "keep")
    backplane.run_until_idle()
    for each in backplane.outside_calls():
        each.fail(Unavailable("it goes down"), is_refused=True)
    backplane.advance(2.0)
    edge = figures(backplane, "f_endless")["edge"]
    assert (edge["lost"], edge["resent"]) == (0, 0)
    assert sent(backplane) == [*range(CREDITS), *range(CREDITS)]


def test_with_at_least_once_they_are_sent_again_in_their_order(kept: Kept) -> None:
    """Whatever was unanswered when the consumer died."""
    flow = Flow("f", endless >> kept.one(), credits=CREDITS, delivery="at_least_once")
    backplane = without(flow, "keep")
    backplane.run_until_idle()
    first, *others = backplane.outside_calls()
    first.reply()
    for each in reversed(others):
        each.fail(PeerDown("it died"))
    backplane.advance(2.0)
    served = len(first.arguments["items"])
    assert sent(backplane)[CREDITS:] == list(range(served, CREDITS + served))
    edge = figures(backplane, "f_endless")["edge"]
    assert (edge["lost"], edge["resent"]) == (0, CREDITS - served)


def test_with_at_least_once_the_next_process_goes_on_before_what_has_not_ended(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever has ended behind it: the source gives all of these again."""
    monkeypatch.setattr("appbackplane.runtime.flows.parts.file_of", lambda *_: tmp_path / "f.source")
    flow = Flow("f", endless >> kept.one(), credits=CREDITS, delivery="at_least_once")
    first = without(flow, "keep")
    first.run_until_idle()
    early, *_, late = first.outside_calls()
    late.reply()
    first.advance(0.3)
    second = without(flow, "keep")
    second.run_until_idle()
    assert sent(second) == list(range(CREDITS))
    early.reply()
    first.advance(0.3)
    third = without(flow, "keep")
    third.run_until_idle()
    assert sent(third)[0] == len(early.arguments["items"])


def test_without_it_the_next_process_goes_on_behind_what_was_given(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is given twice, and those that had not ended are lost."""
    monkeypatch.setattr("appbackplane.runtime.flows.parts.file_of", lambda *_: tmp_path / "f.source")
    flow = Flow("f", endless >> kept.one(), credits=CREDITS)
    first = without(flow, "keep")
    first.run_until_idle()
    assert sent(first) == list(range(CREDITS))
    *_, late = first.outside_calls()
    late.reply()
    first.advance(0.3)
    given = len(sent(first))
    second = without(flow, "keep")
    second.run_until_idle()
    assert sent(second)[0] == given == CREDITS + len(late.arguments["items"])
    assert figures(second, "f_endless")["edge"]["lost"] == CREDITS


def test_a_source_that_raises_is_asked_again(kept: Kept) -> None:
    """A file that is not there yet must not end the flow."""
    trials: list[int] = []

    @source(poll=1.0)
    def shaky(wanted: int) -> list[int]:
        trials.append(wanted)
        if len(trials) < 3:
            raise OSError("not there yet")
        return [1] if len(trials) == 3 else []

    backplane = run(Flow("f", shaky >> kept.one()), 0.5)
    assert len(trials) == 1
    backplane.advance(2.0)
    assert kept.items == [1]


def test_a_source_that_has_nothing_is_asked_again_after_its_poll(kept: Kept) -> None:
    """And not all the time meanwhile."""
    asked: list[int] = []

    @source(poll=2.0)
    def slow(wanted: int) -> list[int]:
        asked.append(wanted)
        return []

    backplane = run(Flow("f", slow >> kept.one()), 1.0)
    assert len(asked) == 1
    backplane.advance(10.0)
    assert len(asked) == 6


def test_a_source_that_had_nothing_is_not_asked_for_each_item_that_ends(kept: Kept) -> None:
    """A table that is empty would be read a thousand times a second."""
    asked: list[int] = []

    @source(poll=5.0)
    def slow(wanted: int) -> list[int]:
        asked.append(wanted)
        return [1] if len(asked) == 1 else []

    backplane = without(Flow("f", slow >> kept.one()), "keep")
    backplane.run_until_idle()
    assert len(asked) == 2
    backplane.outside_calls()[0].reply()
    backplane.run_until_idle()
    assert len(asked) == 2


def test_a_source_that_gives_more_than_is_wanted_is_refused(kept: Kept) -> None:
    """Its surplus would have no credits."""

    @source(poll=10.0)
    def greedy(wanted: int) -> list[int]:
        return [0] * (wanted + 1)

    backplane = run(Flow("f", greedy >> kept.one()))
    assert kept.items == []
    assert backplane.backplane.statistics()["operations"]["f_greedy.pull"]["errors"] == 1


def test_a_source_works_only_while_it_is_primary(kept: Kept) -> None:
    """A stand-by must not read what the primary node reads."""
    backplane = VirtualBackplane(*Flow("f", endless >> kept.one(), credits=CREDITS).construct(), role="secondary")
    backplane.run_until_idle()
    assert kept.items == []


def test_the_backplane_of_the_consumer_may_have_more_priorities(kept: Kept) -> None:
    """A call may have a priority that its caller's backplane does not have; a source may not."""

    @sink(priority=5)
    def bulk(number: int) -> None: ...

    flow = Flow("f", stage(priority=0)(same.function) >> bulk)
    backplane = VirtualBackplane(flow.components["same"](), priorities=2, outside=("f_bulk.take",))
    put = backplane.call("f_same.take", key="0", items=[1])
    backplane.run_until_idle()
    backplane.outside_calls()[0].reply()
    assert put.result() is None
    late = Flow("f", source(priority=2)(thousand.function) >> stage(priority=0)(same.function) >> bulk)
    with pytest.raises(DeclarationError, match=r"source thousand: priority 2, but the backplane has 0\.\.1"):
        VirtualBackplane(late.components["thousand"](), priorities=2).run_until_idle()


def test_priorities_are_those_of_the_stages(kept: Kept) -> None:
    """Each chunk is served at the priority of the stage that takes it, and sent at that."""

    @stage(priority=2)
    def urgent(number: int) -> int:
        return number

    backplane = run(Flow("f", thousand >> urgent >> kept.one(), credits=CREDITS))
    routes = backplane.backplane.engine.registry.routes
    assert (routes["f_urgent.take"].priority, routes["f_keep.take"].priority) == (2, 4)

    @sink(priority=6)
    def bulk(number: int) -> None: ...

    backplane = VirtualBackplane(Flow("f", thousand >> bulk).components["thousand"](), outside=("f_bulk.take",))
    backplane.run_until_idle()
    assert {each.envelope.priority for each in backplane.outside_calls()} == {6}
