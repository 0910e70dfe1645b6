"""Ready queues: first come, first served within a priority, whatever has been raised, lowered or taken back meanwhile."""

from __future__ import annotations

from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling.ready_queues import DEAD_MAX, ReadyQueues


def object_of(priority: int) -> AppObject:
    object = AppObject()
    object._priority = priority
    return object


def take(queues: ReadyQueues, priority: int) -> AppObject | None:
    """The next object of one queue."""
    left = [0] * len(queues.queues)
    left[priority] = 1
    object = queues.take(left, len(left))
    assert left[priority] == (0 if object is not None else 1)
    return object


def change(queues: ReadyQueues, object: AppObject, priority: int) -> None:
    before, object._priority = object._priority, priority
    queues.move(object, before)


def test_objects_of_one_priority_leave_in_the_order_they_came() -> None:
    """Law 3. Any other order would let an object starve among its equals."""
    queues = ReadyQueues(2)
    objects = [object_of(1) for _ in range(5)]
    for object in objects:
        queues.push(object)
    assert [take(queues, 1) for _ in range(6)] == [*objects, None]
    assert queues.count == 0


def test_the_search_ends_at_the_first_priority_that_may_not_be_taken() -> None:
    """A relief worker takes only what is more urgent than what runs."""
    queues = ReadyQueues(4)
    urgent, bulk = object_of(1), object_of(2)
    queues.push(bulk)
    assert queues.take([9] * 4, 2) is None
    queues.push(urgent)
    assert queues.take([9] * 4, 2) is urgent
    assert queues.take([9] * 4, 3) is bulk


def test_an_object_that_is_raised_stands_in_one_queue_only() -> None:
    """Law 2. A second place would run the object twice at once, or a stranger's action in its name."""
    queues = ReadyQueues(8)
    first, second = object_of(5), object_of(5)
    queues.push(first)
    queues.push(second)
    change(queues, first, 0)
    assert queues.depths() == [1, 0, 0, 0, 0, 1, 0, 0]
    assert queues.highest() == 0
    assert take(queues, 0) is first
    assert queues.highest() == 5
    assert take(queues, 5) is second
    assert take(queues, 5) is None


def test_an_object_that_comes_back_to_its_old_queue_stands_last() -> None:
    """Its dead place is in front of its new one; taking the wrong one for dead would let it overtake."""
    queues = ReadyQueues(8)
    roving, waiting = object_of(5), object_of(5)
    queues.push(roving)
    queues.push(waiting)
    change(queues, roving, 2)
    change(queues, roving, 5)
    assert [take(queues, 5), take(queues, 5), take(queues, 5)] == [waiting, roving, None]


def test_an_object_that_has_no_work_left_is_not_chosen() -> None:
    """Its last action was withdrawn: choosing it would run nothing, or fail."""
    queues = ReadyQueues(3)
    gone, there = object_of(1), object_of(1)
    queues.push(gone)
    queues.push(there)
    queues.discard(gone, 1)
    assert (queues.count, queues.depths()) == (1, [0, 1, 0])
    assert take(queues, 1) is there
    queues.push(gone)
    assert take(queues, 1) is gone


def test_a_queue_that_is_never_reached_does_not_grow() -> None:
    """Everything has a bound. Objects raised out of a starving queue would leave a place behind each time, for ever."""
    queues = ReadyQueues(8)
    starving = [object_of(7) for _ in range(3)]
    for object in starving:
        queues.push(object)
    raised = object_of(7)
    for _ in range(100 * DEAD_MAX):
        raised._priority = 7
        queues.push(raised)
        change(queues, raised, 0)
        assert take(queues, 0) is raised
        assert len(queues.queues[7]) <= len(starving) + 1 + DEAD_MAX
    assert [take(queues, 7) for _ in range(4)] == [*starving, None]
