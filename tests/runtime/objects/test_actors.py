"""Actors: one operation, whose requests are sorted by category into queues of their own (seed 004, "Multiple Actor Model")."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime import (
    Actors,
    AppObject,
    Batch,
    Busy,
    Component,
    DeclarationError,
    FailedPrecondition,
    InternalError,
    NotFound,
    current,
    operation,
)
from appbackplane.runtime.testing import VirtualBackplane


def kind_of(shop: Shop, item: str, count: int = 1) -> Any:
    """The category of an order."""
    if item == "nothing":
        raise ValueError("nothing is ordered")
    if item == "everything":
        raise Busy("sold out", retry_after=60)
    return ["?"] if item == "riddle" else shop.kinds.get(item, "bulk" if count > 100 else "retail")


class Shop(Component):
    """Orders of three categories; gold customers have no actor."""

    kinds = {"ring": "gold"}
    desks = Actors(by=kind_of, workers={"retail": 1, "bulk": 2})

    def __init__(self) -> None:
        self.orders: list[str] = []

    @operation(actors=desks)
    def order(self, item: str, count: int = 1) -> str:
        self.orders.append(item)
        action = current()
        return f"{action.object.name if action is not None else ''} at {action.priority if action is not None else ''}"

    @operation(actors=desks)
    async def deliver(self, item: str, count: int = 1) -> str:
        found = await self.call("store.find", item=item)
        self.orders.append(item)
        return f"{found} {item}"

    @operation()
    def count(self) -> int:
        return len(self.orders)


class Clinic(Component):
    """Patients in three ranges of priorities."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @operation(priority=5, actors=Actors(by="priority", workers={4: 1, 0: 1, 2: 1}))
    async def see(self, name: str) -> str:
        await self.call("laboratory.test", name=name)
        self.seen.append(name)
        action = current()
        assert action is not None
        return action.object.key or ""


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def backplane(shop: Shop) -> VirtualBackplane:
    return VirtualBackplane(shop, outside=("store.find",), name="mall")


def test_a_request_goes_to_the_actor_of_its_category(backplane: VirtualBackplane, shop: Shop) -> None:
    """The method is the component's, and so are its data; the queue is the actor's."""
    assert backplane.call("shop.order", item="pen").result() == "mall/shop.retail at 4"
    assert backplane.call("shop.order", item="pen", count=101, priority=6).result() == "mall/shop.bulk at 6"
    assert shop.orders == ["pen", "pen"]
    assert [each.key for each in shop.objects] == ["retail", "bulk"]


def test_so_many_requests_of_an_actor_are_served_at_a_time(backplane: VirtualBackplane) -> None:
    """Two of bulk, one of retail. A bound that counted for all actors together would make them one."""
    calls = [backplane.call("shop.deliver", item=f"b{n}", count=200) for n in range(4)]
    calls += [backplane.call("shop.deliver", item=f"r{n}") for n in range(2)]
    backplane.run_until_idle()
    assert [each.envelope.body["item"] for each in backplane.outside_calls()] == ["b0", "b1", "r0"]
    for number in range(len(calls)):
        backplane.outside_calls()[number].reply("here:")
        backplane.run_until_idle()
    assert [call.result() for call in calls] == [f"here: {item}" for item in ("b0", "b1", "b2", "b3", "r0", "r1")]


def test_order_holds_within_an_actor_and_not_between_actors(backplane: VirtualBackplane, shop: Shop) -> None:
    """What was ordered first waits in its actor, while the other one goes on."""
    for item, count in (("r0", 1), ("r1", 1), ("b0", 200)):
        backplane.call("shop.deliver", item=item, count=count)
    backplane.run_until_idle()
    first, other = backplane.outside_calls()
    other.reply("")
    backplane.run_until_idle()
    assert shop.orders == ["b0"]
    first.reply("")
    backplane.run_until_idle()
    assert shop.orders == ["b0", "r0"]


def test_operations_with_the_same_actors_share_their_queues(backplane: VirtualBackplane, shop: Shop) -> None:
    """The second operation waits for the first, in the actor that has one worker."""
    backplane.call("shop.deliver", item="pen")
    order = backplane.call("shop.order", item="ink")
    backplane.run_until_idle()
    assert not order.done()
    assert backplane.call("shop.count").result() == 0  # the component's own queue is free
    backplane.outside_calls()[0].reply("")
    backplane.run_until_idle()
    assert shop.orders == ["pen", "ink"]


@pytest.mark.parametrize(("asked", "key"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (7, 4), (None, 4)])
def test_by_priority_each_range_has_an_actor(asked: int | None, key: int) -> None:
    """Without a priority of the caller's it is the operation's."""
    backplane = VirtualBackplane(Clinic(), outside=("laboratory.test",))
    call = backplane.call("clinic.see", name="ada", priority=asked)
    backplane.run_until_idle()
    backplane.outside_calls()[0].reply(None)
    assert call.result() == f"priority-{key}"


def test_an_urgent_request_passes_those_that_wait() -> None:
    """One object would serve it behind them: an object's requests run in order, and one at a time."""
    clinic = Clinic()
    backplane = VirtualBackplane(clinic, outside=("laboratory.test",))
    for name in ("ada", "bob"):
        backplane.call("clinic.see", name=name)
    backplane.run_until_idle()
    backplane.call("clinic.see", name="eve", priority=0)
    backplane.run_until_idle()
    assert [each.envelope.body["name"] for each in backplane.outside_calls()] == ["ada", "eve"]
    backplane.outside_calls()[1].reply(None)
    backplane.run_until_idle()
    assert clinic.seen == ["eve"]


