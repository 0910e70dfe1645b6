"""Allowance: how many membership messages of a peer this node processes.

Membership repeats its messages: a heartbeat 200 ms later, a view as long as it differs, routes as long as their version does.
So messages beyond the allowance are dropped and counted, and not missed for long; a frame of 4,096 views kept the endpoint for
0.7 s. They are weighed, since a view of 512 records costs as much as many heartbeats; that happens before their fields are
checked. The allowance refills with time, up to the burst. One a key, however many connections and names it comes with.
"""

from __future__ import annotations

from typing import Any, Final

from appbackplane.transport.errors import MalformedFrame
from appbackplane.transport.peers.messages import ROUTES_MAX, Inquiry, Sync
from appbackplane.transport.peers.offer import ROUTE_LENGTH_MAX

#: Longest frame: all routes and topics that a node may export, at their longest, and as many removed ones.
SAY_BYTES_MAX: Final = 2 * 2 * ROUTES_MAX * (ROUTE_LENGTH_MAX + 3) + (4 << 10)
#: Weight that a peer may send at once: it costs 2 ms of heartbeats, 8 of the largest views, 16 of inquiries about 512 nodes,
#: and 50 of full lists of routes. Of 64 nodes that all come up at once none sends more than 30 to another.
BURST: Final = 256
#: Weight that is added a second. A node that is up sends 5, in a mesh of 64 up to 20.
REFILL_S: Final = 128
#: Items of lists that weigh as much as a message without any.
ITEMS_OF_ONE: Final = 128
#: A message that asks for an answer weighs so much more: that may be a view of 512 records.
ASKING: Final = 8
_ASKING: Final = frozenset((Sync.__struct_config__.tag, Inquiry.__struct_config__.tag))
_SECOND_NS: Final = 1_000_000_000


class Allowance:
    """The allowances of all peers, by their keys. Not thread-safe."""

    def __init__(self) -> None:
        #: By key: (time, allowance left then) in `_SECOND_NS`-ths: whole numbers, so that no fraction is lost.
        self._left: dict[bytes, tuple[int, int]] = {}
        #: Messages that were dropped.
        self.dropped_count = 0

    def takes(self, key: bytes, body: Any, frame_bytes: int, now_ns: int) -> bool:
        """Whether a message is within the allowance, and charge it. Raises `MalformedFrame` for too large a frame."""
        if frame_bytes > SAY_BYTES_MAX:
            raise MalformedFrame(f"{frame_bytes:,} bytes of membership messages from a node, limit {SAY_BYTES_MAX:,}")
        since_ns, left = self._left.get(key, (now_ns, BURST * _SECOND_NS))
        left = min(BURST * _SECOND_NS, left + max(0, now_ns - since_ns) * REFILL_S)
        cost = weight(body) * _SECOND_NS
        is_taken = cost <= left
        self._left[key] = now_ns, left - cost if is_taken else left
        if not is_taken:
            self.dropped_count += 1
        return is_taken


def weight(body: Any) -> int:
    """Weight of a message: by the items in its lists, and in the lists in these; deeper ones are not counted."""
    if type(body) is not dict:
        return 1
    items = 0
    for value in body.values():
        if type(value) is list:
            items += len(value)
            if items > BURST * ITEMS_OF_ONE:
                break
            items += sum(len(inner) for inner in value if type(inner) is list)
    word = body.get("kind")
    is_asking = type(word) is str and word in _ASKING and body.get("is_answer") is not True
    return 1 + ASKING * is_asking + items // ITEMS_OF_ONE
