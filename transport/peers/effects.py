"""Effects: the decisions of membership, for the owner of the sockets to carry out.

Their order matters: a `Hangup` comes before the `Dial` of its successor, a `NodeUnreachable` of a former incarnation before the
`PeerUp` of the next.
"""

from enum import StrEnum

import msgspec

from .messages import PeerMessage


class PeerState(StrEnum):
    """State of a peer, as this node judges it."""

    #: Known by hearsay, or received once; not yet confirmed in both directions.
    MET = "met"
    #: Messages arrive in both directions.
    UP = "up"
    #: Silent for `suspect_ns`; other peers are being asked.
    SUSPECT = "suspect"
    #: Silent here for `dead_ns`, or no longer receiving from us; but other peers vouch for it, or its messages still arrive.
    UNREACHABLE = "unreachable"
    #: Silent for `dead_ns`, and no other peer vouches for it.
    DEAD = "dead"
    #: It has announced that it leaves.
    LEFT = "left"
    #: Its key is not trusted here any more, or not under its name: its messages are ignored, and it is not dialled.
    REVOKED = "revoked"


class Down(StrEnum):
    """Why a peer is down. Outstanding calls end in PEER_DOWN for each of these reasons."""

    DIED = "died"
    LEFT = "left"
    RESTARTED = "restarted"
    UNREACHABLE = "unreachable"
    #: Its key is not trusted here any more, or not under its name.
    REVOKED = "revoked"
    #: Its name belongs to another node.
    NAME_TAKEN = "name taken"


class Effect(msgspec.Struct, frozen=True):
    """One decision of membership."""


class Dial(Effect, frozen=True):
    """Open a connection to `address`, where the holder of `key` is expected; answered by `connected` or `lost`.

    Always a fresh one, which gives up rather than reconnect, and queues nothing before it is established (IMMEDIATE).
    """

    address: str
    key: str


class Hangup(Effect, frozen=True):
    """Close the connection and discard its queue, which was meant for a peer that is gone. No `lost` follows it; a connection
    reported as `lost` is closed already, and gets no `Hangup`.

    `is_flushed`: first let out the last message, for no longer than a heartbeat.
    """

    address: str
    is_flushed: bool = False


class Send(Effect, frozen=True):
    """Send on the connection to `address`, ahead of all other traffic. The message may be lost."""

    address: str
    message: PeerMessage


class PeerUp(Effect, frozen=True):
    """Messages arrive in both directions: calls may go there. The peer counts as new, whatever was outstanding before."""

    name: str
    incarnation: int
    address: str
    key: str


class NodeUnreachable(Effect, frozen=True):
    """Calls outstanding on this incarnation end now, in PEER_DOWN. Exactly one follows each `PeerUp`."""

    name: str
    incarnation: int
    kind: Down
    because: str


class PeerChanged(Effect, frozen=True):
    """The state of a peer has changed; for observers."""

    name: str
    incarnation: int
    state: PeerState
    because: str


class DialFailed(Effect, frozen=True):
    """No node listens at `address`, or none answers; it is dialled again after `wait_ns`."""

    address: str
    because: str
    failures: int
    wait_ns: int


class Refused(Effect, frozen=True):
    """A node is not let into the mesh, and was told so. To be logged, each reason once an address."""

    name: str
    address: str
    key: str
    reason: str


class OfferRefused(Effect, frozen=True):
    """A peer offers operations that its key may not offer here: they are not called. `route`: the first, `count`: all."""

    name: str
    route: str
    count: int


class RefusedBy(Effect, frozen=True):
    """A peer does not let this node into the mesh. It is asked again after `refused_ns`."""

    name: str
    address: str
    reason: str


class NameTaken(Effect, frozen=True):
    """Another live node bears this node's name, and keeps it. Reported once a holder."""

    name: str
    holder: str
    reason: str


class NewIncarnation(Effect, frozen=True):
    """This node has taken another incarnation: its clock was set back, so that peers knew a later one or refused it."""

    incarnation: int
    because: str
