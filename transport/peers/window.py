"""Window: flow control of one connection: how many bytes may be in transit, unacknowledged by the receiver.

Only as many as keep the connection busy. More would wait in buffers, and delay all other traffic of the link: with a megabyte
in transit at 10 Mbit/s ZeroMQ's own heartbeat came 800 ms late, and each such connection was cut. So the window is learnt
(Vegas, Brakmo and Peterson 1994; LEDBAT, RFC 6817). It grows while nothing queues up, and shrinks to the bytes that pass
within the delay of an empty connection plus `QUEUE_NS`. The least delay of a round trip counts: a single late acknowledgement,
as from a busy Python process, says nothing of the connection. Pure: bytes, totals and `now_ns` come in.
"""

from __future__ import annotations

from collections import deque
from typing import Final

#: Smallest part: 3 ms at 10 Mbit/s. In longer ones a part's own time on the wire would be taken for a queue before it (with 16
#: KiB, half the link was left idle); shorter ones would have 2 % headers.
PART_BYTES_MIN: Final = 4 << 10
#: Smallest window: two parts.
WINDOW_BYTES_MIN: Final = 2 * PART_BYTES_MIN
#: Part that measures the delay of a connection: its own time on the wire does not count.
PROBE_BYTES: Final = 1 << 10
#: Largest part: larger ones gain nothing. Takes 0.05 ms to encrypt.
PART_BYTES_MAX: Final = 256 << 10
#: Window of a new connection: 50 ms at 10 Mbit/s.
WINDOW_BYTES_FIRST: Final = 64 << 10
#: Largest window: 1 Gbit/s for 64 ms; and the memory that a peer that reads nothing may hold here beside its outbox.
WINDOW_BYTES_MAX: Final = 8 << 20
#: Delay in queues that is accepted. A lower value is lost in the delays of a busy machine; a higher one delays urgent messages
#: where a link has one queue for all.
QUEUE_NS: Final = 7_000_000
#: A connection is drained for a round trip so often, to measure its delay anew: its route may have changed.
PROBE_NS: Final = 10_000_000_000
#: The same, at the earliest, while even the smallest window seems too large.
PROBE_NS_MIN: Final = 1_000_000_000
#: Growth in a round trip: the window divided by this, once it was found too large; before, it doubles.
GROWTH_SHARE: Final = 4
#: Acknowledgements requested in one window.
MARKS: Final = 8


class FlowWindow:
    """Flow control of one connection, from its first byte on."""

    __slots__ = (
        "_base_ns", "_growth", "_is_used_up", "_least_ns", "_marked", "_marks", "_probe_from", "_probed_ns", "_round_end",
        "limit", "sent", "taken",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Bytes that may be in transit; bytes sent, and acknowledged, since the connection was established.
        self.limit = WINDOW_BYTES_FIRST
        self.sent = self.taken = 0
        #: Acknowledgements that are awaited: total sent, and when.
        self._marks: deque[tuple[int, int]] = deque()
        self._marked = 0
        self._base_ns = self._least_ns = 0
        self._round_end = 0
        self._is_used_up = False
        self._growth = 1
        #: When the delay was last measured anew, or the first time.
        self._probed_ns = 0
        #: While the delay is measured anew: the total sent before that.
        self._probe_from: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether a part may be sent. Always while no acknowledgement is awaited: only one could open a closed window."""
        if self.sent - self.taken < self._allowed or not self._marks:
            return True
        self._is_used_up = True
        return False

    @property
    def part_bytes(self) -> int:
        """Size of the next part of a frame, bytes."""
        if not self._marks and (self._probe_from is not None or not self._base_ns):
            return PROBE_BYTES
        return min(max(self._allowed // 16, PART_BYTES_MIN), PART_BYTES_MAX)

    def is_to_tell(self, size: int) -> bool:
        """Whether to request an acknowledgement with the next part, of `size` bytes."""
        is_due = not self._marks or self.sent + size - self._marked >= self._allowed // MARKS
        return is_due and (not self._base_ns or self.sent + size - self.taken >= self._allowed // 2)

    def send(self, size: int, now_ns: int, *, is_asked: bool) -> None:
        """Record a part of `size` bytes that was sent; `is_asked`: with a request for acknowledgement."""
        self.sent += size
        if is_asked:
            self._marks.append((self.sent, now_ns))
            self._marked = self.sent

    def took(self, total: int, now_ns: int) -> bool:
        """Record an acknowledged total, bytes. False: it is impossible, as so much was never sent."""
        if not 0 <= total <= self.sent:
            return False
        if total <= self.taken:
            return True  # repeated
        self.taken = total
        delay_ns = mark = 0
        while self._marks and self._marks[0][0] <= total:
            mark, sent_ns = self._marks.popleft()
            delay_ns = max(1, now_ns - sent_ns)
        if mark:
            self._learn(mark, delay_ns, now_ns)
        return True

    @property
    def _allowed(self) -> int:
        return self.limit if self._probe_from is None else 1

    def _learn(self, mark: int, delay_ns: int, now_ns: int) -> None:
        if self._probe_from is not None:
            if mark > self._probe_from:
                self._base_ns, self._probe_from = delay_ns, None
                self._begin_round()
            return
        self._base_ns = min(self._base_ns, delay_ns) or delay_ns
        self._least_ns = min(self._least_ns, delay_ns) or delay_ns
        if self.taken < self._round_end:
            return
        queue_ns = self._least_ns - self._base_ns
        if self._is_used_up:
            if queue_ns > QUEUE_NS:
                fitting = self.limit * (self._base_ns + QUEUE_NS) // self._least_ns
                self.limit = max(WINDOW_BYTES_MIN, self.limit // 2, fitting)
                self._growth = GROWTH_SHARE
            else:
                more = self.limit // self._growth if queue_ns <= QUEUE_NS // 2 else PART_BYTES_MIN
                self.limit = min(WINDOW_BYTES_MAX, self.limit + more)
        self._begin_round()
        self._probed_ns = self._probed_ns or now_ns
        is_least = self.limit == WINDOW_BYTES_MIN and queue_ns > QUEUE_NS
        if now_ns - self._probed_ns >= (PROBE_NS_MIN if is_least else PROBE_NS):
            self._probed_ns, self._probe_from = now_ns, self.sent

    def _begin_round(self) -> None:
        self._round_end, self._least_ns, self._is_used_up = self.sent, 0, False
