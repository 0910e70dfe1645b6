"""Outgoing handlers: collect what is decided into messages to the world outside. They decide nothing."""

from __future__ import annotations

from typing import TypedDict

from appbackplane.runtime.dispatcher import Read

from .data import Alarms, Heating
from .messages import Report


class House(TypedDict):
    """How the house is."""

    heating: dict[str, bool]
    alarms: dict[str, str]


def report(message: Report, heating: Read[Heating], alarms: Read[Alarms]) -> House:
    """What is heated, and what is wrong."""
    return House(heating=dict(heating.rooms), alarms=dict(alarms.by_device))
