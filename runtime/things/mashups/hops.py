"""Hops: how many runs of rules led to a notification. The number travels in the trace that each message carries. Pure.

A run's calls carry a trace, and so do the notifications that a thing publishes within them (docs/concepts/tracing.md), across
processes and nodes. A run gets a trace id of its own: eight digits that mark it, two for the hops, the rest random.
"""

from __future__ import annotations

from typing import Final

from ...observation.span_ids import TRACEPARENT_LENGTH

#: "mash", in hexadecimal digits. One of four thousand million other traces begins so.
_MARK: Final = "6d617368"
_AT: Final = len("00-")
_FLAGS: Final = 53


def hops_of(trace: str | None) -> int:
    """How many runs led to the bearer of a trace."""
    if trace is None or len(trace) != TRACEPARENT_LENGTH or not trace.startswith(_MARK, _AT):
        return 0
    at = _AT + len(_MARK)
    return int(trace[at : at + 2], 16)


def trace_after(hops: int, trace: str | None, random: str) -> str:
    """The trace of a run with so many hops. `trace`: of its trigger; a run is sampled if that was. `random`: 38 hex digits."""
    flags = trace[_FLAGS:] if trace is not None and len(trace) == TRACEPARENT_LENGTH else "00"
    return f"00-{_MARK}{min(hops, 255):02x}{random[:22]}-{random[22:38]}-{flags}"
