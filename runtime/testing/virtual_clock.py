"""VirtualClock: time that passes only when a test moves it.

It starts at an unusual value, which exposes code that reads another clock or compares against zero.
"""

#: About 11 days; an arbitrary value.
START_NS = 987_654_321_000_000
#: A Wednesday in 2033; an arbitrary value.
UNIX_START_NS = 2_000_000_000_000_000_000


class VirtualClock:
    """A `Clock` (execution/workers/clock.py) that stands still until a test moves it."""

    def __init__(self) -> None:
        self._now_ns = START_NS
        self._cpu_ns = 0
        #: Unix time in ns, minus `now_ns`. A test may change it, as a correction of the system's clock would.
        self.unix_ahead_ns = UNIX_START_NS - START_NS

    def now_ns(self) -> int:
        return self._now_ns

    def cpu_ns(self) -> int:
        """CPU nanoseconds "used" by the test's thread: the sum of all `work`."""
        return self._cpu_ns

    def cpu_ns_of(self, ident: int) -> int:
        """The same as `cpu_ns`: there is only one thread."""
        return self._cpu_ns

    process_cpu_ns = cpu_ns  # there is no other thread

    def unix_offset_ns(self) -> int:
        return self.unix_ahead_ns

    def move(self, to_ns: int) -> None:
        """Set the time to `to_ns`; it never goes back."""
        self._now_ns = max(self._now_ns, to_ns)

    def sleep(self, seconds: float) -> None:
        """Let time pass inside an operation, as a blocking call does."""
        self._now_ns += round(seconds * 1e9)

    def work(self, seconds: float) -> None:
        """Let time and CPU time pass inside an operation, as a computation does."""
        self.sleep(seconds)
        self._cpu_ns += round(seconds * 1e9)
