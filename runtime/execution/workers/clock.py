"""Clock: the only reader of time. All other code gets `now_ns` as a parameter.

Monotonic nanoseconds, and the CPU time of threads and of the process. A protocol, so that tests can use a virtual clock
instead (testing/virtual_clock.py).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time, as the runtime uses it."""

    def now_ns(self) -> int:
        """Monotonic time in ns, from an arbitrary origin."""

    def cpu_ns(self) -> int:
        """CPU nanoseconds the calling thread has used."""

    def cpu_ns_of(self, ident: int) -> int:
        """CPU nanoseconds used by a live thread of this process; `ident`: its `Thread.ident`."""

    def process_cpu_ns(self) -> int:
        """CPU nanoseconds that all threads of this process have used."""

    def unix_offset_ns(self) -> int:
        """Unix time minus `now_ns`, at this moment."""


class RealClock:
    """The clocks of this machine."""

    # The C functions themselves: a Python method around each would cost more than the call.
    now_ns = staticmethod(time.monotonic_ns)
    cpu_ns = staticmethod(time.thread_time_ns)
    process_cpu_ns = staticmethod(time.process_time_ns)
    #: Unix time, ns since 1970: for records, never for decisions.
    unix_ns = staticmethod(time.time_ns)

    @staticmethod
    def boot_ns() -> int:
        """Monotonic nanoseconds that advance while the machine is suspended, for times on which other machines rely."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def cpu_ns_of(self, ident: int) -> int:
        return time.clock_gettime_ns(time.pthread_getcpuclockid(ident))

    def unix_offset_ns(self) -> int:
        """Unix time minus `now_ns`, at this moment: it changes when the system's date is corrected, or after a suspend."""
        return self.unix_ns() - self.now_ns()
