"""VirtualClock: time that passes only when a test says so.

It starts at an odd number, so that code which looks at another clock, or compares against zero, is found out.
"""

#: About 11 days after nothing in particular.
START_NS = 987_654_321_000_000
#: Some Wednesday in 2033.
UNIX_START_NS = 2_000_000_000_000_000_000


class VirtualClock:
    """A `Clock` (execution/clock.py) that stands still."""

    def __init__(self) -> None:
        self._now_ns = START_NS
        self._cpu_ns = 0
        #: What a calendar shows, ns since 1970, less `now_ns`: a test may set it right, or wrong.
        self.unix_ahead_ns = UNIX_START_NS - START_NS

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""
        return self._now_ns

    def cpu_ns(self) -> int:
        """CPU nanoseconds "used" by the test's thread: what `work` was told."""
        return self._cpu_ns

    def cpu_ns_of(self, ident: int) -> int:
        """The same, whichever thread: there is no other."""
        return self._cpu_ns

    def process_cpu_ns(self) -> int:
        """The same: there is no other thread."""
        return self._cpu_ns

    def unix_offset_ns(self) -> int:
        """What makes Unix time of `now_ns`."""
        return self.unix_ahead_ns

    def move(self, to_ns: int) -> None:
        """Go on to a moment; never back."""
        self._now_ns = max(self._now_ns, to_ns)

    def sleep(self, seconds: float) -> None:
        """Let time pass inside an operation, as a blocking call would."""
        self._now_ns += round(seconds * 1e9)

    def work(self, seconds: float) -> None:
        """Let time and CPU time pass inside an operation, as a computation would."""
        self.sleep(seconds)
        self._cpu_ns += round(seconds * 1e9)
