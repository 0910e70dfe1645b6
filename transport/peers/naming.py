"""Naming: which node keeps a name when a second node claims it.

At one address the higher incarnation is the successor at once, because an address belongs to one process at a time. At two
addresses both nodes may be alive: the one started first keeps the name, because somebody has just configured the newcomer
wrongly. So all nodes reach the same decision in whatever order claims arrive. A node known only by hearsay yields to any node
that says hello; otherwise a false report of a later incarnation could shut it out. The key is the connection's. Pure.
"""

from enum import Enum, auto

from .effects import PeerState
from .peer import Peer


class NameClaim(Enum):
    """Relation between a known peer and a node that claims its name."""

    #: The known peer itself.
    SAME = auto()
    #: Its next incarnation, or another node that may take the name over because the known one is gone.
    SUCCESSOR = auto()
    #: An earlier incarnation: a delayed message, or a clock that was set back.
    FORMER = auto()
    #: Another live node, which was started before the known one and takes the name.
    ELDER = auto()
    #: Another live node; the known one keeps the name.
    YOUNGER = auto()


def claim(peer: Peer, incarnation: int, address: str, key: str) -> NameClaim:
    """Classify a claim that a node makes for itself. Hearsay about third nodes is weighed in news.py."""
    if not peer.has_spoken and (incarnation, address) != (peer.incarnation, peer.address):
        return NameClaim.SUCCESSOR
    if address == peer.address:
        if incarnation == peer.incarnation:
            return (
                NameClaim.SAME if key == peer.key else NameClaim.SUCCESSOR if not peer.is_told_up else NameClaim.YOUNGER
            )
        is_free = peer.state is PeerState.LEFT  # and of another incarnation, whose clock may have been set back
        return NameClaim.SUCCESSOR if is_free or incarnation > peer.incarnation else NameClaim.FORMER
    if not peer.is_living:
        return NameClaim.SUCCESSOR
    return NameClaim.ELDER if keeps(incarnation, address, peer.incarnation, peer.address) else NameClaim.YOUNGER


def keeps(incarnation: int, address: str, other_incarnation: int, other_address: str) -> bool:
    """Whether the first of two live nodes with one name keeps it: the one started earlier does; ties go by address."""
    return (incarnation, address) < (other_incarnation, other_address)


def taken(name: str, holder: str) -> str:
    """Error text for the node that has to choose another name."""
    return f"the node name {name!r} belongs to the node at {holder}, which was started earlier: choose another in [node] name"
