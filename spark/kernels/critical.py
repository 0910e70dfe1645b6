"""Critical path: of a tree of calls, which action the caller at the top was waiting for, moment by moment, and why.

Walked backwards from the end of the first action: as long as a callee was at work that ended last, the time is the callee's,
and within it the same again; else it is the action's own. Of its own time, what is run time is `run`; the rest it spent
between queues and messages, `other`. Before a callee ran it was queued, which is its `queue`. Callees that ended while another
was at work, and what was only cast, took nobody's time. Source: critical path analysis as of Uber's CRISP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """One action of a trace. Times in ns."""

    span: int
    parent: int
    start: int
    wait: int
    run: int
    took: int
    #: What it is called in the answer.
    name: tuple[str, str] = ("", "")

    @property
    def end(self) -> int:
        """When it had ended."""
        return self.start + self.took

    @property
    def arrival(self) -> int:
        """When it was asked for; of one that awaited replies, at the earliest."""
        return self.start - self.wait


class Share(NamedTuple):
    """What of the critical path is one action's."""

    name: tuple[str, str]
    queue: int
    run: int
    other: int


def critical_path(spans: Sequence[Span]) -> list[Share]:
    """Of a trace whose first action is the one without a parent that is known here; the shares add up to its whole time."""
    known = {span.span for span in spans}
    roots = [span for span in spans if span.parent not in known or span.parent == span.span]
    if not roots:
        return []
    children: dict[int, list[Span]] = {}
    for span in spans:
        if span.parent in known and span.parent != span.span:
            children.setdefault(span.parent, []).append(span)
    root = max(roots, key=lambda span: span.end - span.arrival)
    shares: list[Share] = []
    # Not by recursion: a chain of calls may be longer than the stack. (action, when its caller stopped waiting for it, from
    # when on it may be charged)
    left = [(root, root.end, root.arrival)]
    while left:
        span, until, since = left.pop()
        own, at = 0, until
        first = max(span.start, since)
        for child in sorted(children.get(span.span, ()), key=lambda child: child.end, reverse=True):
            end, begin = min(child.end, at), max(child.arrival, first)
            if begin >= end:
                continue
            own += at - end
            left.append((child, end, begin))
            at = begin
        own += max(0, at - first)
        run = min(own, span.run)
        shares.append(Share(span.name, max(0, min(span.start, until) - since), run, own - run))
    return shares
