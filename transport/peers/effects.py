"""Effects: everything that membership can ask for or tell. Frozen words; whoever owns the sockets carries them out.

In the order in which they are given: a `Hangup` comes before the `Dial` of its successor, a `PeerDown` of a former
incarnation before the `PeerUp` of the next.
"""

from dataclasses import dataclass
from enum import StrEnum

from .messages import Message


class State(StrEnum):
    """What a node thinks of another."""

    #: Told of, or heard once; not yet heard both ways.
    MET = "met"
    #: It is heard, and hears us.
    UP = "up"
    #: Silent for `suspect_ns`; others are being asked.
    SUSPECT = "suspect"
    #: Silent here for `dead_ns`, or deaf to us; but others vouch for it, or it is heard itself.
    UNREACHABLE = "unreachable"
    #: Silent for `dead_ns`, and nobody vouches for it.
    DEAD = "dead"
    #: It said that it goes.
    LEFT = "left"
    #: Its key is not trusted here any more, or not under its name: nothing it says counts, and it is not dialled.
    REVOKED = "revoked"


class Down(StrEnum):
    """Why a peer is down. For what is outstanding it is all the same: it ends in PEER_DOWN."""

    DIED = "died"
    LEFT = "left"
    RESTARTED = "restarted"
    UNREACHABLE = "unreachable"
    #: Its key is not trusted here any more, or not under its name.
    REVOKED = "revoked"
    #: Its name belongs to another.
    NAME_TAKEN = "name taken"


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a connection to `address`, whose server key is the one called `key`; answered by `connected` or `lost`.

    A fresh one for each, that gives up rather than reconnect by itself, and queues nothing before it stands (IMMEDIATE).
    """

    address: str
    key: str


@dataclass(frozen=True, slots=True)
class Hangup:
    """Close the connection and throw away what waits in it: it was meant for somebody who is gone. Nothing more is to be told
    of it; one that was told to be `lost` is gone, and not hung up on.

    `is_flushed`: let out first what was just sent, as long as that takes no longer than a heartbeat.
    """

    address: str
    is_flushed: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Send on the connection to `address`, ahead of all traffic. May be lost."""

    address: str
    message: Message


@dataclass(frozen=True, slots=True)
class PeerUp:
    """It is heard and hears us: calls may go there, and it is a new one, whatever was outstanding before."""

    name: str
    incarnation: int
    address: str
    key: str


@dataclass(frozen=True, slots=True)
class PeerDown:
    """What is outstanding on this incarnation ends now, in PEER_DOWN. Exactly one follows each `PeerUp`."""

    name: str
    incarnation: int
    kind: Down
    because: str


@dataclass(frozen=True, slots=True)
class PeerChanged:
    """What is thought of a peer, for those who look on."""

    name: str
    incarnation: int
    state: State
    because: str


@dataclass(frozen=True, slots=True)
class DialFailed:
    """Nobody there, or nobody who answers; it is dialled again after `wait_ns`."""

    address: str
    because: str
    failures: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Somebody is not let into the mesh, and has been told so. To be logged, each reason once an address."""

    name: str
    address: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class OfferRefused:
    """A peer offers operations that its key may not offer here: they are not called there. `route`: the first, `count`: all."""

    name: str
    route: str
    count: int


@dataclass(frozen=True, slots=True)
class RefusedBy:
    """A peer does not let us into the mesh. It is asked again after `refused_ns`."""

    name: str
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class NameTaken:
    """Two living nodes bear this node's name, and the other one keeps it. Told once a holder."""

    name: str
    holder: str
    reason: str


@dataclass(frozen=True, slots=True)
class NewIncarnation:
    """This node has taken another incarnation: its clock was set back, so that peers knew it by a later one or refused it."""

    incarnation: int
    because: str


Effect = (
    Dial
    | Hangup
    | Send
    | PeerUp
    | PeerDown
    | PeerChanged
    | DialFailed
    | Refused
    | OfferRefused
    | RefusedBy
    | NameTaken
    | NewIncarnation
)
