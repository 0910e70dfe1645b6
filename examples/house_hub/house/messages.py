"""Messages: what devices say, what has changed in the house, and what is to be sent (the paper's section 5)."""

from __future__ import annotations

from enum import IntEnum

from appbackplane.runtime.dispatcher import Message, message


class Category(IntEnum):
    """Whose business it is."""

    INCOMING = 10
    BUSINESS = 20
    OUTGOING = 30


@message(category=Category.INCOMING, id=1, key="device")
class Measured(Message):
    """A device tells a value. `quantity`: what it is; `incoming.PLAUSIBLE` has them all."""

    device: str
    quantity: str
    value: float


@message(category=Category.INCOMING, id=2, priority=2)
class Wanted(Message):
    """Somebody wants rooms this warm."""

    celsius: float


@message(category=Category.INCOMING, id=3, key="device", priority=2, internal=True)
class TimedOut(Message):
    """A device has said nothing for too long."""

    device: str


@message(category=Category.BUSINESS, id=1, key="device", priority=3, internal=True)
class DeviceChanged(Message):
    """A device has another value than before; or is silent, or no longer."""

    device: str
    quantity: str
    value: float
    is_silent: bool


@message(category=Category.BUSINESS, id=2, priority=3, internal=True)
class WishChanged(Message):
    """Rooms are to be warmer, or less warm."""

    celsius: float


@message(category=Category.OUTGOING, id=1, priority=1, internal=True)
class Alert(Message):
    """Something is wrong with a device; or no longer, if there is no `text`."""

    device: str
    text: str


@message(category=Category.OUTGOING, id=2, priority=2, internal=True)
class Collect(Message):
    """It is time to tell devices what they are to do."""


@message(category=Category.OUTGOING, id=3, priority=1)
class Report(Message):
    """Somebody asks how the house is."""
