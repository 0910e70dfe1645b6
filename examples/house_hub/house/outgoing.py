"""Outgoing handlers: collect what is decided into messages to the world outside. They decide nothing."""

from __future__ import annotations

from typing import TypedDict

from appbackplane.runtime.dispatcher import Read
from appbackplane.runtime.dispatcher.sources import Outlet

from .data import Alarms, Heating
from .messages import Alert, Collect, Report


class House(TypedDict):
    """How the house is."""

    celsius: dict[str, float]
    heating: dict[str, bool]
    alarms: dict[str, str]


def send_orders(message: Collect, heating: Read[Heating], out: Outlet) -> None:
    """What heaters are to do; all of it each time, so that one that has missed it hears it again."""
    out.publish("house.orders", heating=dict(heating.is_on))


def send_alert(message: Alert, out: Outlet) -> None:
    """At once."""
    out.publish("house.alerts", device=message.device, text=message.text)


def report(message: Report, heating: Read[Heating], alarms: Read[Alarms]) -> House:
    """For whoever asks."""
    return House(celsius=dict(heating.celsius), heating=dict(heating.is_on), alarms=dict(alarms.by_device))
