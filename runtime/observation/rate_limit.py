"""Rate limit of reports: one per subject and interval, with a count of those left out.

A failing system must not be flooded by its own warnings, and the reader must know that there were more (DESIGN 12.10).
"""

from __future__ import annotations

#: One report per subject in this time: often enough to show that the problem persists, seldom enough to read.
REPORT_INTERVAL_NS = 5_000_000_000
#: Bound of the subjects remembered, and so of all reports in one interval. Declared names are few, but peers choose their
#: own names: a new name for each report must not get around the limit.
SUBJECTS_MAX = 1_000
#: Subjects are cut to this many characters: one may quote a peer's route, which may be as long as a frame.
SUBJECT_LENGTH_MAX = 200


class RateLimit:
    """Decides whether a report is made; at most `SUBJECTS_MAX` reports per interval."""

    def __init__(self, interval_ns: int = REPORT_INTERVAL_NS) -> None:
        self._interval_ns = interval_ns
        self._reported: dict[str, tuple[int, int]] = {}  # subject: when, left out since; the latest last
        #: Reports left out because `SUBJECTS_MAX` subjects were reported within the interval.
        self.overflow_count = 0

    def admit(self, subject: str, now_ns: int) -> int | None:
        """How many reports of `subject` were left out before this one, which is due; None: leave this one out, too."""
        subject = subject[:SUBJECT_LENGTH_MAX]
        last = self._reported.get(subject)
        if last is not None and now_ns - last[0] < self._interval_ns:
            self._reported[subject] = (last[0], last[1] + 1)
            return None
        self._reported.pop(subject, None)
        if len(self._reported) >= SUBJECTS_MAX:
            oldest, (reported_ns, _) = next(iter(self._reported.items()))
            if now_ns - reported_ns < self._interval_ns:
                self.overflow_count += 1
                return None
            del self._reported[oldest]
        self._reported[subject] = (now_ns, 0)
        return 0 if last is None else last[1]