def test_an_unknown_category_is_one_clear_error(backplane: VirtualBackplane, shop: Shop) -> None:
    """It names the category, and those that there are."""
    error = backplane.call("shop.order", item="ring").error()
    assert isinstance(error, NotFound)
    assert str(error) == "shop.order: no actor for the category 'gold' (there are 'retail', 'bulk')"
    assert "no actor for the category ['?']" in str(backplane.call("shop.order", item="riddle").error())
    assert shop.orders == []


def test_a_function_that_fails_ends_the_request(backplane: VirtualBackplane) -> None:
    """A mistake of the function is named; an error of the runtime's is what it refuses the request with."""
    error = backplane.call("shop.order", item="nothing").error()
    assert isinstance(error, InternalError)
    assert "shop.order: kind_of could not sort the request: ValueError: nothing is ordered" in str(error)
    assert isinstance(backplane.call("shop.order", item="everything").error(), Busy)


def test_a_function_that_fails_ends_a_call_between_objects_too() -> None:
    """The calling object is of the same backplane: the error must not end its worker."""

    class Buyer(Component):
        @operation()
        async def buy(self) -> str:
            try:
                return str(await self.call("shop.order", item="nothing"))
            except InternalError:
                return "nothing"

    assert VirtualBackplane(Shop(), Buyer()).call("buyer.buy").result() == "nothing"


def test_a_caller_that_names_an_actor_is_believed(backplane: VirtualBackplane) -> None:
    """As with a digester. Only actors of this operation serve it."""
    assert backplane.call("shop.order", key="bulk", item="pen").result() == "mall/shop.bulk at 4"
    assert "no object with key 'gold'" in str(backplane.call("shop.order", key="gold", item="pen").error())


def test_the_actors_of_another_operation_do_not_serve_this_one() -> None:
    """Their queues have other bounds."""

    class Two(Component):
        @operation(actors=Actors(by="priority", workers={0: 1}))
        def one(self) -> None: ...

        @operation(actors=Actors(by=lambda two: "slow", workers={"slow": 1}))
        def other(self) -> None: ...

    backplane = VirtualBackplane(Two())
    assert backplane.call("two.other").result() is None
    assert "virtual/two.slow does not serve two.one" in str(backplane.call("two.one", key="slow").error())


def test_an_actor_cannot_be_removed(shop: Shop) -> None:
    """Its requests would find no queue."""

    class Closing(Shop):
        component_name = "shop"

        @operation()
        def close(self) -> None:
            self.remove(self.objects[0])

    error = VirtualBackplane(Closing()).call("shop.close").error()
    assert isinstance(error, FailedPrecondition)
    assert "shop.retail is an actor" in str(error)


def test_actors_lend_the_priority_of_their_component() -> None:
    """`lends` is of the component's calls, whichever queue they stand in."""

    class Vault(Shop):
        component_name = "shop"
        lends = 1

    assert VirtualBackplane(Vault(), name="mall").call("shop.order", item="pen").result() == "mall/shop.retail at 1"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("bulk", r"actors='bulk': expected categories, as in Actors\(by=\"priority\", workers=\{0: 1\}\)"),
        (Actors(by="priority", workers={}), r"actors: workers=\{\}: expected a number for each actor"),
        (Actors(by="priority", workers={0: 1, "bulk": 1}), r"actors: 'bulk' is no priority"),  # type: ignore[dict-item]
        (Actors(by="priority", workers={0: 1, -1: 1}), r"actors: -1 is no priority"),
        (Actors(by="priority", workers={2: 1, 1: 1}), r"actors: no actor serves priority 0: the first is named 1"),
        (Actors(by=7, workers={"a": 1}), r"actors: by=7: expected \"priority\", or a function"),  # type: ignore[arg-type]
        (Actors(by=kind_of, workers={"a": 1, "": 1}), r"actors: '' is no name of an actor"),
        (Actors(by=kind_of, workers={"a": 0}), r"actors: 0 workers: expected a whole number from 1"),
        (Actors(by=kind_of, workers={0: 1}), r"actors: 0 is no name of an actor"),
    ],
)
def test_wrong_actors_are_refused_with_the_method(given: Any, problem: str) -> None:
    """When the class is made: a call would find out too late."""
    with pytest.raises(DeclarationError, match=f"serve: {problem}"):

        class Wrong(Component):
            @operation(actors=given)
            def serve(self) -> None: ...


def test_a_digester_or_a_batch_excludes_actors() -> None:
    """Each of them determines the queue."""
    with pytest.raises(DeclarationError, match="actors excludes digest"):

        class Digested(Component):
            @operation(actors=Actors(by="priority", workers={0: 1}), digest="serve")
            def serve(self) -> None: ...

    with pytest.raises(DeclarationError, match="actors excludes batch"):

        class Batched(Component):
            @operation(actors=Actors(by="priority", workers={0: 1}), batch=Batch(max=2))
            def serve(self, item: list[str]) -> None: ...


class Desk(AppObject):
    """No component."""

    @operation(priority=0, actors=Actors(by="priority", workers={0: 1}))
    def serve(self) -> None: ...


class Office(Component):
    """Its object has actors."""

    declares = (Desk,)


class Low(Component):
    """It needs more priorities than the backplane has."""

    @operation(priority=0, actors=Actors(by="priority", workers={0: 1, 4: 1}))
    def serve(self) -> None: ...


@pytest.mark.parametrize(
    ("component", "problem"),
    [
        (Office, r"Desk.serve: actors are queues of a component: declare the operation there"),
        (Low, r"Low.serve: actors: priority 4, but the backplane has 0..3"),
    ],
)
def test_wrong_actors_are_refused_with_the_component(component: type[Component], problem: str) -> None:
    """`check` finds these, before anything starts."""
    with pytest.raises(DeclarationError, match=problem):
        _ = VirtualBackplane(component(), priorities=4).backplane
