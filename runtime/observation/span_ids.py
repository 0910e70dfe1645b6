"""Span ids: gives actions their span ids, and writes the traceparents of the calls that they make (W3C Trace Context).

An action that makes a call needs a span id, which the call names as its parent. One that began without a trace is the root of
its own: its trace id is its span id, padded with zeros. A root is sampled by ratio, any other action if its caller was.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from ..objects.action import Action

#: "00-" trace id "-" span id "-" flags: 1 is sampled.
TRACEPARENT_LENGTH: Final = 55
_FLAG: Final = 54
#: Version, trace id, span id, flags. Ids of zeros alone are none.
_TRACEPARENT: Final = re.compile("[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
#: Roots are sampled by a hash of their ids: so the decision is the same whenever it is asked for, and needs no place.
_BITS: Final[i64] = (1 << 32) - 1
_MULTIPLIER: Final[i64] = 0x45D9F3B


def traceparent_of(trace: str | None) -> str | None:
    """The trace that a message carries, if it is a traceparent; None: anything else, which would be passed on otherwise."""
    return trace if trace is not None and _TRACEPARENT.fullmatch(trace) else None


class SpanIds:
    """The span ids of one process. From any thread: only the thread that runs an action, or ends it, asks for its id."""

    def __init__(self, first: int, sample: float = 1.0) -> None:
        """`first`: below 2**61; ids count up from it. `sample`: the share of roots that are sampled, 0 to 1."""
        self.first = first
        self._ids = itertools.count(first + 1)
        self._sampled_below: i64 = round(sample * (1 << 32))

    def of(self, action: Action) -> int:
        """The span id of an action."""
        if action.span == 0:
            action.span = next(self._ids)
        return action.span

    def is_sampled(self, action: Action) -> bool:
        """Whether the spans of its trace are to be kept."""
        trace = action.trace
        if trace is not None and len(trace) == TRACEPARENT_LENGTH:
            return trace[_FLAG] in "13579bdf"
        id: i64 = self.of(action)
        mixed: i64 = id & _BITS
        mixed = (mixed ^ (mixed >> 16)) * _MULTIPLIER & _BITS
        mixed = (mixed ^ (mixed >> 16)) * _MULTIPLIER & _BITS
        return (mixed ^ (mixed >> 16)) < self._sampled_below

    def context(self, action: Action) -> str:
        """The traceparent for calls made within `action`: its trace, with its own span as their parent."""
        trace = action.trace
        span = f"{self.of(action):016x}"
        if trace is None or len(trace) != TRACEPARENT_LENGTH:
            return f"00-{span:0>32}-{span}-0{int(self.is_sampled(action))}"
        return f"{trace[:36]}{span}{trace[52:]}"
