"""Clock: the only reader of time. Everything else is told `now_ns`.

Monotonic nanoseconds, and the CPU time of the calling thread and of the process. A port, so that tests put a virtual clock
in its place (testing/virtual_clock.py).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""

    def cpu_ns(self) -> int:
        """CPU nanoseconds the calling thread has used."""

    def cpu_ns_of(self, ident: int) -> int:
        """CPU nanoseconds that a thread of this process has used: `Thread.ident`, of one that lives."""

    def process_cpu_ns(self) -> int:
        """CPU nanoseconds that all threads of this process have used."""

    def unix_offset_ns(self) -> int:
        """What makes Unix time of `now_ns`, now."""


class RealClock:
    """The machine's."""

    # The C functions themselves: a Python method around each would cost more than the call.
    now_ns = staticmethod(time.monotonic_ns)
    cpu_ns = staticmethod(time.thread_time_ns)
    process_cpu_ns = staticmethod(time.process_time_ns)
    #: What calendars show, ns since 1970: for what is written down, never for what is decided.
    unix_ns = staticmethod(time.time_ns)

    @staticmethod
    def boot_ns() -> int:
        """Monotonic nanoseconds that go on while the machine sleeps: for what others count on, too."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def cpu_ns_of(self, ident: int) -> int:
        """CPU nanoseconds that a thread of this process has used: `Thread.ident`, of one that lives."""
        return time.clock_gettime_ns(time.pthread_getcpuclockid(ident))

    def unix_offset_ns(self) -> int:
        """What makes Unix time of `now_ns`, now: it changes when the calendar is set right, or after a suspend."""
        return self.unix_ns() - self.now_ns()
