"""The House Hub as a whole, in the test's own thread: what devices say goes in, what devices are told comes out."""

from __future__ import annotations

from typing import Any

import pytest
from house.hub import Hub
from house.incoming import SILENT_AFTER_S

from appbackplane.runtime import InvalidArgument
from appbackplane.runtime.testing import VirtualBackplane

TOPICS = ("house.orders", "house.alerts")


@pytest.fixture
def backplane() -> VirtualBackplane:
    """A hub, and the test is all devices."""
    return VirtualBackplane(Hub(wanted=21.0), topics=TOPICS)


def say(backplane: VirtualBackplane, device: str, quantity: str, value: float) -> None:
    """A device tells something, and all that follows from it happens."""
    backplane.call("hub.measured", device=device, quantity=quantity, value=value).result()
    backplane.run_until_idle()


def published(backplane: VirtualBackplane, topic: str) -> list[dict[str, Any]]:
    """What was heard on a topic."""
    return [dict(body) for each, body in backplane.published if each == topic]


def test_a_cold_room_is_heated_until_it_is_warm(backplane: VirtualBackplane) -> None:
    """The way through all three kinds of handlers; none of them knows the next."""
    say(backplane, "attic", "room", 18.0)
    say(backplane, "cellar", "room", 25.0)
    backplane.advance(1.0)
    assert published(backplane, "house.orders")[-1] == {"heating": {"attic": True, "cellar": False}}
    say(backplane, "attic", "room", 21.5)
    backplane.advance(1.0)
    assert published(backplane, "house.orders")[-1] == {"heating": {"attic": False, "cellar": False}}


def test_a_wish_is_obeyed_without_a_new_measurement(backplane: VirtualBackplane) -> None:
    """The rules tell that they have changed, as devices do."""
    say(backplane, "attic", "room", 20.9)
    backplane.call("hub.wanted", celsius=24.0).result()
    backplane.run_until_idle()
    assert backplane.call("hub.report").result()["heating"] == {"attic": True}


def test_who_falls_silent_is_missed_and_not_heated(backplane: VirtualBackplane) -> None:
    """A dead thermometer says nothing: it has to be noticed by somebody else."""
    say(backplane, "attic", "room", 18.0)
    backplane.advance(SILENT_AFTER_S - 1)
    say(backplane, "attic", "room", 18.0)
    backplane.advance(SILENT_AFTER_S - 1)
    assert published(backplane, "house.alerts") == [], "it has spoken meanwhile"
    backplane.advance(2.0)
    assert published(backplane, "house.alerts") == [{"device": "attic", "text": "is silent"}]
    found = backplane.call("hub.report").result()
    assert found == {"celsius": {}, "heating": {"attic": False}, "alarms": {"attic": "is silent"}}
    say(backplane, "attic", "room", 18.0)
    assert published(backplane, "house.alerts")[1:] == [{"device": "attic", "text": ""}]
    assert backplane.call("hub.report").result()["heating"] == {"attic": True}


def test_a_measurement_that_comes_with_the_time_out_wins(backplane: VirtualBackplane) -> None:
    """The time-out is in the queue already, behind the measurement, and leaves no trace (the paper's section 3.2)."""
    say(backplane, "attic", "room", 18.0)
    backplane.advance(SILENT_AFTER_S - 0.001)
    backplane.cast("hub.measured", device="attic", quantity="room", value=18.1, priority=0)
    backplane.advance(0.002)
    assert published(backplane, "house.alerts") == []


def test_what_is_refused_has_no_consequences(backplane: VirtualBackplane) -> None:
    """No alarm, no heating, and the sender is told."""
    error = backplane.call("hub.measured", device="attic", quantity="room", value=-273.0).error()
    assert isinstance(error, InvalidArgument)
    assert backplane.call("hub.report").result() == {"celsius": {}, "heating": {}, "alarms": {}}


def test_alarms_of_a_host(backplane: VirtualBackplane) -> None:
    """Told at once, not with the next orders."""
    say(backplane, "host-cpu", "cpu", 99.0)
    assert published(backplane, "house.alerts") == [{"device": "host-cpu", "text": "cpu above 95"}]
    assert backplane.call("hub.report").result()["alarms"] == {"host-cpu": "cpu above 95"}
