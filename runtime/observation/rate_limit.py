"""Rate limit of reports: one a subject and interval, with a count of those left out.

A system in trouble must not be drowned by its own warnings, and the reader must know that there were more (DESIGN 12.10).
"""

from __future__ import annotations

#: One report a subject in this time: often enough to see that trouble goes on, seldom enough to read.
REPORT_INTERVAL_NS = 5_000_000_000
#: Subjects remembered, and so the reports of any kind in one interval. Names come from declarations and are few, but
#: peers are named by strangers: a new name for each report must not get around the limit.
SUBJECTS_MAX = 1_000
#: A subject is cut here: it may quote a route, which a stranger may have made as long as a frame.
SUBJECT_LENGTH_MAX = 200


class RateLimit:
    """Decides whether one more report is made."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[int, int]] = {}  # subject: when, left out since; the latest last
        #: Reports left out because too many subjects were reported of late.
        self.overflow_count = 0

    def admit(self, subject: str, now_ns: int) -> int | None:
        """How many reports of `subject` were left out before this one, which is made; None: leave this one out too."""
        subject = subject[:SUBJECT_LENGTH_MAX]
        last = self._reported.get(subject)
        if last is not None and now_ns - last[0] < REPORT_INTERVAL_NS:
            self._reported[subject] = (last[0], last[1] + 1)
            return None
        self._reported.pop(subject, None)
        if len(self._reported) >= SUBJECTS_MAX:
            oldest, (reported_ns, _) = next(iter(self._reported.items()))
            if now_ns - reported_ns < REPORT_INTERVAL_NS:
                self.overflow_count += 1
                return None
            del self._reported[oldest]
        self._reported[subject] = (now_ns, 0)
        return 0 if last is None else last[1]
