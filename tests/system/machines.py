"""A component that computes, and keeps its callers waiting, for test_system_things.py."""

from __future__ import annotations

import os

from appbackplane.runtime import AppObject, Component, operation, pause


class Brake(AppObject):
    """Stops its machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @operation(priority=0)
    def stop(self) -> None:
        """More urgent than what runs, so the relief worker does it."""
        self.machine.is_turning = False


class Machine(Component):
    """Its pid tells which process it is."""

    is_turning = False

    def setup(self) -> None:
        self.add(Brake(self))

    @operation(priority=0)
    def pid(self) -> int:
        return os.getpid()

    @operation()
    def turn(self) -> None:
        """Compute until it is stopped."""
        self.is_turning = True
        while self.is_turning:
            pass

    @operation()
    async def wait(self, seconds: float) -> None:
        await pause(seconds)
