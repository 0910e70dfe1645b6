"""Incoming handlers: is what a device says possible, and where does it belong? What follows from it is not their business.

Another protocol or another kind of device means other handlers here, and nowhere else.
"""

from __future__ import annotations

from appbackplane.runtime import InvalidArgument
from appbackplane.runtime.dispatcher.sources import TimerSource

from .data import Device, Rules
from .messages import Measured, TimedOut, Wanted

#: What can be measured, and between which bounds it is believed. `cpu`, `memory`, `disk`: percent; `core`, `room`: °C.
PLAUSIBLE = {
    "cpu": (0.0, 100.0),
    "memory": (0.0, 100.0),
    "disk": (0.0, 100.0),
    "core": (-40.0, 150.0),
    "room": (-40.0, 60.0),
}
#: After which a device is silent, seconds: devices speak every second or so, and networks lose a word now and then.
SILENT_AFTER_S = 5.0
#: Rooms are neither frozen nor cooked by a typing error.
WANTED = (5.0, 30.0)


def take_measurement(message: Measured, device: Device, timers: TimerSource) -> None:
    """Check a measurement, and note it."""
    bounds = PLAUSIBLE.get(message.quantity)
    if bounds is None:
        raise InvalidArgument(
            f"{message.device}: quantity {message.quantity!r}: expected one of {', '.join(PLAUSIBLE)}"
        )
    if device.quantity not in ("", message.quantity):
        raise InvalidArgument(f"{message.device} measures {device.quantity}, not {message.quantity}")
    if not bounds[0] <= message.value <= bounds[1]:
        raise InvalidArgument(
            f"{message.device}: {message.quantity} {message.value}: expected {bounds[0]} to {bounds[1]}"
        )
    device.quantity, device.value, device.is_silent = message.quantity, message.value, False
    # Whoever cancels a timer while he holds what its handler needs, here `device`, is sure that it is not called.
    timers.cancel(device.timeout)
    device.timeout = timers.begin(SILENT_AFTER_S, TimedOut(message.device))


def take_silence(message: TimedOut, device: Device) -> None:
    """No word for too long."""
    device.is_silent = True


def take_wish(message: Wanted, rules: Rules) -> None:
    """Check a wish, and note it."""
    if not WANTED[0] <= message.celsius <= WANTED[1]:
        raise InvalidArgument(f"celsius {message.celsius}: expected {WANTED[0]} to {WANTED[1]}")
    rules.celsius = message.celsius
