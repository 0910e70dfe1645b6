"""Calls that come back to where they began, and chains that cross, over several processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appbackplane.transport.errors import InternalError

from .conftest import System, Up, command, standing

PING_PONG = """
[backplane.here]
components = ["components:Ping"]
[backplane.there]
components = ["components:Pong"]
"""
CROSSING = """
[backplane.one]
components = ["components:East"]
[backplane.two]
components = ["components:West"]
[backplane.three]
components = ["components:Meeting"]
"""


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """Each calls the other."""
    with standing(PING_PONG) as system:
        yield system


def test_a_call_that_comes_back_to_its_caller_is_refused_at_once_and_the_way_is_told(system: System) -> None:
    """Both would wait for each other until the deadline, with nothing to see."""
    with system.connect() as client:
        with pytest.raises(InternalError) as refused:  # and not DeadlineExceeded
            client.call("ping.ask")
        way = "call cycle: ping.ask on here/ping -> pong.ask on there/pong -> ping.ask on here/ping"
        assert way in str(refused.value)
        assert "reentrant=True" in str(refused.value)
        assert client.call("ping.alone") == "alone", "neither waits for anything any more"
        told = system.command("call", "ping.ask")
        assert (told.returncode, told.stdout) == (1, "")
        assert way in told.stderr


def test_of_two_chains_that_cross_one_is_refused_and_the_other_goes_on(up: Up) -> None:
    """Two callers at once: each waits behind the object of the other, in processes that know nothing of each other."""
    system = up(CROSSING)
    checked = command(system.folder, "check", str(system.toml))
    assert checked.returncode == 0
    assert "east.go calls west.leaf, west.go calls east.leaf. If they meet" in checked.stderr
    with system.connect() as client:
        calls = [client.submit(f"{side}.go") for side in ("east", "west")]
        ended = []
        for call in calls:
            try:
                ended.append(call.result())
            except InternalError as error:  # and not DeadlineExceeded
                ended.append(error.message)
        (refused,) = [end for end in ended if end not in ("east", "west")]
        for step in (
            "east.go on one/east",
            "west.leaf on two/west",
            "west.go on two/west",
            "east.leaf on one/east",
        ):
            assert step in refused.partition("call ring: ")[2]
        assert [client.call(f"{side}.leaf") for side in ("east", "west")] == ["east", "west"]


def test_a_reentrant_operation_is_served_on_the_way_back(system: System) -> None:
    """Who declares that it can be called while it waits, is."""
    with system.connect() as client:
        assert [client.call("ping.count", depth=depth) for depth in (0, 1, 2, 9)] == [0, 1, 2, 9]


def test_check_and_up_find_a_declared_cycle_before_anything_serves(begin: Up) -> None:
    """What can be known from declarations need not be found at night."""
    system = begin('[backplane.farm]\ncomponents = ["components:Chicken", "components:Egg"]\n')
    way = "chicken.lay -> egg.hatch -> chicken.lay"
    assert way in system.wait_for("calls form a cycle")
    assert system.wait_down() == 1
    checked = command(system.folder, "check", str(system.toml))
    assert (checked.returncode, checked.stdout) == (2, "")
    assert way in checked.stderr
