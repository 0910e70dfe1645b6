"""Clock: the only reader of time. All other code gets `now_ns` as a parameter.

Monotonic nanoseconds, and the CPU time of threads and of the process. A protocol, so that tests can use a virtual clock
instead (testing/virtual_clock.py).
"""

from __future__ import annotations

import time
from typing import Final, Protocol

#: Between two readings of a clock there may be a turn of others on the CPU: the third is read so near to the first, or again.
NEAR_NS: Final = 20_000
READS_MAX: Final = 10


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
        nearest_ns, offset_ns = -1, 0
        for _ in range(READS_MAX):
            before_ns, unix_ns, after_ns = self.now_ns(), self.unix_ns(), self.now_ns()
            if nearest_ns < 0 or after_ns - before_ns < nearest_ns:
                nearest_ns, offset_ns = after_ns - before_ns, unix_ns - (before_ns + after_ns) // 2
            if nearest_ns <= NEAR_NS:
                break
        return offset_ns
