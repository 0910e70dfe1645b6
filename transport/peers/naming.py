"""Naming: who bears a name, when somebody speaks who is not the one that is known by it.

An address belongs to one process at a time, so at one address the higher incarnation is the successor, at once. At two
addresses both may live: then who was started first keeps the name, because the newcomer is the one that somebody has just
configured wrongly, and all nodes come to the same answer whatever they heard first. A node that was only told of yields to
whoever says hello: others could shut a node out otherwise, by telling of a later one. The key is the connection's. Pure.
"""

from enum import Enum, auto

from .effects import State
from .peer import Peer


class Claim(Enum):
    """What somebody is who says to bear a name that is known."""

    #: The one that is known.
    SAME = auto()
    #: The next incarnation of it, or another node that may take the name over: the known one is gone.
    SUCCESSOR = auto()
    #: An earlier incarnation: words that were long on their way, or a clock that was set back.
    FORMER = auto()
    #: Another node that lives beside the known one, and was started before it.
    ELDER = auto()
    #: Another node that lives beside the known one, which keeps the name.
    YOUNGER = auto()


def claim(peer: Peer, incarnation: int, address: str, key: str) -> Claim:
    """Of who speaks itself: what is only told of another is weighed in view.py."""
    if not peer.has_spoken and (incarnation, address) != (peer.incarnation, peer.address):
        return Claim.SUCCESSOR
    if address == peer.address:
        if incarnation == peer.incarnation:
            return Claim.SAME if key == peer.key else Claim.SUCCESSOR if not peer.is_told_up else Claim.YOUNGER
        is_free = peer.state is State.LEFT  # and of another incarnation, whose clock may have been set back
        return Claim.SUCCESSOR if is_free or incarnation > peer.incarnation else Claim.FORMER
    if not peer.is_living:
        return Claim.SUCCESSOR
    return Claim.ELDER if keeps(incarnation, address, peer.incarnation, peer.address) else Claim.YOUNGER


def keeps(incarnation: int, address: str, other_incarnation: int, other_address: str) -> bool:
    """Whether the first of two living nodes with one name keeps it: who was started first, and then by address."""
    return (incarnation, address) < (other_incarnation, other_address)


def taken(name: str, holder: str) -> str:
    """For the one that does not keep it."""
    return f"the node name {name!r} belongs to the node at {holder}, which was started earlier: choose another in [node] name"
