"""`interleaves`: while one request awaits a reply the object serves others, the most urgent first, and one at a time runs."""

from __future__ import annotations

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime import (
    AppObject,
    Batch,
    Component,
    DeadlineExceeded,
    DeclarationError,
    FailedPrecondition,
    Replies,
    StateMachine,
    checkpoint,
    operation,
    pause,
    subscribe,
)
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.objects.interleaved import LEVELS
from appbackplane.runtime.scheduling import object_queue
from appbackplane.runtime.testing import VirtualBackplane, VirtualCall


class Station(AppObject):
    """Asks an archive outside for each frame."""

    interleaves = True

    def __init__(self) -> None:
        self.order: list[str] = []
        self.replies = Replies(self)

    @operation(priority=3)
    async def inspect(self, name: str) -> str:
        self.order.append(f"{name} asks")
        found = await self.call("archive.look", name=name)
        self.order.append(f"{name} goes on")
        return f"{name}: {found}"

    @operation(priority=0)
    def stop(self) -> str:
        self.order.append("stop")
        return "stopped"

    @operation(priority=3)
    async def come_back(self, depth: int) -> int:
        return 0 if not depth else 1 + await self.call("bench.come_back", key="belt", depth=depth - 1)

    @operation(priority=3)
    async def work(self, name: str, pieces: int) -> None:
        for piece in range(pieces):
            self.order.append(f"{name}{piece}")
            await checkpoint()

    @operation(priority=3)
    async def by_hand(self, id: int, patience: float = 30.0) -> str:
        return f"{id}: {await self.replies.wait(id, patience)}"

    @subscribe("verdicts")
    def on_verdict(self, id: int, verdict: str) -> None:
        self.order.append(str(self.replies.put(id, verdict)))


@pytest.fixture
def station() -> Station:
    return Station()


@pytest.fixture
def backplane(station: Station) -> VirtualBackplane:
    backplane = VirtualBackplane(outside=("archive.look",))
    backplane.add(station, key="belt")
    return backplane


def inspect(backplane: VirtualBackplane, *names: str, priority: int | None = None) -> list[VirtualCall]:
    calls = [backplane.call("bench.inspect", key="belt", name=name, priority=priority) for name in names]
    backplane.run_until_idle()
    return calls


def test_others_are_served_while_one_awaits_its_reply(backplane: VirtualBackplane, station: Station) -> None:
    """Any number of them, and each goes on with its own reply."""
    names = [f"f{number}" for number in range(500)]
    calls = inspect(backplane, *names)
    asked = backplane.outside_calls()
    assert [call.arguments["name"] for call in asked] == names
    assert backplane.call("bench.stop", key="belt").result() == "stopped"
    for call in reversed(asked):
        call.reply("ok")
    assert [call.result() for call in calls] == [f"{name}: ok" for name in names]
    assert station.order[501:] == [f"{name} goes on" for name in reversed(names)]
    assert not station._load and not station._waits


def test_the_most_urgent_goes_first_and_those_begun_before_those_that_begin(
    backplane: VirtualBackplane, station: Station
) -> None:
    inspect(backplane, "a", "b")
    for call in backplane.outside_calls():
        call.reply()
    for name, priority in (("late", 5), ("c", 3), ("soon", 1), ("d", 3)):
        backplane.call("bench.inspect", key="belt", name=name, priority=priority)
    backplane.call("bench.stop", key="belt")
    station.order.clear()
    backplane.run_until_idle()
    assert station.order == ["stop", "soon asks", "a goes on", "b goes on", "c asks", "d asks", "late asks"]


def test_one_that_gives_way_lets_those_of_its_object_pass(backplane: VirtualBackplane, station: Station) -> None:
    """`checkpoint` gives way to more urgent work, and this object's is no exception."""
    backplane.call("bench.work", key="belt", name="w", pieces=2)
    backplane.run_until_idle()
    assert station.order == ["w0", "w1"]


def test_a_call_that_comes_back_is_served(backplane: VirtualBackplane) -> None:
    """Another object would wait for itself: it is refused there."""
    assert backplane.call("bench.come_back", key="belt", depth=5).result() == 5
    assert all(each.reentrant for each in backplane.backplane.entries()[0].operations), "`check` finds no cycle"


def test_nobody_waits_for_one_that_awaits_a_reply(backplane: VirtualBackplane) -> None:
    """So it inherits no priority, and neither does its callee: an urgent request passes it."""
    (call,) = inspect(backplane, "a")
    backplane.call("bench.inspect", key="belt", name="urgent", priority=0)
    backplane.run_until_idle()
    slow, urgent = backplane.outside_calls()
    inheritance = backplane.backplane.engine.inheritance
    assert inheritance.count == 0
    assert (slow.envelope.priority, urgent.envelope.priority) == (3, 0)
    slow.reply()
    assert call.result()


def test_cancelled_and_late_ones_leave(backplane: VirtualBackplane, station: Station) -> None:
    """They take nothing with them."""
    calls = inspect(backplane, "a", "b", "c")
    calls[1].cancel()
    backplane.run_until_idle()
    backplane.advance(31.0)
    for call in calls[::2]:
        assert isinstance(call.error(), DeadlineExceeded)
    assert not station._load and station._head is None and station._tails == [None] * (LEVELS * 8)


