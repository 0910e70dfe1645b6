"""Data: what handlers share. Plain classes, which know nothing of locks; the protectors are in `hub.py`.

Some are `Observed`: when a handler has changed them, they say so in a message. That is what parts the handlers: those that
take in what devices say do not know whose business it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appbackplane.runtime.dispatcher import Observed, on_change

from .messages import DeviceChanged, WishChanged


@dataclass
class Device(Observed):
    """What is known of one device."""

    name: str
    quantity: str = ""
    value: float = 0.0
    #: It has not been heard for a while; or never.
    is_silent: bool = True
    #: The timer that says so.
    timeout: int = 0

    @on_change("value", "is_silent")
    def changed(self) -> DeviceChanged:
        """For business handlers."""
        return DeviceChanged(self.name, self.quantity, self.value, self.is_silent)


@dataclass
class Rules(Observed):
    """What is wanted, and what is too much."""

    celsius: float = 21.0
    #: How far below `celsius` heating begins, and above it ends: without a band it would switch at every reading.
    band: float = 0.3
    #: Above which a quantity raises an alarm.
    limits: dict[str, float] = field(default_factory=lambda: {"cpu": 95.0, "memory": 90.0, "disk": 95.0, "core": 90.0})

    @on_change("celsius")
    def changed(self) -> WishChanged:
        """For business handlers."""
        return WishChanged(self.celsius)


@dataclass
class Heating:
    """How warm rooms are, and which are to be heated. Decided by business handlers, told to devices by outgoing ones."""

    celsius: dict[str, float] = field(default_factory=dict)
    is_on: dict[str, bool] = field(default_factory=dict)


@dataclass
class Alarms:
    """What is wrong, by device."""

    by_device: dict[str, str] = field(default_factory=dict)
