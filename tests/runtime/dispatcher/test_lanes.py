"""Lanes: what shares a key is queued on one object, whatever comes and goes; lanes are used again."""

from __future__ import annotations

import pytest

from appbackplane.runtime.dispatcher import Dispatcher
from appbackplane.runtime.dispatcher.lanes import MessageLanes
from appbackplane.runtime.testing import VirtualBackplane


@pytest.fixture
def lanes() -> MessageLanes:
    hub = Dispatcher()
    _ = VirtualBackplane(hub).backplane
    return MessageLanes(hub)


def test_a_lane_is_shared_until_the_last_has_gone(lanes: MessageLanes) -> None:
    """Law 1. Two messages of one key on two lanes would run side by side, or in any order."""
    first, second, other = lanes.take("key"), lanes.take("key"), lanes.take("another key")
    assert first is second and first is not other
    lanes.give_back(first)
    assert lanes.take("key") is first
    lanes.give_back(first)
    assert lanes.take(None) not in (first, other)
    lanes.give_back(first)
    lanes.give_back(other)
    assert lanes.shared == {}, "or every key that ever came would be kept"


@pytest.mark.parametrize("shared_by", [None, "key"])
def test_lanes_are_used_again(lanes: MessageLanes, shared_by: str | None) -> None:
    """A million messages, one after the other, need one object."""
    lane = lanes.take(shared_by)
    lanes.give_back(lane)
    for key in ("one", None, "two", None):
        again = lanes.take(key)
        assert again is lane and again.shared_by == key
        lanes.give_back(again)