def test_replies_find_their_operation_by_id(backplane: VirtualBackplane, station: Station) -> None:
    """A reply that is no answer to a call: here a message of a topic."""
    calls = [backplane.call("bench.by_hand", key="belt", id=number) for number in range(3)]
    backplane.run_until_idle()
    assert [*station.replies] == [0, 1, 2] and len(station.replies) == 3 and 2 in station.replies
    for number in (2, 0, 7):
        backplane.publish("verdicts", id=number, verdict="good")
    assert [calls[number].result() for number in (0, 2)] == ["0: good", "2: good"]
    assert station.order == ["True", "True", "False"]
    assert station.replies.fail(1, FailedPrecondition("the belt stands"))
    assert not station.replies.put(1, "good"), "it has its reply, though it has not gone on yet"
    assert str(calls[1].error()) == "the belt stands"
    assert not len(station.replies)


def test_a_reply_that_does_not_come(backplane: VirtualBackplane, station: Station) -> None:
    """The timer of its context; an id is free again afterwards, and can be awaited once at a time."""
    call, other = (backplane.call("bench.by_hand", key="belt", id=1, patience=t) for t in (0.5, 1.0))
    backplane.run_until_idle()
    assert str(other.error()) == "virtual/bench.belt: the reply 1 is already awaited"
    backplane.advance(0.6)
    assert str(call.error()) == "virtual/bench.belt: the reply 1 did not come within 0.5 s"
    assert not station.replies.put(1, "late") and 1 not in station.replies


@pytest.mark.parametrize(("timeout", "error"), [("1", TypeError), (True, TypeError), (-1.0, ValueError)])
def test_a_bad_time_limit(station: Station, timeout: object, error: type[Exception]) -> None:
    """Refused before anything waits."""
    with pytest.raises(error, match=r"wait\(timeout="):
        station.replies.wait(1, timeout).send(None)  # type: ignore[arg-type]


def test_why_names_the_reply(backplane: VirtualBackplane, station: Station) -> None:
    """An operator asks for a request that waits, and for one that waits for a worker: no other request is in its way."""
    backplane.call("bench.by_hand", key="belt", id=7)
    backplane.run_until_idle()
    (step,) = backplane.backplane.why("virtual/bench.belt")["steps"]
    assert "the reply 7" in str(step)
    backplane.post(station, "stop")
    (step,) = backplane.backplane.why("virtual/bench.belt")["steps"]
    assert [reason["because"] for reason in step["reasons"]] == ["next"]


def started(object: AppObject) -> None:
    """A backplane that has it."""
    backplane = VirtualBackplane()
    backplane.add(object)
    backplane.run_until_idle()


class Colour(enum.Enum):
    RED = 1


class Batched(AppObject):
    interleaves = True

    @operation(batch=Batch(max=2))
    def store(self, row: list[int]) -> None: ...


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (type("Wrong", (AppObject,), {"interleaves": 1}), "expected True or False, got 1"),
        (type("Twice", (AppObject,), {"interleaves": True, "concurrency": 2}), "declare one of them"),
        (Batched, "a batch is gathered"),
    ],
)
def test_declarations_that_contradict_each_other(kind: type[AppObject], words: str) -> None:
    """One line, which says which."""
    with pytest.raises(DeclarationError, match="interleaves") as raised:
        started(kind())
    assert words in str(raised.value)


def test_a_component_and_a_state_machine_cannot_interleave() -> None:
    """Hooks of a component have an order; the states of a machine are not to change under a request that waits."""

    class Whole(Component):
        interleaves = True

    class Lamp(StateMachine):
        interleaves = True
        initial = Colour.RED

    with pytest.raises(DeclarationError, match="is for objects"):
        VirtualBackplane(Whole()).run_until_idle()
    with pytest.raises(DeclarationError, match="others have changed"):
        started(Lamp())


def test_without_it_nothing_has_changed(backplane: VirtualBackplane) -> None:
    """Laws 1 and 6 are those of every other object."""

    class Plain(AppObject):
        @operation()
        async def rest(self) -> None:
            await pause(1.0)

    backplane.add(Plain(), key="plain")
    first, second = (backplane.call("bench.rest", key="plain") for _ in range(2))
    backplane.advance(1.5)
    assert first.done() and not second.done()


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["begin", "go on", "pop", "remove", "raise"]), st.integers(0, 3), st.integers(0, 30)),
        max_size=60,
    )
)
def test_its_queue_is_in_order_whatever_happens(steps: list[tuple[str, int, int]]) -> None:
    """Against a list that is sorted each time."""
    object = AppObject()
    object._tails = [None] * (LEVELS * 4)
    queue: list[Action] = []
    for step, priority, number in steps:
        chosen = queue[number % len(queue)] if queue else None
        if step in ("begin", "go on"):
            action = Action(object, str(number), priority)
            action.continues = step == "go on"
            (object_queue.prepend if action.continues else object_queue.append)(object, action, 4)
            queue.append(action)
        elif chosen is None:
            continue
        elif step == "pop":
            assert object_queue.pop(object) is queue.pop(0)
        elif step == "remove":
            assert object_queue.remove(object, chosen)
            queue.remove(chosen)
        else:
            assert object_queue.set_priority(object, chosen, priority, 4)
            queue.remove(chosen)
            queue.append(chosen)
        queue.sort(key=lambda action: (action.priority, not action.continues))
        found, here = [], object._head
        while here is not None:
            found.append(here)
            here = here.next
        assert found == queue
        assert object._tail is (queue[-1] if queue else None)
        if queue:
            assert object._priority == queue[0].priority
        last = {LEVELS * each.priority + (not each.continues): each for each in queue}
        assert object._tails == [last.get(level) for level in range(LEVELS * 4)]
