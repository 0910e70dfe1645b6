"""The ready pool: the order in which the source's scheduler thread would have it, that visits each entry at each interval."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.requests.ledger.element import Element
from appbackplane.runtime.requests.ledger.owners import Account
from appbackplane.runtime.requests.ledger.ready_pool import ReadyPool
from tests.models.request_model import of_the_source

STEPS = st.lists(
    st.tuples(st.just("add"), st.integers(-5, 5), st.integers(0, 3), st.booleans())
    | st.tuples(st.just("age"), st.integers(1, 4))
    | st.tuples(st.just("boost"), st.integers(0, 5))
    | st.tuples(st.just("take"))
    | st.tuples(st.just("back"))
    | st.tuples(st.just("remove"), st.integers(0, 20)),
    max_size=40,
)


def element(id: int, priority: int = 0, lane: int = 3, *, is_boosted: bool = False) -> Element:
    """A request with a priority of the source: larger is more urgent. All numbers of this file are the source's."""
    return Element(id, None, "R", "a", of_the_source(priority), lane, is_boosted=is_boosted)


def post(pool: ReadyPool, account: Account, count: int, priority: int = 0) -> None:
    """So many requests of an owner."""
    for _ in range(count):
        one = element(0, priority)
        one.account = account
        pool.add(one)


def take(pool: ReadyPool, count: int) -> str:
    """The owners of the next requests, in their order."""
    taken = ""
    for _ in range(count):
        best = pool.best([0, 1, 2, 3])
        assert best is not None
        pool.take(best)
        taken += str(best.account.owner)
    return taken


@pytest.mark.parametrize(("is_fair", "expected"), [(False, "aaaaaabb"), (True, "aababaaa")])
def test_owners_take_turns_where_that_is_asked_for(is_fair: bool, expected: str) -> None:
    """A flood of one owner held up another's few requests until it had passed."""
    pool, a, b = ReadyPool(0, is_fair=is_fair), Account("a"), Account("b")
    post(pool, a, 6)
    order = take(pool, 2)
    post(pool, b, 2)
    assert order + take(pool, 6) == expected


def test_turns_are_within_one_priority_and_nobody_saves_them_up() -> None:
    """The more urgent first, whoever owns it; and who comes back begins with the present turn."""
    pool, a, b = ReadyPool(0, is_fair=True), Account("a"), Account("b")
    post(pool, a, 50)
    post(pool, b, 1, priority=1)
    assert take(pool, 40) == "b" + "a" * 39
    post(pool, b, 2)
    assert sorted(take(pool, 4)) == ["a", "a", "b", "b"]
    assert take(pool, 9) == "a" * 9


@given(steps=STEPS, boost=st.integers(0, 5))
def test_ageing_is_that_of_the_source(steps: list[Any], boost: int) -> None:
    """+1 for each at each interval, and the boost on top for those that are marked; the most urgent first, then the oldest."""
    pool = ReadyPool(boost)
    #: [priority now, turn, element], as the source keeps them: larger is more urgent.
    entries: list[list[Any]] = []
    taken: list[list[Any]] = []
    turn = 0
    for what, *how in steps:
        if what == "add":
            turn += 1
            one = element(turn, how[0], how[1], is_boosted=how[2])
            one.account = Account(turn)
            pool.add(one)
            entries.append([how[0], turn, one])
        elif what == "age":
            for _ in range(how[0]):
                pool.age += 1
                for entry in entries + taken:
                    entry[0] += 1 + (boost if entry[2].is_boosted else 0)
        elif what == "boost":
            boost = how[0]
            pool.change_boost(boost, [entry[2] for entry in taken])
        elif what == "take" and entries:
            first = min(entries, key=lambda entry: (-entry[0], entry[1]))
            assert pool.best([0, 1, 2, 3]) is first[2]
            pool.take(first[2])
            entries.remove(first)
            taken.append(first)
        elif what == "back" and taken:
            entries.append(taken.pop())
            pool.put_back(entries[-1][2])
        elif what == "remove" and entries:
            gone = entries.pop(how[0] % len(entries))[2]
            assert pool.remove_of(gone.account) == [gone]
        assert pool.count == len(entries) == len(list(pool))
        for lane in range(4):
            there = [entry for entry in entries if entry[2].lane == lane]
            assert pool.head(lane) is (min(there, key=lambda entry: (-entry[0], entry[1]))[2] if there else None)
        assert all(pool.aged_priority(entry[2]) == of_the_source(entry[0]) for entry in entries)


def test_of_equal_ones_the_first_that_was_posted_goes_first() -> None:
    """Whatever their lanes, and whether they are marked or not."""
    pool = ReadyPool(5)
    posted = [element(1, 3, 2), element(2, 3, 1, is_boosted=True), element(3, 3, 1), element(4, 3, 2, is_boosted=True)]
    for each in posted:
        pool.add(each)
    for each in posted:
        assert pool.best([1, 2]) is each
        pool.take(each)


def test_a_new_boost_leaves_what_was_gained() -> None:
    """Who has waited for ten intervals at a boost of 5 does not fall back because it is 0 from now on."""
    pool = ReadyPool(5)
    marked, plain = element(1, 0, is_boosted=True), element(2, 30)
    pool.add(marked)
    pool.age += 10
    pool.change_boost(0)
    pool.add(plain)
    assert pool.aged_priority(marked) == of_the_source(60)
    assert pool.best([3]) is marked


def test_with_ageing_nothing_is_passed_for_ever() -> None:
    """However many more urgent ones come, one at each interval: the old one is as urgent in the end, and came first."""
    pool = ReadyPool(0)
    old = element(0, priority=-50)
    pool.add(old)
    for id in range(1, 100):
        pool.add(element(id, priority=0))
        best = pool.best([3])
        assert best is not None
        pool.take(best)
        if best is old:
            break
        pool.age += 1
    assert best is old
    assert id == 51


def test_without_ageing_the_priority_alone_decides() -> None:
    pool = ReadyPool(10)
    for id, priority in enumerate([0, 5, 5, -1]):
        pool.add(element(id, priority))
    order = []
    while (best := pool.best([3])) is not None:
        order.append(best.id)
        pool.take(best)
    assert order == [1, 2, 0, 3]
