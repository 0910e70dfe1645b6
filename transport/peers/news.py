"""News: what one node tells of another, weighed against what is known here.

Hearsay never overrules one's own ears. It can introduce a node, prove that a node lived later than was known, and replace a
node that is dead here, or was never heard here, by a later incarnation. A farewell or a death ends nothing unless the node's
own key says so: told by others, a farewell makes a suspect, until the node itself is heard (SWIM's refutation). Whether two
living nodes bear one name is for those two to say themselves (naming.py). A table, in `weigh`. Pure.
"""

from enum import Enum, auto

from .effects import State
from .messages import Record
from .peer import Peer
from .policy import MembershipPolicy


class News(Enum):
    """What follows from a record."""

    #: Nothing that was not known, or too old to count.
    NONE = auto()
    #: Somebody who was not known, or the successor of who was.
    COMER = auto()
    #: It lived later than was known here.
    PROOF = auto()
    #: It may have left: the farewell is not known from itself.
    RUMOUR = auto()


def weigh(peer: Peer | None, record: Record, policy: MembershipPolicy) -> News:
    """What a record says that is not known. `peer`: who bears its name here."""
    is_living = record.fate == "living"
    is_timely = record.age_ns <= (policy.dead_ns if is_living else policy.forget_ns)
    if record.fate == "left":
        is_doubt = peer is not None and (peer.incarnation, peer.address) == (record.incarnation, record.address)
        return News.RUMOUR if is_doubt and peer is not None and peer.is_living and not peer.is_refuted else News.NONE
    if peer is None:
        return News.COMER if is_timely else News.NONE
    if record.address != peer.address:
        # It has moved; or two live, and then the other will speak for itself.
        is_successor = not peer.is_living and is_living and record.incarnation > peer.incarnation
        return News.COMER if is_successor and record.age_ns <= policy.suspect_ns else News.NONE
    if record.incarnation != peer.incarnation:
        # While the known one is heard, or was until a moment ago, its successor has to say so itself.
        is_heard = peer.is_living and peer.has_spoken
        is_successor = record.incarnation > peer.incarnation and not is_heard
        return News.COMER if is_successor and is_timely else News.NONE
    if peer.state is State.LEFT:
        return News.NONE  # it said so itself: what else is told of it is older
    # A beat that was not known proves later life only if it is fresh: the last one of a dead node may reach us late.
    is_fresh = is_living and record.beat > peer.beat and record.age_ns <= policy.suspect_ns
    return News.PROOF if is_fresh else News.NONE
