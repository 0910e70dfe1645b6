"""Faults: what is wrong with one direction of a link, and the counts of what became of its bytes and connections.

Plain data that travels as JSON between a test and the process that does it (forwarder.py). Every default is "nothing wrong".
What is said here of segments is a model: a proxy sees a stream of bytes and no packets, and what a real link does by losing
a packet, it does by being late, as TCP is when it repairs a loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: From the clients to the upstream address, back from there, or both.
Direction = Literal["up", "down", "both"]

#: What one segment carries: Ethernet's 1500 less the headers of IP and TCP with timestamps.
SEGMENT_BYTES = 1448


@dataclass(frozen=True, slots=True)
class Faults:
    """What one direction of a link does to what it carries; times in seconds, rates in bytes a second.

    `delay_s` and up to `jitter_s` more, in order. `rate`: one wire for all connections; `queue_s` of it is what waits of
    each before the wire at most, the rest in its sender's socket. `is_fair`: the connections take turns on the wire (as
    under fq_codel), else the first come is the first sent (as under tbf). `loss`: of each segment, which is held back with
    all behind it on its connection, for a round trip (where three more segments follow, so that TCP sees the gap) or for
    `rto_s`, doubled for each repetition that is lost too. `corrupt`: of each byte, one of its bits is flipped.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    rate: int | None = None
    queue_s: float = 0.02
    is_fair: bool = True
    loss: float = 0.0
    rto_s: float = 0.2
    corrupt: float = 0.0

    def __post_init__(self) -> None:
        for name in ("delay_s", "jitter_s", "queue_s", "rto_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: give seconds, 0 or more")
        for name in ("loss", "corrupt"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: give a share, 0 or more and less than 1")
        if self.rate is not None and self.rate < SEGMENT_BYTES:
            raise ValueError(f"rate is {self.rate}: give bytes a second, {SEGMENT_BYTES} or more, or None for no limit")


NOTHING_WRONG = Faults()


@dataclass(slots=True)
class Counts:
    """What a proxy has done so far. All but `open` only grow, so that a test can wait for them.

    `taken` bytes were read from one side, `bytes` were handed to the other; `refused`: the upstream address was not to be
    reached; `reset`: ended by an RST, from either side or by a cut; `closed`: ended in order; `forgotten`: half-open.
    """

    accepted: int = 0
    open: int = 0
    closed: int = 0
    reset: int = 0
    refused: int = 0
    forgotten: int = 0
    up_taken: int = 0
    up_bytes: int = 0
    up_losses: int = 0
    up_flips: int = 0
    down_taken: int = 0
    down_bytes: int = 0
    down_losses: int = 0
    down_flips: int = 0
