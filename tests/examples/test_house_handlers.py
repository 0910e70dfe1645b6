"""The handlers of the House Hub, as what they are: functions. No dispatcher, no lock, no thread; the paper's section 3.1(3)."""

from __future__ import annotations

import math

import pytest
from house.business import keep_warm, watch_limits
from house.data import Alarms, Device, Heating, Rules
from house.incoming import take_measurement, take_wish
from house.messages import Measured, Report, Wanted
from house.outgoing import report

from appbackplane.runtime import InvalidArgument


def test_a_measurement_is_noted() -> None:
    """Of the device that it names, nothing else is touched."""
    device = Device()
    take_measurement(Measured("attic", "room", 18.5), device)
    assert device == Device("room", 18.5)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Measured("attic", "rom", 18.0), "'rom': expected one of cpu, memory"),
        (Measured("attic", "room", 99.0), "room 99.0: expected -40.0 to 60.0"),
        (Measured("attic", "room", math.nan), "room nan: expected"),
        (Measured("attic", "room", -math.inf), "room -inf: expected"),
        (Measured("attic", "cpu", 5.0), "attic measures room, not cpu"),
    ],
)
def test_what_cannot_be_is_refused(message: Measured, problem: str) -> None:
    """And leaves no trace: a broken sensor must not heat the house."""
    device = Device("room", 20.0)
    with pytest.raises(InvalidArgument, match=problem):
        take_measurement(message, device)
    assert device == Device("room", 20.0)


@pytest.mark.parametrize("celsius", [4.9, 30.1, math.nan])
def test_nobody_wishes_for_ice(celsius: float) -> None:
    """A typing error neither freezes nor cooks anybody."""
    rules = Rules(celsius=21.0)
    with pytest.raises(InvalidArgument, match="expected 5"):
        take_wish(Wanted(celsius), rules)
    assert rules.celsius == 21.0
    take_wish(Wanted(19.0), rules)
    assert rules.celsius == 19.0


def test_heating_has_a_band() -> None:
    """Between its edges everything stays as it is, or the relay would click at each measurement."""
    heating, rules = Heating(), Rules(celsius=21.0, band=0.5)
    said = []
    for celsius in (21.0, 20.4, 20.6, 21.4, 21.6, 21.4, 20.6, 20.4):
        keep_warm(Measured("attic", "room", celsius), Device("room", celsius), rules, heating)
        said.append(heating.rooms.get("attic"))
    assert said == [None, True, True, True, False, False, False, True]


def test_what_is_no_room_is_not_heated() -> None:
    """A cold disk is no reason to burn oil."""
    heating = Heating()
    keep_warm(Measured("host", "core", 3.0), Device("core", 3.0), Rules(), heating)
    assert heating.rooms == {}


def test_too_much_is_an_alarm_until_it_is_no_more() -> None:
    """One that never ends is not looked at when it counts."""
    rules, alarms = Rules(limits={"cpu": 90.0}), Alarms()
    watch_limits(Measured("host", "cpu", 91.0), Device("cpu", 91.0), rules, alarms)
    assert alarms.by_device == {"host": "cpu 91, above 90"}
    watch_limits(Measured("host", "cpu", 90.0), Device("cpu", 90.0), rules, alarms)
    assert alarms.by_device == {}


def test_a_report_is_a_copy() -> None:
    """What leaves a handler leaves its locks: it must not be what others go on changing."""
    heating = Heating({"attic": True})
    found = report(Report(), heating, Alarms({"host": "hot"}))
    heating.rooms["attic"] = False
    assert found == {"heating": {"attic": True}, "alarms": {"host": "hot"}}
