"""Balance: a call that names no object goes to the least busy one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.balance import LOOK_MAX, least_busy


def objects_with(loads: list[int]) -> list[AppObject]:
    objects = []
    for number, load in enumerate(loads):
        object = AppObject()
        object._load, object._name = load, f"object-{number}"
        objects.append(object)
    return objects


@given(st.lists(st.integers(0, 5), min_size=1, max_size=LOOK_MAX), st.integers(0, 1000))
def test_nobody_looked_at_is_less_busy_than_the_chosen_one(loads: list[int], start: int) -> None:
    """Seed 002, "load balance between available objects"."""
    chosen = least_busy(objects_with(loads), start)
    assert chosen is not None
    assert chosen._load == min(loads)


def test_equal_objects_take_turns() -> None:
    """Always the first would leave all others idle."""
    objects = objects_with([0, 0, 0])
    assert [least_busy(objects, start) for start in range(4)] == [*objects, objects[0]]
    objects = objects_with([2, 2, 2])
    assert [least_busy(objects, start) for start in range(3)] == objects


def test_among_many_the_search_is_bounded() -> None:
    """100,000 objects must not make a call 100,000 times as dear."""
    objects = objects_with([3] * LOOK_MAX + [0] + [3] * 10)
    assert least_busy(objects, 0) is objects[0]
    assert least_busy(objects, 5) is objects[LOOK_MAX]


def test_who_waits_in_the_chain_is_chosen_only_if_nobody_else_is_there() -> None:
    """DESIGN 12.6. The caller's own object may be the idlest, and a call to it would wait for itself."""
    objects = objects_with([0, 7])
    assert least_busy(objects, 0, ["object-0"]) is objects[1]
    assert least_busy(objects, 0, ["object-0", "object-1"]) is objects[0]


def test_nobody_there_is_none() -> None:
    """The caller is told; an index error would be a bug report."""
    assert least_busy([], 0) is None
