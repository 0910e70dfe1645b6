"""Window: how many bytes of one line may be on their way: the credit that whoever reads it gives back as he takes them in.

Not more than what keeps the line busy: what is beyond waits in buffers, and there all else that shares the link waits behind it
(with a megabyte on its way at 10 Mbit/s ZeroMQ's own heartbeat came 800 ms late, and each such line was cut). So the window
is learnt: it grows while nothing queues up, and shrinks to what passes within the delay of an empty line and `QUEUE_NS`
more (Vegas, Brakmo and Peterson 1994; LEDBAT, RFC 6817). By the least delay of a round trip: who is late alone, as a busy
Python is, says nothing of the line. Pure: bytes, totals and `now_ns` come in.
"""

from __future__ import annotations

from collections import deque
from typing import Final

#: What is cut off a frame at a time: 3 ms at 10 Mbit/s. In longer ones a part's own time on the wire would be taken for a queue
#: before it (with 16 KiB, half the link was left idle); shorter ones are 2 % of heads.
PART_BYTES_MIN: Final = 4 << 10
#: What may always be on its way: two parts.
WINDOW_BYTES_MIN: Final = 2 * PART_BYTES_MIN
#: What is cut off to learn the delay of a line: nothing of it is the part's own time on the wire.
PROBE_BYTES: Final = 1 << 10
#: Larger parts gain nothing: 0.05 ms to encrypt.
PART_BYTES_MAX: Final = 256 << 10
#: Before anything is known of a line: 50 ms at 10 Mbit/s.
WINDOW_BYTES_FIRST: Final = 64 << 10
#: 1 Gbit/s for 64 ms; and what one peer that reads nothing may have of this node's memory beside its outbox.
WINDOW_BYTES_MAX: Final = 8 << 20
#: How long bytes may wait on their way beyond what they need. Less is lost in how late a busy machine is; more is felt
#: by what is urgent where a link has one queue for all.
QUEUE_NS: Final = 7_000_000
#: A line is emptied for a round trip so often, to learn its delay anew: it may go another way by now.
PROBE_NS: Final = 10_000_000_000
#: And at the earliest so long after the last time, where the least window there is seems too large.
PROBE_NS_MIN: Final = 1_000_000_000
#: How much the window grows in a round trip: by this share, after it was found too large once; before, it doubles.
GROWTH_SHARE: Final = 4
#: Places in a window after which its reader is asked to tell.
MARKS: Final = 8


class Window:
    """Of one line, from its first byte on."""

    __slots__ = (
        "_base_ns", "_growth", "_is_used_up", "_least_ns", "_marked", "_marks", "_probe_from", "_probed_ns", "_round_end",
        "limit", "sent", "taken",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Bytes that may be on their way; bytes sent, and taken in, since the line stands.
        self.limit = WINDOW_BYTES_FIRST
        self.sent = self.taken = 0
        #: Where the reader was asked to tell how far he is: total, and when.
        self._marks: deque[tuple[int, int]] = deque()
        self._marked = 0
        self._base_ns = self._least_ns = 0
        self._round_end = 0
        self._is_used_up = False
        self._growth = 1
        #: When that was last, or this began.
        self._probed_ns = 0
        #: While a delay is learnt anew: the total before it.
        self._probe_from: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether a part may go. One may where no answer is awaited: a window that is shut is opened by an answer."""
        if self.sent - self.taken < self._allowed or not self._marks:
            return True
        self._is_used_up = True
        return False

    @property
    def part_bytes(self) -> int:
        """How much is to be cut off a frame."""
        if not self._marks and (self._probe_from is not None or not self._base_ns):
            return PROBE_BYTES
        return min(max(self._allowed // 16, PART_BYTES_MIN), PART_BYTES_MAX)

    def is_to_tell(self, size: int) -> bool:
        """Whether the reader is to be asked how far he is when so many bytes more have come."""
        is_due = not self._marks or self.sent + size - self._marked >= self._allowed // MARKS
        return is_due and (not self._base_ns or self.sent + size - self.taken >= self._allowed // 2)

    def send(self, size: int, now_ns: int, *, is_asked: bool) -> None:
        """So many bytes went, and the reader was asked or not."""
        self.sent += size
        if is_asked:
            self._marks.append((self.sent, now_ns))
            self._marked = self.sent

    def took(self, total: int, now_ns: int) -> bool:
        """The reader has taken in so many. False: he cannot have."""
        if not 0 <= total <= self.sent:
            return False
        if total <= self.taken:
            return True  # said twice
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
