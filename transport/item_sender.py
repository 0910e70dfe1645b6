"""Item sender: the caller's side of an argument that is sent item by item; the other end of an `ItemBuffer`.

No item leaves before the callee has returned credit, which it does when its operation first asks for an item. From then on the
caller may run ahead by the window, and by `BYTES_AHEAD_MAX`: what it may not send yet it does not fetch from its iterator, so a
slow operation costs the caller no memory. Items are packed when they are put, as the iterator may change them afterwards. No
locks and no clock: its owner has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from .batching import BATCH_BYTES_MAX
from .call_spec import CallSpec
from .codec import Encoder, argument_items
from .errors import InvalidArgument

#: Bytes that the sender of a reply or an argument may run ahead of its reader, beside the window of items.
BYTES_AHEAD_MAX: Final = 1 << 20
#: Added to the size of each item, so that a million empty items count as well.
ITEM_OVERHEAD_BYTES: Final = 32


class ItemSender:
    """The items of one stream that were put and have not been read, as far as their sender knows."""

    __slots__ = (
        "_ahead", "_ahead_bytes", "_credit", "_encoder", "_is_complete", "_packed", "_packed_count", "_put_count",
        "_sent_count", "_spec", "_window",
    )  # fmt: skip

    def __init__(self, spec: CallSpec, window: int, *, has_signals: bool = True) -> None:
        """`spec`: the call; `spec.streamed` names the argument. `has_signals`: whether items are packed in the main thread.

        There a signal handler may raise while an item is packed, and its exception is passed on. In any other thread an
        exception is the fault of the item, and becomes `InvalidArgument`.
        """
        self._spec = spec
        self._window = window
        #: How many items were packed; only the thread that iterates writes it. The rest is the owner's, with its lock.
        self._packed_count = 0
        #: How many items may be put in all, and were put, and sent.
        self._credit = self._put_count = self._sent_count = 0
        #: Items that were put and not sent yet.
        self._packed: list[bytes] = []
        #: Of each envelope that was not read: how many items were sent up to its end, and its bytes.
        self._ahead: deque[tuple[int, int]] = deque()
        #: Bytes of these, and of the items that were not sent yet.
        self._ahead_bytes = 0
        self._is_complete = False
        self._encoder = Encoder(has_signals=has_signals)

    # -- the thread that iterates, without a lock ---------------------------------------------------------------------

    def pack(self, item: Any) -> bytes:
        """The next item, packed. Raises `InvalidArgument` if it cannot be sent."""
        try:
            packed = self._encoder.item(item)
        except InvalidArgument as error:
            spec = self._spec
            raise InvalidArgument(
                f"{spec.route}: item {self._packed_count} of argument {spec.streamed!r} cannot be sent: {error.message}"
            ) from error
        self._packed_count += 1
        return packed

    def has_room(self, count: int = 0, bytes: int = 0) -> bool:
        """Whether one more item may be fetched, beside so many that were not put yet, and their bytes. Room only grows."""
        return (
            not self._is_complete
            and self._put_count + count < self._credit
            and self._ahead_bytes + bytes < BYTES_AHEAD_MAX
        )

    def fetch(
        self, items: Iterator[Any], count_max: int, is_late: Callable[[], bool] | None = None
    ) -> tuple[list[bytes], bool]:
        """The next items, packed, and whether there are no more. At most `count_max`, and as many as there is room for; after
        each item, `is_late` says whether to stop there. Raises what the iterator raises.
        """
        packed: list[bytes] = []
        size = 0
        while len(packed) < count_max and self.has_room(len(packed), size):
            try:
                item = next(items)
            except StopIteration:
                return packed, True
            packed.append(self.pack(item))
            size += len(packed[-1]) + ITEM_OVERHEAD_BYTES
            if is_late is not None and is_late():
                break
        return packed, False

    @property
    def has_credit(self) -> bool:
        """Whether the operation has asked for items."""
        return self._credit > 0

    # -- the owner ----------------------------------------------------------------------------------------------------

    def receive_credit(self, credit: int) -> None:
        """The callee lets this many items be sent in all. Nobody can have read more than was sent."""
        credit = min(credit, self._sent_count + self._window)
        if credit > self._credit:
            self._credit = credit
            read = credit - self._window
            ahead = self._ahead
            while ahead and ahead[0][0] <= read:
                self._ahead_bytes -= ahead.popleft()[1]

    def put(self, packed: list[bytes], *, is_last: bool) -> None:
        """The next items. `is_last`: there are no more."""
        self._packed += packed
        self._put_count += len(packed)
        self._ahead_bytes += sum(map(len, packed)) + ITEM_OVERHEAD_BYTES * len(packed)
        self._is_complete = is_last

    def envelopes(self, id: int) -> list[bytes]:
        """Packed envelopes of call `id` with all items that were not sent yet, and with the end if there are no more."""
        packed, self._packed = self._packed, []
        made: list[bytes] = []
        first = 0
        while first < len(packed) or (self._is_complete and not made):
            last, size = first, 0
            while last < len(packed):
                item_bytes = len(packed[last]) + ITEM_OVERHEAD_BYTES
                if last > first and size + item_bytes > BATCH_BYTES_MAX:
                    break
                size += item_bytes
                last += 1
            number, is_end = self._sent_count, last == len(packed)
            if last > first:
                self._sent_count += last - first
                self._ahead.append((self._sent_count, size))
            made.append(
                argument_items(
                    id,
                    packed[first:last],
                    number,
                    is_blocked=is_end and not self.has_room(),
                    is_last=is_end and self._is_complete,
                )
            )
            first = last
        return made
