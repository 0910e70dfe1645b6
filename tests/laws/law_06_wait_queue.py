"""Law 6. An object that awaits a reply is in the wait queue.

New requests queue behind; the reply goes to the front of its queue and the object back to its ready queue. One outstanding
reply an object. An object in the wait queue cannot be removed. Without it, an object is changed under the feet of its own
half-finished work, or a reply waits behind strangers.
"""

from __future__ import annotations

import pytest

from appbackplane.runtime import AppObject, FailedPrecondition, operation
from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.scheduling.scheduler import Policy, Scheduler
from appbackplane.runtime.testing import VirtualBackplane


class Shard(AppObject):
    def __init__(self) -> None:
        self.seen: list[str] = []

    @operation()
    async def rebuild(self) -> None:
        self.seen.append("begins")
        await self.call("index.stats")
        self.seen.append("goes on")

    @operation()
    def search(self) -> None:
        self.seen.append("search")

    @operation(priority=0)
    def urgent(self) -> None:
        self.seen.append("urgent")

    @operation()
    def stats(self) -> None: ...


@pytest.fixture
def backplane() -> VirtualBackplane:
    return VirtualBackplane(outside=("index.stats",))


def test_a_reply_overtakes_queued_requests(backplane: VirtualBackplane) -> None:
    """Law 6. A reply that queued behind strangers would make every call as slow as the busiest object."""
    shard = backplane.add(Shard())
    backplane.post(shard, "search")
    backplane.post_reply(shard, "stats")
    assert backplane.run_until_idle() == ["stats", "search"]


def test_new_requests_queue_behind_the_awaited_reply(backplane: VirtualBackplane) -> None:
    """Law 6. Even urgent ones: they would see the object in the middle of something."""
    shard = backplane.add(Shard())
    backplane.post(shard, "rebuild")
    assert backplane.run_until_idle() == ["rebuild"]
    backplane.post(shard, "search")
    backplane.post(shard, "urgent")
    assert backplane.run_until_idle() == []
    (call,) = backplane.outside_calls("index.stats")
    call.reply({})
    backplane.run_until_idle()
    assert shard.seen == ["begins", "goes on", "search", "urgent"]


def test_the_reply_comes_at_the_priority_of_what_waits_for_the_object(backplane: VirtualBackplane) -> None:
    """Law 6 with law 2. The object returns to the ready queue of its most urgent action, not of the reply."""
    shard, stranger = backplane.add(Shard()), backplane.add(Shard())
    backplane.post(shard, "rebuild", priority=5)
    backplane.run_until_idle()
    backplane.post(shard, "urgent")
    backplane.post(stranger, "search", priority=3)
    backplane.outside_calls()[0].reply({})
    assert backplane.run_until_idle() == ["rebuild", "urgent", "search"]


def test_an_object_awaits_one_reply_at_a_time(backplane: VirtualBackplane) -> None:
    """Law 6. A second rebuild that began meanwhile would be the very overlap that objects exclude."""
    shard = backplane.add(Shard())
    backplane.post(shard, "rebuild")
    backplane.post(shard, "rebuild")
    backplane.run_until_idle()
    assert len(backplane.outside_calls()) == 1
    assert backplane.backplane.statistics()["queues"]["waiting"] == 1
    backplane.outside_calls()[0].reply({})
    backplane.run_until_idle()
    assert shard.seen == ["begins", "goes on", "begins"]
    assert len(backplane.outside_calls()) == 2


def test_who_waits_does_not_hold_a_worker(backplane: VirtualBackplane) -> None:
    """Law 6. Other objects run while this one waits; a blocked worker would be the old way."""
    shard, other = backplane.add(Shard()), backplane.add(Shard())
    backplane.post(shard, "rebuild")
    backplane.post(other, "search")
    assert backplane.run_until_idle() == ["rebuild", "search"]


def test_an_object_in_the_wait_queue_cannot_be_removed(backplane: VirtualBackplane) -> None:
    """Law 6. Its reply would come to nobody, and whoever waits for it in turn would wait for ever."""
    shard = backplane.add(Shard())
    backplane.post(shard, "rebuild")
    backplane.run_until_idle()
    component = shard._component
    assert component is not None
    with pytest.raises(FailedPrecondition, match="awaits a reply: it cannot be removed from the wait queue"):
        component.remove(shard)
    backplane.outside_calls()[0].reply({})
    backplane.run_until_idle()
    component.remove(shard)
    assert shard not in component.objects


def test_reentrant_calls_do_not_wait_for_the_reply_that_waits_for_them() -> None:
    """Law 6 and DESIGN 12.6. Queued behind ordinary requests, the second would hang until the deadline of the first."""
    scheduler = Scheduler(Policy(), 0)
    object = AppObject()
    waits = Action(object, "waits", 4)
    scheduler.post(waits, 0)
    assert scheduler.next(0) is waits
    scheduler.finished(waits, Outcome.WAITING, 0)
    ordinary = Action(object, "ordinary", 0)
    scheduler.post(ordinary, 0)
    inner = [Action(object, f"inner-{number}", 4) for number in range(3)]
    for action in inner:
        action.continues = True
        scheduler.post(action, 0)
    for action in inner:
        assert scheduler.next(0) is action
        scheduler.finished(action, Outcome.DONE, 0)
    assert scheduler.next(0) is None
    scheduler.resume(waits, 0)
    assert scheduler.next(0) is waits
    scheduler.finished(waits, Outcome.DONE, 0)
    assert scheduler.next(0) is ordinary
