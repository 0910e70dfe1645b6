"""View: all nodes that this one knows, and their records for other nodes.

Two views agree when their digests do: a hash over the living nodes, each with its incarnation and address. The dead are not in
it, since nodes forget them at different moments. A peer whose digest differs is sent the whole view, and answers with the
records that this lacks (anti-entropy, Demers et al., PODC 1987). So no single message has to arrive. Bounded by the policy: 64
members, and 128 dead, of which the longest dead goes first.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from .effects import PeerState
from .messages import INCARNATION_MAX, NAME_PATTERN, NodeRecord
from .peer import Peer


@dataclass(frozen=True, slots=True)
class Identity:
    """This node: its name, start time (unix ns), listening address, and key as text."""

    name: str
    incarnation: int
    address: str
    key: str

    def __post_init__(self) -> None:
        if not re.match(NAME_PATTERN, self.name):
            raise ValueError(f"node name {self.name!r}: expected 1 to 64 letters, digits, '-', '_' or '.'")
        if not 0 < self.incarnation < INCARNATION_MAX:
            raise ValueError(
                f"incarnation {self.incarnation}: expected the unix time at which the node was started, in ns"
            )


class View:
    """Peers by name and by address."""

    def __init__(self, me: Identity) -> None:
        self.me = me
        self._peers: dict[str, Peer] = {}
        self._by_address: dict[str, Peer] = {}
        self._digest = -1

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    def get(self, name: str) -> Peer | None:
        """The peer that bears this name; None: unknown."""
        return self._peers.get(name)

    def at(self, address: str) -> Peer | None:
        """The peer that listens at this address; None: unknown."""
        return self._by_address.get(address)

    def add(self, peer: Peer) -> None:
        """Add a peer. Its name and its address must be free."""
        assert peer.name not in self._peers
        assert peer.address not in self._by_address
        self._peers[peer.name] = self._by_address[peer.address] = peer
        self.has_changed()

    def remove(self, peer: Peer) -> None:
        """Forget a peer, by name and by address."""
        del self._peers[peer.name], self._by_address[peer.address]
        self.has_changed()

    def has_changed(self) -> None:
        """Discard the cached digest of the view, because a peer has come to life, ended, or changed its incarnation."""
        self._digest = -1

    def living(self) -> list[Peer]:
        """The living peers, without this node."""
        return [peer for peer in self._peers.values() if peer.is_living]

    def members(self) -> frozenset[tuple[str, int, str]]:
        """The view itself: (name, incarnation, address) of all that live, this node included."""
        return frozenset(
            {(self.me.name, self.me.incarnation, self.me.address)}
            | {(peer.name, peer.incarnation, peer.address) for peer in self._peers.values() if peer.is_living}
        )

    def digest(self) -> int:
        """A hash of `members`, 63 bits: equal where the views are."""
        if self._digest < 0:
            self._digest = 0
            for member in self.members():
                hashed = blake2b("\0".join(map(str, member)).encode(errors="surrogatepass"), digest_size=8)
                self._digest ^= int.from_bytes(hashed.digest(), "big") >> 1
        return self._digest

    def records(self, now_ns: int) -> tuple[NodeRecord, ...]:
        """Records of this node and of all that it knows."""
        own = NodeRecord(self.me.name, self.me.incarnation, self.me.address, self.me.key, "living", 0, 0)
        return (own, *(peer.record(now_ns) for peer in self._peers.values()))

    def lacking(self, told: Iterable[NodeRecord], now_ns: int) -> tuple[NodeRecord, ...]:
        """Records that are news for a node that knows those `told`: missing, or outdated there."""
        known = {record.name: record for record in told}
        return tuple(record for record in self.records(now_ns) if _is_news_for(known.get(record.name), record))

    def outlived(self, forget_ns: int, count_max: int, now_ns: int) -> list[Peer]:
        """The dead that are to be forgotten: their time is over, or there are too many."""
        dead = sorted((peer for peer in self._peers.values() if not peer.is_living), key=lambda peer: peer.ended_ns)
        too_many = max(0, len(dead) - count_max)
        return [peer for n, peer in enumerate(dead) if n < too_many or now_ns - peer.ended_ns >= forget_ns]


def _is_news_for(known: NodeRecord | None, ours: NodeRecord) -> bool:
    if known is None:
        return True
    if known.incarnation != ours.incarnation:
        return known.incarnation < ours.incarnation
    return ours.fate == "left" != known.fate or (ours.fate == "living" and ours.beat > known.beat)


def state_of(record: NodeRecord) -> PeerState:
    """The first state of a node that is known by hearsay. Never `LEFT`: only its own key can say that."""
    return PeerState.MET if record.fate == "living" else PeerState.DEAD
