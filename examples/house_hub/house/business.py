"""Business handlers: what follows from what has changed. They know neither how devices speak nor who is told."""

from __future__ import annotations

from appbackplane.runtime.dispatcher import Read
from appbackplane.runtime.dispatcher.sources import Outlet

from .data import Alarms, Heating, Rules
from .messages import Alert, DeviceChanged, WishChanged


def watch(message: DeviceChanged, rules: Read[Rules], alarms: Alarms, out: Outlet) -> None:
    """Silence is an alarm, and so is too much, until it is no more. An alert is told once, however often it is found."""
    limit = rules.limits.get(message.quantity)
    text = ""
    if message.is_silent:
        text = "is silent"
    elif limit is not None and message.value > limit:
        text = f"{message.quantity} above {limit:g}"
    if alarms.by_device.get(message.device, "") == text:
        return
    if text:
        alarms.by_device[message.device] = text
    else:
        del alarms.by_device[message.device]
    out.post(Alert(message.device, text))


def keep_warm(message: DeviceChanged, rules: Read[Rules], heating: Heating) -> None:
    """Heat a room that is too cold until it is warm enough; but never one of which nobody says how warm it is."""
    if message.quantity != "room":
        return
    if message.is_silent:
        heating.celsius.pop(message.device, None)
        heating.is_on[message.device] = False
    else:
        heating.celsius[message.device] = message.value
        _decide(message.device, rules, heating)


def reconsider(message: WishChanged, rules: Read[Rules], heating: Heating) -> None:
    """What was warm enough may be no more."""
    for room in heating.celsius:
        _decide(room, rules, heating)


def _decide(room: str, rules: Rules, heating: Heating) -> None:
    missing = rules.celsius - heating.celsius[room]
    if missing > rules.band:
        heating.is_on[room] = True
    elif missing < -rules.band:
        heating.is_on[room] = False
