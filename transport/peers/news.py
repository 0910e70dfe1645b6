"""News: what one node tells of another, weighed against what is known here.

Hearsay never overrules one's own ears: it can introduce, prove that somebody lived later than was known, and tell of a
successor at the same address, where only one process can listen. Whether two living nodes bear one name is for those
two to say themselves (naming.py). A death is never taken over from others, since each node has its own link to lose; a
farewell is. A table, in `weigh`. Pure.
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
    #: It has said that it goes.
    LEFT = auto()


def weigh(peer: Peer | None, record: Record, policy: MembershipPolicy) -> News:
    """What a record says that is not known. `peer`: who bears its name here."""
    is_living = record.fate == "living"
    is_timely = record.age_ns <= (policy.dead_ns if is_living else policy.forget_ns)
    if peer is None:
        return News.COMER if is_timely else News.NONE
    if record.address != peer.address:
        # It has moved; or two live, and then the other will speak for itself.
        is_successor = not peer.is_living and is_living and record.incarnation > peer.incarnation
        return News.COMER if is_successor and record.age_ns <= policy.suspect_ns else News.NONE
    if record.incarnation != peer.incarnation:
        return News.COMER if record.incarnation > peer.incarnation and is_timely else News.NONE
    if peer.state is State.LEFT or record.fate == "left":
        return News.NONE if peer.state is State.LEFT else News.LEFT  # for good: what else is told of it is older
    # A beat that was not known proves later life only if it is fresh: the last one of a dead node may reach us late.
    is_fresh = is_living and record.beat > peer.beat and record.age_ns <= policy.suspect_ns
    return News.PROOF if is_fresh else News.NONE
