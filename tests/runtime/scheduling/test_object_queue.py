"""The queue of one object, against a plain list: order, and the highest priority in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.objects.app_object import AppObject
from appbackplane.runtime.scheduling import object_queue

PRIORITIES = 4
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "prepend", "insert", "pop", "remove", "set_priority"]),
        st.integers(0, PRIORITIES - 1),
        st.booleans(),
    ),
    max_size=60,
)


def contents(object: AppObject) -> list[Action]:
    found: list[Action] = []
    here = object._head
    while here is not None:
        found.append(here)
        here = here.next
    return found


@given(STEPS)
def test_the_queue_is_a_list_that_knows_its_highest_priority(steps: list[tuple[str, int, bool]]) -> None:
    """Laws 1 and 2. A link lost in the middle loses actions; a wrong highest priority schedules the object wrongly."""
    object = AppObject()
    model: list[Action] = []
    for step, priority, continues in steps:
        action = Action(object, step, priority)
        action.continues = continues
        if step == "append":
            object_queue.append(object, action, PRIORITIES)
            model.append(action)
        elif step == "prepend":
            object_queue.prepend(object, action, PRIORITIES)
            model.insert(0, action)
        elif step == "insert":
            object_queue.insert(object, action, PRIORITIES)
            model.insert(next((at for at, each in enumerate(model) if not each.continues), len(model)), action)
        elif step == "pop" and model:
            assert object_queue.pop(object) is model.pop(0)
        elif step == "remove":
            victim = model[priority % len(model)] if model else action
            assert object_queue.remove(object, victim) == (victim in model)
            model = [each for each in model if each is not victim]
        elif step == "set_priority":
            victim = model[priority % len(model)] if model else action
            changed = (victim.priority + 1 + priority) % PRIORITIES
            assert object_queue.set_priority(object, victim, changed, PRIORITIES) == (victim in model)
            assert victim.priority == changed
        assert contents(object) == model
        if object._counts is not None:
            priorities = [each.priority for each in model]
            assert object._counts == [priorities.count(priority) for priority in range(PRIORITIES)]
        assert object._tail is (model[-1] if model else None)
        if model:
            assert object._priority == min(each.priority for each in model)


def test_an_idle_object_owns_no_queue() -> None:
    """100,000 objects must stay affordable: what a queue needs is let go of with its last action."""
    object = AppObject()
    for priority in (3, 1, 2):
        object_queue.append(object, Action(object, "work", priority), PRIORITIES)
    assert object._counts is not None
    for _ in range(3):
        assert object_queue.pop(object).next is None
    assert (object._head, object._tail, object._counts) == (None, None, None)
