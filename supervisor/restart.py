"""Restart: whether a backplane that died starts again, and when.

Two rules that answer two questions. Intensity (Erlang/OTP's `max` restarts `within` a period): is restarting any use?
Backoff: how much of the machine may a crash loop cost? The first restart is immediate, because most deaths are single;
the wait then doubles, and starts anew once a process was up long enough to be called healthy (DESIGN 12.10).
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import RestartPolicy

#: A start costs about a quarter of a second of CPU: who is up ten times as long costs a tenth of a core at most.
HEALTHY_NS = 2_500_000_000
#: Wait before the second restart in a row: about one start, so that a crash loop takes half a core at its worst.
BACKOFF_NS = 200_000_000
#: Longest wait: a person who has mended the cause sees it come back within this.
BACKOFF_NS_MAX = 10_000_000_000


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """The restarts of one backplane that still count."""

    #: When it was restarted, oldest first; those within the period.
    restarts_ns: tuple[int, ...] = ()
    #: Deaths in a row before it was healthy.
    in_a_row: int = 0

    # `up_ns`: how long it had been up, its components in their role; 0 when it never was.
    def after_death(self, policy: RestartPolicy, up_ns: int, now_ns: int) -> tuple[RestartHistory, int | None]:
        """The history from now on, and when to start again; None: give up."""
        recent = tuple(at_ns for at_ns in self.restarts_ns if at_ns > now_ns - policy.within_ns)
        if len(recent) >= policy.max:
            return RestartHistory(recent, self.in_a_row), None
        in_a_row = 0 if up_ns >= HEALTHY_NS else self.in_a_row
        wait_ns = 0 if in_a_row == 0 else min(BACKOFF_NS_MAX, BACKOFF_NS << min(in_a_row - 1, 32))
        return RestartHistory((*recent, now_ns), in_a_row + 1), now_ns + wait_ns


def sentence(policy: RestartPolicy) -> str:
    """Why it was given up, for whoever reads the status."""
    if policy.max == 0:
        return "it is not to be restarted (restart.max = 0)"
    return f"{policy.max} restarts within {policy.within_ns / 1e9:g} s were not enough"
