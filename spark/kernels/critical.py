"""Critical path: for each moment of a call tree, the action that the top caller was waiting for, and the reason.

Walked backwards from the end of the root action. While a callee was at work, the time belongs to the callee that ended last,
and within it the same rule applies again; otherwise it is the action's own. Own time counts as `run` up to the action's run
time; the remainder, spent in messages and later queues, is `other`. The time before a callee ran is its `queue`. Callees that
ended while another was at work, and casts, took no time of the path. Source: critical path analysis as in Uber's CRISP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """One action of a trace; all times in ns."""

    span: int
    parent: int
    start: int
    wait: int
    run: int
    took: int
    #: Name in the result: (component, operation).
    name: tuple[str, str] = ("", "")

    @property
    def end(self) -> int:
        """Time at which it ended."""
        return self.start + self.took

    @property
    def arrival(self) -> int:
        """Time at which it was requested; too early for an action that awaited replies, whose `wait` includes later queues."""
        return self.start - self.wait


class PathShare(NamedTuple):
    """The part of the critical path that belongs to one action, ns."""

    name: tuple[str, str]
    queue: int
    run: int
    other: int


def critical_path(spans: Sequence[Span]) -> list[PathShare]:
    """Split a trace's time among its actions; the shares add up to it. Root: the longest action without a parent in `spans`."""
    known = {span.span for span in spans}
    roots = [span for span in spans if span.parent not in known or span.parent == span.span]
    if not roots:
        return []
    children: dict[int, list[Span]] = {}
    for span in spans:
        if span.parent in known and span.parent != span.span:
            children.setdefault(span.parent, []).append(span)
    root = max(roots, key=lambda span: span.end - span.arrival)
    shares: list[PathShare] = []
    # Not by recursion: a chain of calls may be longer than the stack. (action, end of its caller's wait, begin of its time)
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
        shares.append(PathShare(span.name, max(0, min(span.start, until) - since), run, own - run))
    return shares
