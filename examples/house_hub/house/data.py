"""Data: what handlers share. Plain classes, which know nothing of locks; the protectors are in `hub.py`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Device:
    """What is known of one device."""

    quantity: str = ""
    value: float | None = None


@dataclass
class Rules:
    """What is wanted, and what is too much; changed by people, read by business handlers."""

    celsius: float = 21.0
    #: How far below `celsius` heating begins, and above it ends: without a band it would switch at every reading.
    band: float = 0.3
    #: Above which a quantity raises an alarm.
    limits: dict[str, float] = field(default_factory=lambda: {"cpu": 95.0, "memory": 90.0, "disk": 95.0, "core": 90.0})


@dataclass
class Heating:
    """Which rooms are to be heated. Decided by business handlers, told to devices by outgoing ones."""

    rooms: dict[str, bool] = field(default_factory=dict)


@dataclass
class Alarms:
    """What is wrong, by device."""

    by_device: dict[str, str] = field(default_factory=dict)
