"""Business handlers: what follows from what has changed. They know neither devices' messages nor who is told."""

from __future__ import annotations

from appbackplane.runtime.dispatcher import Read

from .data import Alarms, Device, Heating, Rules
from .messages import Measured


def watch_limits(message: Measured, device: Read[Device], rules: Read[Rules], alarms: Alarms) -> None:
    """Too much is an alarm until it is no more."""
    limit = rules.limits.get(device.quantity)
    if limit is None or device.value is None:
        return
    if device.value > limit:
        alarms.by_device[message.device] = f"{device.quantity} {device.value:g}, above {limit:g}"
    else:
        alarms.by_device.pop(message.device, None)


def keep_warm(message: Measured, device: Read[Device], rules: Read[Rules], heating: Heating) -> None:
    """Heat a room that is too cold until it is warm enough."""
    if device.quantity != "room" or device.value is None:
        return
    if device.value < rules.celsius - rules.band:
        heating.rooms[message.device] = True
    elif device.value > rules.celsius + rules.band:
        heating.rooms[message.device] = False
