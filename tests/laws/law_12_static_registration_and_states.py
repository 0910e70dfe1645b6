"""Law 12. All routes, topics and timers are known when the components are constructed; components register and deregister
by system state by themselves.

Without it a caller finds out at run time what is missing, and a component that is still starting answers out of nothing.
"""

from __future__ import annotations

import pytest

from appbackplane.runtime import (
    AppObject,
    Component,
    DeclarationError,
    FailedPrecondition,
    Unavailable,
    every,
    operation,
    subscribe,
)
from appbackplane.runtime.testing import VirtualBackplane


class Lamp(AppObject):
    @operation()
    def shine(self) -> str:
        return "light"


class House(Component):
    declares = (Lamp,)

    def __init__(self) -> None:
        self.heard: list[str] = []

    @operation(states=("initializing",))
    def warm_up(self) -> str:
        return "warm"

    @operation()
    def knock(self) -> str:
        return "who is there?"

    @subscribe("bell")
    def on_bell(self, who: str) -> None:
        self.heard.append(who)

    @every(1.0)
    def sweep(self) -> None: ...


class Unknown(AppObject):
    @operation()
    def surprise(self) -> None: ...


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def backplane(house: House) -> VirtualBackplane:
    return VirtualBackplane(house, role=None)


def test_all_routes_and_topics_are_known_before_anything_has_started(backplane: VirtualBackplane) -> None:
    """Law 12. The directory is complete before the first call, so that a wrong route is an error of its caller."""
    (entry,) = backplane.backplane.entries()
    assert {each.route for each in entry.operations} == {"house.warm_up", "house.knock", "house.shine"}
    assert entry.topics == ("bell",)
    assert entry.objects_count == 0


def test_no_route_comes_later(backplane: VirtualBackplane, house: House) -> None:
    """Law 12. A route of which nobody has been told is served to nobody."""
    backplane.move("initializing")
    backplane.move("primary")
    with pytest.raises(DeclarationError, match=r"brings a new route house\.surprise"):
        house.add(Unknown())
    assert house.objects == ()
    house.add(Lamp(), key="hall")
    assert backplane.call("house.shine", key="hall").result() == "light"


@pytest.mark.parametrize(
    ("path", "served"),
    [
        ([], set()),
        (["initializing"], {"warm_up"}),
        (["initializing", "primary"], {"knock"}),
        (["initializing", "secondary"], {"knock"}),
        (["initializing", "primary", "secondary"], {"knock"}),
        (["initializing", "primary", "down"], set()),
        (["initializing", "primary", "down", "initializing"], {"warm_up"}),
    ],
)
def test_operations_are_registered_by_state(backplane: VirtualBackplane, path: list[str], served: set[str]) -> None:
    """Law 12. Elsewhere the caller gets UNAVAILABLE, which says: not now. NOT_FOUND would say: never."""
    for state in path:
        backplane.move(state)
    for name in ("warm_up", "knock"):
        call = backplane.call(f"house.{name}")
        if name in served:
            call.result()
        else:
            assert isinstance(call.error(), Unavailable)


def test_timers_and_topics_follow_the_state(backplane: VirtualBackplane, house: House) -> None:
    """Law 12. A component that is down does not sweep, and does not hear bells."""
    for state, swept, rung in (
        ("initializing", 0, False),
        ("primary", 3, True),
        ("secondary", 3, True),
        ("down", 0, False),
        ("initializing", 0, False),
    ):
        backplane.move(state)
        assert backplane.advance(3).count("sweep") == swept, state
        house.heard.clear()
        backplane.publish("bell", who="me")
        backplane.run_until_idle()
        assert house.heard == (["me"] if rung else []), state


def test_what_is_not_in_the_table_is_refused(backplane: VirtualBackplane) -> None:
    """Law 12. From start straight to primary is a component that nobody has initialised."""
    with pytest.raises(FailedPrecondition, match="cannot move from start to primary"):
        backplane.move("primary")
    backplane.move("initializing")
    with pytest.raises(FailedPrecondition):
        backplane.move("initializing")
