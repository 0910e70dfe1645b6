"""Outlet: what is sent when, what the credits bound, and in which order chunks go after some came back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.runtime.flows.outlet import Chunk, Origin, StageOutlet


def put(outlet: StageOutlet, *items: Any, lane: int = 0, now_ns: int = 0) -> Origin:
    """Put items into one lane."""
    origin = Origin()
    assert outlet.put([(lane, list(items))], origin, now_ns)
    return origin


def taken(outlet: StageOutlet, now_ns: int = 0) -> list[Chunk]:
    """All chunks that may be sent now."""
    found = []
    while (chunk := outlet.take(now_ns)[0]) is not None:
        found.append(chunk)
    return found


def items_of(chunks: list[Chunk]) -> list[list[Any]]:
    return [chunk.items for chunk in chunks]


def test_no_more_is_sent_than_there_are_credits() -> None:
    """Credits are the bound of the memory behind an edge."""
    outlet = StageOutlet(8, [None])
    put(outlet, *range(20))
    sent = taken(outlet)
    assert items_of(sent) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert (outlet.used_count, outlet.waiting_count, outlet.room) == (8, 12, 0)
    outlet.ended(sent[1])
    assert items_of(taken(outlet)) == [[8, 9]]
    assert outlet.used_count == 8


def test_a_chunk_says_which_one_it_follows() -> None:
    """In its lane, and while that may still come back: then the lane is to have had it, too."""
    outlet = StageOutlet(64, ["0", "1"], chunk_max=2)
    put(outlet, 1, 2, 3, 4, 5, lane=0)
    put(outlet, 6, lane=1)
    chunks = sorted(taken(outlet), key=lambda each: each.items)
    first, second, third, other = chunks
    assert [each.follows for each in chunks] == [None, first.number, second.number, None]
    outlet.came_early(third)
    outlet.came_early(second)
    assert taken(outlet) == [], "the lane has one that may come back"
    outlet.came_back(first, 5, has_begun=True)
    again = taken(outlet, now_ns=5)
    assert items_of(again) == [[1, 2], [3, 4], [5]]
    assert [each.follows for each in again] == [None, first.number, second.number]
    for each in (*again, other):
        outlet.ended(each)
    assert (outlet.used_count, outlet.waiting_count, outlet.resent_count) == (0, 0, 2)
    put(outlet, 7, lane=0)
    assert [each.follows for each in taken(outlet, now_ns=5)] == [None]


def test_what_came_together_is_sent_together() -> None:
    """Single items of many origins make one chunk; each origin ends with the last of its own items."""
    outlet = StageOutlet(16, [None])
    origins = [put(outlet, number) for number in range(4)]
    (chunk,) = taken(outlet)
    assert chunk.items == [0, 1, 2, 3]
    assert outlet.ended(chunk) == origins


def test_an_origin_ends_with_its_last_chunk() -> None:
    """Else a producer would take its credits back while items are still there."""
    outlet = StageOutlet(16, [None], chunk_max=2)
    origin = put(outlet, 1, 2, 3, 4, 5)
    first, second, third = taken(outlet)
    assert outlet.ended(second) == [] and outlet.ended(first) == []
    assert outlet.ended(third) == [origin] and origin.is_ended


def test_credits_that_come_back_in_crumbs_do_not_make_crumbs() -> None:
    """As TCP avoids silly windows: a full chunk waits until half of it may be sent."""
    outlet = StageOutlet(16, [None])
    singles = []
    for number in range(16):
        put(outlet, number)
        singles += taken(outlet)
    put(outlet, *range(100, 108))
    outlet.ended(singles[0])
    assert taken(outlet) == []
    outlet.ended(singles[1])
    assert items_of(taken(outlet)) == [[100, 101]]


def test_a_few_items_are_sent_at_once() -> None:
    """Chunks grow with what waits: at a low load nothing waits for others."""
    outlet = StageOutlet(1024, [None])
    put(outlet, "a")
    assert items_of(taken(outlet)) == [["a"]]
    put(outlet, "b")
    assert items_of(taken(outlet)) == [["b"]]


def test_what_came_back_goes_first_and_not_before_its_time() -> None:
    """The credits of a dead consumer are void; its items keep their place."""
    outlet = StageOutlet(16, [None], chunk_max=2)
    put(outlet, 1, 2, 3, 4)
    first, second = taken(outlet)
    outlet.came_back(second, 50, has_begun=True)
    outlet.came_back(first, 100, has_begun=True)
    assert outlet.used_count == 0 and outlet.resent_count == 4
    put(outlet, 5)
    assert taken(outlet, 99) == []
    assert items_of(taken(outlet, 100)) == [[1, 2], [3, 4], [5]]


def test_in_an_ordered_lane_nothing_overtakes_what_came_back() -> None:
    """A later chunk that is being served must not be followed by an earlier one."""
    outlet = StageOutlet(32, ["0", "1"], chunk_max=2)
    put(outlet, 1, 2, 3, 4)
    put(outlet, "other", lane=1)
    first, other, second = taken(outlet)
    assert other.target.key == "1"
    outlet.came_back(first, 0, has_begun=True)
    put(outlet, 5)
    assert taken(outlet) == []
    outlet.came_back(second, 0, has_begun=True)
    assert items_of(taken(outlet)) == [[1, 2], [3, 4], [5]]


def test_an_unordered_lane_does_not_wait() -> None:
    """One of two consumers may be stopped: what the other one lost goes on all the same."""
    outlet = StageOutlet(32, [None], chunk_max=2)
    put(outlet, 1, 2, 3, 4)
    first, _ = taken(outlet)
    outlet.came_back(first, 0, has_begun=True)
    assert items_of(taken(outlet)) == [[1, 2]]


def test_lost_items_are_counted_and_end_their_origin() -> None:
    """Without `at_least_once` nobody sends them again, but somebody has to say how many they were."""
    outlet = StageOutlet(16, [None])
    origin = put(outlet, 1, 2, 3)
    (chunk,) = taken(outlet)
    assert outlet.lost(chunk) == [origin]
    assert (outlet.lost_count, outlet.ended_count, outlet.used_count) == (3, 0, 0)
    assert not origin.has_failed


def test_given_up_items_make_their_origin_fail() -> None:
    """The caller learns that it has to send them again."""
    outlet = StageOutlet(16, [None])
    origin = put(outlet, 1)
    (chunk,) = taken(outlet)
    assert outlet.given_up(chunk) == [origin] and origin.has_failed


def test_a_chunk_is_divided_until_the_item_at_fault_is_alone() -> None:
    """One item that cannot be sent must not take the others with it."""
    outlet = StageOutlet(64, [None])
    origin = put(outlet, *range(8))
    bad, served = None, []
    chunks = taken(outlet)
    while chunks:
        chunk = chunks.pop()
        if 5 not in chunk.items:
            served += chunk.items
            outlet.ended(chunk)
        elif len(chunk.items) > 1:
            outlet.divide(chunk)
        else:
            bad = chunk.items
            outlet.ended(chunk)
        chunks += taken(outlet)
    assert bad == [5] and sorted(served) == [0, 1, 2, 3, 4, 6, 7]
    assert origin.is_ended and outlet.used_count == outlet.waiting_count == 0


def test_the_oldest_item_is_known_wherever_it_is() -> None:
    """Under way, waiting, or back: it tells whoever looks how long the edge has stood still."""
    outlet = StageOutlet(4, [None])
    assert outlet.oldest_ns() is None
    put(outlet, *range(4), now_ns=10)
    put(outlet, *range(4), now_ns=20)
    sent = taken(outlet)
    assert outlet.oldest_ns() == 10
    outlet.came_back(sent.pop(0), 0, has_begun=True)
    for chunk in sent:
        outlet.ended(chunk)
    assert outlet.oldest_ns() == 10
    outlet.ended(taken(outlet)[0])
    assert outlet.oldest_ns() == 20


def test_one_sender_at_a_time() -> None:
    """Two would post an action for each chunk, and find nothing."""
    outlet = StageOutlet(8, [None])
    assert not outlet.begin_sending()
    put(outlet, 1, 2, 3)
    assert outlet.begin_sending() and not outlet.begin_sending()
    assert outlet.take(0)[1], "there is a second chunk"
    assert not outlet.begin_sending(), "the first sender goes on"
    assert not outlet.take(0)[1]
    put(outlet, 4)
    assert outlet.begin_sending()


@settings(max_examples=200)
@given(st.data())
def test_whatever_happens_each_item_ends_once_and_in_the_order_of_its_lane(data: st.DataObject) -> None:
    """Against the obvious: after the last answer of a lane, its items have been served in their order, none left out."""
    lanes = data.draw(st.integers(1, 3))
    outlet = StageOutlet(data.draw(st.integers(1, 12)), [str(lane) for lane in range(lanes)], chunk_max=4)
    number, under_way, ended_origins, origins = 0, list[Chunk](), list[Origin](), list[Origin]()
    served: dict[str | None, list[int]] = {str(lane): [] for lane in range(lanes)}
    for step in data.draw(st.lists(st.sampled_from(["put", "take", "end", "die"]), max_size=60)) + ["take", "end"] * 80:
        if step == "put":
            count, lane = data.draw(st.integers(1, 6)), data.draw(st.integers(0, lanes - 1))
            origins.append(put(outlet, *range(number, number + count), lane=lane))
            number += count
        elif step == "take":
            under_way += taken(outlet)
            assert outlet.used_count <= outlet.credits
        elif step == "end" and under_way:
            chunk = under_way.pop(0)
            served[chunk.target.key] += chunk.items
            ended_origins += outlet.ended(chunk)
        elif step == "die":
            while under_way:  # a death ends all calls, in any order
                chunk = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
                outlet.came_back(chunk, 0, has_begun=True)
    assert sorted(item for items in served.values() for item in items) == list(range(number))
    assert all(items == sorted(items) for items in served.values())
    assert len(ended_origins) == len({id(origin) for origin in ended_origins}) == len(origins)
    assert (outlet.used_count, outlet.waiting_count, outlet.oldest_ns()) == (0, 0, None)


@pytest.mark.parametrize(("credits", "chunk_max"), [(1, 1), (3, 1), (8, 2), (1024, 256), (100_000, 256)])
def test_four_chunks_fit_into_the_credits(credits: int, chunk_max: int) -> None:
    """So that the producer fills one while others are under way."""
    assert StageOutlet(credits, [None]).chunk_max == chunk_max
