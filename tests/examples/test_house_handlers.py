"""The handlers of the House Hub, as what they are: functions. No dispatcher, no lock, no thread; the paper's section 3.1(3)."""

from __future__ import annotations

import math

import pytest
from house.business import keep_warm, reconsider, watch
from house.data import Alarms, Device, Heating, Rules
from house.incoming import SILENT_AFTER_S, take_measurement, take_silence, take_wish
from house.messages import Alert, Collect, DeviceChanged, Measured, Report, TimedOut, Wanted, WishChanged
from house.outgoing import report, send_alert, send_orders

from appbackplane.runtime import InvalidArgument
from appbackplane.runtime.dispatcher import changes_of
from appbackplane.runtime.dispatcher.sources import Outlet, TimerSource


def of_room(celsius: float, *, is_silent: bool = False) -> DeviceChanged:
    """What a device says of itself, once it has been changed."""
    return DeviceChanged("attic", "room", celsius, is_silent)


# -- incoming


def test_a_measurement_is_noted_and_told() -> None:
    """To whom is not the handler's business: the device tells that it has changed, and once."""
    device, timers = Device("attic"), TimerSource()
    take_measurement(Measured("attic", "room", 18.5), device, timers)
    assert (device.quantity, device.value, device.is_silent) == ("room", 18.5, False)
    assert changes_of(device) == [of_room(18.5)]
    take_measurement(Measured("attic", "room", 18.5), device, timers)
    assert changes_of(device) == [], "nothing has changed"


def test_the_first_value_is_news_whatever_it_is() -> None:
    """A device that has always said 0 would never be known."""
    device = Device("attic")
    take_measurement(Measured("attic", "room", Device("").value), device, TimerSource())
    assert len(changes_of(device)) == 1


def test_each_measurement_takes_back_the_time_out_before() -> None:
    """Or a device that speaks all the time would be called silent by what was set when it began."""
    device, timers = Device("attic"), TimerSource()
    for celsius in (18.5, 18.6, 18.7):
        take_measurement(Measured("attic", "room", celsius), device, timers)
    [(id, begun)] = timers.begun.items()
    assert id == device.timeout
    assert begun[:2] == (SILENT_AFTER_S, TimedOut("attic"))


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
    """And leaves no trace: a broken sensor must not heat the house, nor pass for one that works."""
    device, timers = Device("attic", "room", 20.0), TimerSource()
    with pytest.raises(InvalidArgument, match=problem):
        take_measurement(message, device, timers)
    assert device == Device("attic", "room", 20.0)
    assert changes_of(device) == []
    assert timers.begun == {}


def test_silence_is_news() -> None:
    """That a value is old is as important as the value."""
    device = Device("attic", "room", 18.5, is_silent=False)
    take_silence(TimedOut("attic"), device)
    assert changes_of(device) == [of_room(18.5, is_silent=True)]


def test_nobody_wishes_for_ice() -> None:
    """A typing error neither freezes nor cooks anybody."""
    rules = Rules(celsius=21.0)
    for celsius in (4.9, 30.1, math.nan):
        with pytest.raises(InvalidArgument, match="expected 5"):
            take_wish(Wanted(celsius), rules)
    assert changes_of(rules) == []
    take_wish(Wanted(19.0), rules)
    assert changes_of(rules) == [WishChanged(19.0)]


# -- business


def test_heating_has_a_band() -> None:
    """Between its edges everything stays as it is, or the relay would click at each measurement."""
    heating, rules = Heating(), Rules(celsius=21.0, band=0.5)
    said = []
    for celsius in (21.0, 20.4, 20.6, 21.4, 21.6, 21.4, 20.6, 20.4):
        keep_warm(of_room(celsius), rules, heating)
        said.append(heating.is_on.get("attic"))
    assert said == [None, True, True, True, False, False, False, True]


def test_a_silent_room_is_not_heated() -> None:
    """Nobody would see when it burns."""
    heating, rules = Heating(), Rules(celsius=21.0)
    keep_warm(of_room(18.0), rules, heating)
    assert heating.is_on == {"attic": True}
    keep_warm(of_room(18.0, is_silent=True), rules, heating)
    reconsider(WishChanged(30.0), Rules(celsius=30.0), heating)
    assert heating == Heating({}, {"attic": False})


def test_what_is_no_room_is_not_heated() -> None:
    """A cold disk is no reason to burn oil."""
    heating = Heating()
    keep_warm(DeviceChanged("host", "core", 3.0, False), Rules(), heating)
    assert heating == Heating()


def test_a_wish_holds_for_all_rooms_at_once() -> None:
    """Not only for those whose temperature happens to change."""
    heating = Heating({"attic": 18.0, "cellar": 12.0})
    reconsider(WishChanged(15.0), Rules(celsius=15.0), heating)
    assert heating.is_on == {"attic": False, "cellar": True}


def test_too_much_is_an_alarm_until_it_is_no_more() -> None:
    """Told when it begins and when it ends, and not at every measurement between."""
    rules, alarms, out = Rules(limits={"cpu": 90.0}), Alarms(), Outlet()
    for value in (50.0, 91.0, 95.0, 90.0, 80.0):
        watch(DeviceChanged("host", "cpu", value, False), rules, alarms, out)
    assert out.emitted == [Alert("host", "cpu above 90"), Alert("host", "")]
    assert alarms == Alarms()


def test_silence_is_an_alarm_until_there_is_a_word() -> None:
    """Of what has no limit, too."""
    alarms, out = Alarms(), Outlet()
    watch(of_room(18.0, is_silent=True), Rules(), alarms, out)
    assert alarms.by_device == {"attic": "is silent"}
    watch(of_room(18.0), Rules(), alarms, out)
    assert out.emitted == [Alert("attic", "is silent"), Alert("attic", "")]


# -- outgoing


def test_orders_are_what_was_decided() -> None:
    """All of it each time: a heater that has missed one hears the next."""
    out = Outlet()
    for _ in range(2):
        send_orders(Collect(), Heating({"attic": 18.0}, {"attic": True, "cellar": False}), out)
    assert out.published == [("house.orders", {"heating": {"attic": True, "cellar": False}})] * 2


def test_an_alert_is_published() -> None:
    """To whoever listens: the hub knows no screens."""
    out = Outlet()
    send_alert(Alert("attic", "is silent"), out)
    assert out.published == [("house.alerts", {"device": "attic", "text": "is silent"})]


def test_a_report_is_a_copy() -> None:
    """What leaves a handler leaves its locks: it must not be what others go on changing."""
    heating = Heating({"attic": 18.0}, {"attic": True})
    found = report(Report(), heating, Alarms({"host": "hot"}))
    heating.is_on["attic"] = False
    assert found == {"celsius": {"attic": 18.0}, "heating": {"attic": True}, "alarms": {"host": "hot"}}
