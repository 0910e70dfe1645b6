"""A component whose work is known beforehand: it sleeps, or it computes, for as long as it is told."""

from __future__ import annotations

import time

from appbackplane.runtime import AppObject, Component, operation

#: Of each kind so many: as many may be served at once.
COUNT = 64


class Clerk(AppObject):
    """One of those at the counter."""

    served_count = 0

    @operation(priority=1)
    def serve(self, ms: float) -> None:
        """Urgent, and blocked."""
        time.sleep(ms / 1e3)
        self.served_count += 1

    @operation(priority=3)
    def count(self, ms: float) -> None:
        """Computes: so much CPU time of its thread, however long that takes."""
        end_s = time.thread_time() + ms / 1e3
        while time.thread_time() < end_s:
            pass
        self.served_count += 1


class Sorter(AppObject):
    """One of those whose work may wait."""

    served_count = 0

    @operation(priority=5)
    def sort(self, ms: float) -> None:
        """Less urgent, and blocked."""
        time.sleep(ms / 1e3)
        self.served_count += 1


class Desk(Component):
    """Clerks and sorters."""

    def setup(self) -> None:
        """Of each kind all are alike; a call goes to one that is free."""
        self.workers = [self.add(kind()) for kind in (Clerk, Sorter) for _ in range(COUNT)]

    @operation(priority=0)
    def served(self) -> int:
        """How many have been."""
        return sum(worker.served_count for worker in self.workers)
