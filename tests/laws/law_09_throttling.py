"""Law 9. A component has a request limit. At the limit it is asked to `make_room`; if it cannot, the caller gets `Busy` with
a hint when to come back. Nothing is ever dropped silently. By itself a component frees the place of something less urgent, and
one caller never gets all places.

Without it a queue grows until every answer is too late to be of use, and nobody has been told.
"""

from __future__ import annotations

import pytest

from appbackplane.runtime import Busy, Component, every, operation, subscribe
from appbackplane.runtime.objects.action import Action
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.transport.envelope import CALL, CAST, Envelope


class Store(Component):
    max_requests = 2

    def __init__(self, *, can_shed: bool = False) -> None:
        self.can_shed = can_shed
        self.asked: list[str] = []
        self.stored: list[int] = []

    def make_room(self, request: Action) -> bool:
        self.asked.append(f"{request.name} at {request.priority}")
        return self.can_shed and self.shed(below=request.priority) > 0

    @operation()
    def put(self, number: int) -> int:
        self.stored.append(number)
        return number

    @operation()
    async def fetch(self) -> int:
        value: int = await self.call("other.value")
        return value

    @subscribe("flood")
    def on_flood(self, number: int) -> None:
        self.stored.append(number)

    @every(1.0)
    def sweep(self) -> None: ...


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def backplane(store: Store) -> VirtualBackplane:
    return VirtualBackplane(store, outside=("other.value",))


def test_at_the_limit_the_caller_is_told_to_come_back_and_when(backplane: VirtualBackplane, store: Store) -> None:
    """Law 9. Busy without a hint is a storm of retries."""
    calls = [backplane.call("store.put", number=number) for number in range(4)]
    backplane.run_until_idle()
    assert [calls[0].result(), calls[1].result()] == [0, 1]
    for call in calls[2:]:
        error = call.error()
        assert isinstance(error, Busy)
        assert error.retry_after is not None
        assert 0 < error.retry_after <= 5
        assert "store has" in str(error)
    assert store.stored == [0, 1]


def test_the_component_is_asked_to_make_room_first(backplane: VirtualBackplane, store: Store) -> None:
    """Law 9. Only it knows what may go."""
    for number in range(3):
        backplane.call("store.put", number=number)
    backplane.run_until_idle()
    assert store.asked == ["store.put at 4"]


def test_room_is_made_at_the_cost_of_the_least_urgent_who_is_told() -> None:
    """Law 9 and DESIGN 12.10: degrade by priority before stopping. Whoever makes room gets Busy, not silence."""
    store = Store(can_shed=True)
    backplane = VirtualBackplane(store)
    low = [backplane.call("store.put", number=number, priority=6) for number in range(2)]
    urgent = backplane.call("store.put", number=9, priority=1)
    lower = backplane.call("store.put", number=8, priority=7)
    backplane.run_until_idle()
    assert (low[0].result(), urgent.result(), store.stored) == (0, 9, [0, 9])
    assert isinstance(low[1].error(), Busy)
    assert isinstance(lower.error(), Busy), "for less urgent work no room is made"


class Plain(Component):
    """Says nothing of its own about room."""

    max_requests = 10

    def __init__(self) -> None:
        self.served: list[str] = []

    @operation(priority=6)
    def serve(self, name: str) -> None:
        self.served.append(name)


class Small(Plain):
    """So small that nothing is kept from a caller."""

    component_name = "plain"
    max_requests = 4


def test_urgent_work_is_admitted_as_long_as_something_less_urgent_can_be_refused() -> None:
    """Law 9. Bulk work would shut out what is urgent."""
    backplane = VirtualBackplane(Small())
    bulk = [backplane.call("plain.serve", name="bulk") for _ in range(4)]
    urgent = [backplane.call("plain.serve", name="urgent", priority=0) for _ in range(5)]
    backplane.run_until_idle()
    assert all(isinstance(call.error(), Busy) for call in (*bulk, urgent[4]))
    assert [call.result() for call in urgent[:4]] == [None] * 4


def test_one_caller_does_not_get_all_places() -> None:
    """Law 9. What cannot be refused, because it is as urgent or has begun, must not keep all others out."""
    plain = Plain()
    backplane = VirtualBackplane(plain)
    own = [backplane.call("plain.serve", name="one's") for _ in range(12)]
    backplane.hear(Envelope(CAST, 0, None, "plain.serve", None, None, None, {"name": "another's"}), b"another")
    backplane.run_until_idle()
    assert [call.exception() is not None for call in own] == [False] * 9 + [True] * 3
    assert plain.served == ["one's"] * 9 + ["another's"]


def test_a_place_is_free_when_a_request_has_ended(backplane: VirtualBackplane, store: Store) -> None:
    """Law 9. A place that is lost at each error or cancellation closes the component for good."""
    for number in range(10):
        assert backplane.call("store.put", number=number).result() == number
    assert not isinstance(backplane.call("store.put", number="wrong").error(), Busy)
    cancelled = [backplane.call("store.put", number=0) for _ in range(2)]
    backplane.backplane.engine.drain(backplane.clock.now_ns())
    for call in cancelled:
        call.cancel()
    backplane.run_until_idle()
    late = [backplane.hear_call(Envelope(CALL, id, None, "store.put", None, 0, None, {"number": 0})) for id in (91, 92)]
    backplane.run_until_idle()
    assert not any(isinstance(call.error(), Busy) for call in late)
    assert backplane.call("store.put", number=11).result() == 11
    figures = backplane.backplane.statistics()["components"]["store"]
    assert (figures["outstanding"], figures["refused"]) == (0, 0)


def test_replies_and_timers_are_never_throttled(backplane: VirtualBackplane, store: Store) -> None:
    """Law 9 and DESIGN 12.6. A full component whose own replies are refused can never empty itself."""
    calls = [backplane.call("store.fetch") for _ in range(2)]
    backplane.run_until_idle()
    assert isinstance(backplane.call("store.put", number=0).error(), Busy)
    backplane.clock.sleep(1.0)
    backplane.outside_calls()[0].reply(5)
    assert backplane.run_until_idle()[:1] == ["fetch"]
    backplane.outside_calls()[1].reply(6)
    backplane.run_until_idle()
    assert [call.result() for call in calls] == [5, 6]
    assert "sweep" in backplane.advance(1)


def test_every_call_ends_and_every_refusal_is_counted(backplane: VirtualBackplane, store: Store) -> None:
    """Law 9. Nothing is dropped silently: what did not run stands in a counter, and its caller knows."""
    calls = [backplane.call("store.put", number=number) for number in range(50)]
    for number in range(20):
        backplane.publish("flood", number=100 + number)
        backplane.cast("store.put", number=200 + number)
    backplane.run_until_idle()
    assert all(call.done() for call in calls)
    operations = backplane.backplane.statistics()["operations"]
    done = sum(figures["count"] for name, figures in operations.items() if name in ("store.put", "store.on_flood"))
    refused = sum(figures["refused"] for figures in operations.values())
    assert done == len(store.stored)
    assert done + refused == 50 + 20 + 20
