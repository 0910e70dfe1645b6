"""Drain: how far a backplane is with its accepted work before it goes down."""

from __future__ import annotations

from enum import Enum


class DrainPhase(Enum):
    """The progress of draining: finishing the accepted work before its components go down."""

    NONE = "none"  # not ordered, or nothing to finish
    DUE = "due"  # ordered: its dependents are drained first
    RUNNING = "running"
    DONE = "done"
