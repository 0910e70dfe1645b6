"""Delivery queues: what shares a key is queued on one object, whatever comes and goes; queues are used again."""

from __future__ import annotations

import pytest

from appbackplane.runtime.dispatcher import Dispatcher
from appbackplane.runtime.dispatcher.delivery_queues import DeliveryQueues
from appbackplane.runtime.testing import VirtualBackplane


@pytest.fixture
def queues() -> DeliveryQueues:
    hub = Dispatcher()
    _ = VirtualBackplane(hub).backplane
    return DeliveryQueues(hub)


def test_a_queue_is_shared_until_the_last_has_gone(queues: DeliveryQueues) -> None:
    """Law 1. Two messages of one key on two queues would run side by side, or in any order."""
    first, second, other = queues.take("key"), queues.take("key"), queues.take("another key")
    assert first is second and first is not other
    queues.give_back(first)
    assert queues.take("key") is first
    queues.give_back(first)
    assert queues.take(None) not in (first, other)
    queues.give_back(first)
    queues.give_back(other)
    assert queues.shared == {}, "or every key that ever came would be kept"


@pytest.mark.parametrize("ordering_key", [None, "key"])
def test_queues_are_used_again(queues: DeliveryQueues, ordering_key: str | None) -> None:
    """A million messages, one after the other, need one object."""
    queue = queues.take(ordering_key)
    queues.give_back(queue)
    for key in ("one", None, "two", None):
        again = queues.take(key)
        assert again is queue and again.ordering_key == key
        queues.give_back(again)
