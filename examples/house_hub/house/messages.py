"""Messages: what devices say, what happens in the house, and what is due. The three categories of the paper's section 5."""

from __future__ import annotations

from enum import IntEnum

from appbackplane.runtime.dispatcher import Message, message


class Category(IntEnum):
    """Who sends it, and with it who handles it."""

    INCOMING = 1
    BUSINESS = 2
    OUTGOING = 3


@message(category=Category.INCOMING, id=1, key="device", priority=4)
class Measured(Message):
    """A device tells a value. `quantity`: what it is (`incoming.PLAUSIBLE` has them all)."""

    device: str
    quantity: str
    value: float


@message(category=Category.INCOMING, id=2, priority=2)
class Wanted(Message):
    """Somebody wants rooms this warm."""

    celsius: float


@message(category=Category.INCOMING, id=3, priority=1)
class Report(Message):
    """Somebody asks how the house is."""
