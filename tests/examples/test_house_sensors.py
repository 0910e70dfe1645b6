"""Sensors of the host: what they say is what the hub believes; and rooms that are simulated behave like rooms."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest
from house.data import Device
from house.incoming import take_measurement
from house.messages import Measured
from house.sensors import Sensors, readings
from simulate import OUTSIDE_CELSIUS, Room

from appbackplane.runtime.dispatcher.sources import TimerSource
from appbackplane.runtime.testing import VirtualBackplane


def test_the_hub_believes_the_host() -> None:
    """Real values, whatever this machine has; a bound that is too narrow would refuse a hot day."""
    said = list(readings("/"))
    assert {reading.quantity for reading in said} >= {"cpu", "memory", "disk"}
    for reading in said:
        take_measurement(reading, Device(reading.device), TimerSource())


def test_temperatures_are_told_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most machines that run tests have none, and the code would go unseen."""
    found = {"coretemp": [SimpleNamespace(current=55.0), SimpleNamespace(current=51.0)]}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: found)
    assert list(readings("/"))[3:] == [
        Measured("host-coretemp-0", "core", 55.0),
        Measured("host-coretemp-1", "core", 51.0),
    ]


def test_sensors_tell_once_a_second() -> None:
    """Without being asked, and without waiting for an answer."""
    backplane = VirtualBackplane(Sensors(), outside=("hub.measured",))
    backplane.advance(2.0)
    assert [route for route, _ in backplane.casts][:3] == ["hub.measured"] * 3
    assert {body["device"] for _, body in backplane.casts} >= {"host-cpu", "host-memory", "host-disk"}


def test_a_room_cools_and_warms() -> None:
    """However long the steps are in which its time passes."""
    room, same = Room("attic", 20.0), Room("cellar", 20.0)
    room.pass_time(3600)
    for _ in range(60):
        same.pass_time(60)
    assert OUTSIDE_CELSIUS < room.celsius < 20.0
    assert room.celsius == pytest.approx(same.celsius)
    room.is_heated = True
    cold = room.celsius
    room.pass_time(60)
    assert cold < room.celsius < cold + 1
