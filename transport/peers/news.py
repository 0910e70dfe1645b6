"""News: reports of one node about another, weighed against this node's own knowledge.

Hearsay never overrules direct observation. It can introduce a node, and prove that a node lived later than was known. It can
replace a node that is dead here, or has never spoken here, by a later incarnation. A reported farewell or death ends nothing
unless the node's own key confirms it: a farewell makes a suspect, until the node itself is heard (SWIM's refutation). Two live
nodes with one name settle that by their own hellos (naming.py). The table is in `weigh`. Pure.
"""

from enum import Enum, auto

from .effects import PeerState
from .messages import NodeRecord
from .peer import Peer
from .policy import MembershipPolicy


class News(Enum):
    """Consequence of a record that a peer has sent."""

    #: Nothing new, or too old to count.
    NONE = auto()
    #: A node that was not known, or the successor of a known one.
    COMER = auto()
    #: The node lived later than was known here.
    PROOF = auto()
    #: The node may have left, but has not said so itself.
    RUMOUR = auto()


def weigh(peer: Peer | None, record: NodeRecord, policy: MembershipPolicy) -> News:
    """Judge a record by what is known here. `peer`: the node of that name; None: there is none."""
    is_living = record.fate == "living"
    is_timely = record.age_ns <= (policy.dead_ns if is_living else policy.forget_ns)
    if record.fate == "left":
        is_doubt = peer is not None and (peer.incarnation, peer.address) == (record.incarnation, record.address)
        return News.RUMOUR if is_doubt and peer is not None and peer.is_living and not peer.is_refuted else News.NONE
    if peer is None:
        return News.COMER if is_timely else News.NONE
    if record.address != peer.address:
        # It has moved; or two nodes live, and then the other will say hello itself.
        is_successor = not peer.is_living and is_living and record.incarnation > peer.incarnation
        return News.COMER if is_successor and record.age_ns <= policy.suspect_ns else News.NONE
    if record.incarnation != peer.incarnation:
        # While the known incarnation is heard, or was until a moment ago, its successor has to say hello itself.
        is_heard = peer.is_living and peer.has_spoken
        is_successor = record.incarnation > peer.incarnation and not is_heard
        return News.COMER if is_successor and is_timely else News.NONE
    if peer.state is PeerState.LEFT:
        return News.NONE  # it said so itself: any report of it is older
    # A higher beat proves later life only if it is fresh: the last one of a dead node may arrive late.
    is_fresh = is_living and record.beat > peer.beat and record.age_ns <= policy.suspect_ns
    return News.PROOF if is_fresh else News.NONE
