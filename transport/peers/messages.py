"""Messages: the membership protocol between the nodes of a system. Frozen structs.

They travel as the body of an envelope (transport/codec.py). `message_from` checks every field, because a trusted peer may
still be wrong. Each message carries its sender's name, incarnation and heartbeat count. It also carries the receiver's
incarnation, so that a successor ignores messages queued for its dead predecessor, and an echo of the receiver's clock. So each
frame proves that its sender lives and receives our messages. The sender's key comes from the connection, never from the
message. Largest: `Sync`, some 20 KB with 64 nodes and 128 dead; `Routes`, 1 MB at its bounds.
"""

from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec

from ..errors import MalformedFrame, text_of

#: Protocol version of this node. Raised by one when a field changes its meaning; new fields with a default do not need it.
PROTOCOL: Final = 1
#: Oldest version that it still speaks: a system is upgraded node by node.
PROTOCOL_OLDEST: Final = PROTOCOL - 1

#: Routes and topics that one node may export, each: a full list stays a fraction of one frame.
ROUTES_MAX: Final = 4_096
#: Records in one message: members and remembered dead, with room for peers whose policy allows more.
RECORDS_MAX: Final = 512

#: Pattern of node names: no slash, which separates a node's name from a route.
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"
Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
#: Shown in logs and in tables on terminals: no blanks, and no control characters.
Address = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,256}\Z")]
#: The address that was dialled; empty: none.
Dialled = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{0,256}\Z")]
#: One line of text for logs and terminals.
Sentence = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,1024}\Z")]
#: Identifies a key, the same on all nodes: its public half, or a fingerprint of it.
Key = Annotated[str, msgspec.Meta(max_length=128)]
#: Shown by `peers --routes`: no control characters.
Route = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,256}\Z")]
#: Times, counters and incarnations: 63 bits.
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
#: No clock is ahead so far (the year 2116): a larger incarnation is false, and its successor would not fit the wire one day.
INCARNATION_MAX: Final = 1 << 62
#: Leaves room below INCARNATION_MAX for the next one.
Incarnation = Annotated[int, msgspec.Meta(ge=0, lt=INCARNATION_MAX - 1)]
#: 0: idle; 1: all workers are busy; above: work is queued.
Load = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class PeerMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    """Fields that every message carries."""

    name: Name
    incarnation: Incarnation
    #: Incarnation of the receiver; 0: unknown, which only a `Hello` may say.
    to: Incarnation
    #: Heartbeat rounds of the sender so far: a greater count is later news, whichever peer reports it.
    beat: Count
    #: The sender's clock, and the receiver's clock as the sender last received it; 0: not yet.
    sent_ns: Count
    echo_ns: Count


class Heartbeat(PeerMessage, frozen=True, kw_only=True):
    """The sender is alive, and receives the receiver's messages."""

    #: Digest of the sender's view: a different digest means that the views have to be exchanged.
    digest: Count
    #: How often the receiver has come up at the sender, and whether it is up: so a peer learns that it was given up meanwhile.
    session: Count
    is_up: bool
    #: Version of the sender's routes, and its load.
    routes: Count
    load: Load


class Hello(Heartbeat, frozen=True, kw_only=True):
    """A heartbeat with the sender's full identity, sent until the peer has answered."""

    protocol: Count
    protocol_oldest: Count
    #: Address at which the sender listens.
    address: Address
    #: Address that the sender dialled for this hello, and the one that the receiver dialled for its last: they reveal aliases.
    dialled: Address
    reached_as: Dialled = ""


class Refusal(PeerMessage, frozen=True, kw_only=True):
    """The sender refuses the receiver as a peer for now, with the reason."""

    reason: Sentence
    #: Address that the receiver dialled for its hello: it is to wait before it dials there again.
    dialled: Dialled
    #: The receiver's incarnation that the sender knows, if it is higher: the receiver's clock was set back. 0: another reason.
    known: Incarnation = 0
    #: Address of the node that holds the receiver's name; "": that is not the reason.
    holder: Dialled = ""


class Leave(PeerMessage, frozen=True, kw_only=True):
    """The sender shuts down gracefully: do not wait for it."""


class Inquiry(PeerMessage, frozen=True, kw_only=True, tag="inquiry"):
    """Asks a third node about silent ones, before their silence is taken for death (SWIM)."""

    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=RECORDS_MAX)]


class NodeRecord(msgspec.Struct, frozen=True, array_like=True):
    """One node, as the sender of the record knows it."""

    name: Name
    incarnation: Incarnation
    address: Address
    key: Key
    #: "living", "dead" or "left".
    fate: Annotated[str, msgspec.Meta(pattern="^(living|dead|left)$")]
    beat: Count
    #: Since the last proof of life, or since its end.
    age_ns: Count


class Vouch(PeerMessage, frozen=True, kw_only=True):
    """Answer to an `Inquiry`: records of the nodes that the sender knows to be alive, or to have left."""

    records: Annotated[tuple[NodeRecord, ...], msgspec.Meta(max_length=RECORDS_MAX)]


class Sync(PeerMessage, frozen=True, kw_only=True):
    """The sender's whole view; as an answer, the records that the receiver's view lacks."""

    records: Annotated[tuple[NodeRecord, ...], msgspec.Meta(max_length=RECORDS_MAX)]
    is_answer: bool = False


class RoutesWanted(PeerMessage, frozen=True, kw_only=True):
    """Requests the receiver's routes. The sender knows them as of version `since` (0: not at all)."""

    since: Count


class ListChange(msgspec.Struct, frozen=True, array_like=True):
    """Difference between two versions of a list of routes or topics."""

    added: Annotated[tuple[Route, ...], msgspec.Meta(max_length=ROUTES_MAX)] = ()
    removed: Annotated[tuple[Route, ...], msgspec.Meta(max_length=ROUTES_MAX)] = ()


class Routes(PeerMessage, frozen=True, kw_only=True):
    """Changes of the sender's exports since version `since`; 0: the complete lists."""

    since: Count
    version: Count
    operations: ListChange
    topics: ListChange
    #: Operations that may wait: calls of them without a priority use the bulk connection.
    bulk: ListChange = ListChange()


#: Types by tag: msgspec takes 1 µs for one type, and 14 to search a union each time.
KINDS: Final[dict[object, type[PeerMessage]]] = {
    kind.__struct_config__.tag: kind
    for kind in (Hello, Heartbeat, Refusal, Leave, Inquiry, Vouch, Sync, RoutesWanted, Routes)
}

# msgspec 0.22 crashes if two threads convert the first message of a type at once, because it publishes its description of a
# type before that is complete. So the first conversion of each type is here.
for _kind in KINDS.values():
    with suppress(msgspec.ValidationError):
        msgspec.convert({}, _kind)


def body_of(message: PeerMessage) -> dict[str, Any]:
    """The message as the body of an envelope."""
    body: dict[str, Any] = msgspec.to_builtins(message)
    return body


def message_from(body: Any) -> PeerMessage:
    """Parse the body of an envelope. Raises `MalformedFrame`, and nothing else."""
    word = body.get("kind") if type(body) is dict else None
    kind = KINDS.get(word) if type(word) is str else None
    if kind is None:
        raise MalformedFrame(
            f"not a message between nodes: {text_of(word, 64)} is none of {', '.join(map(str, KINDS))}"
        )
    try:
        return msgspec.convert(body, kind)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise MalformedFrame(f"not a message between nodes: {text_of(error, 256)}") from error


def incompatible(hello: Hello) -> str | None:
    """Why two nodes have no protocol version in common; None: they speak the older one's."""
    common = min(PROTOCOL, hello.protocol)
    if common >= max(PROTOCOL_OLDEST, hello.protocol_oldest):
        return None
    behind = "it" if hello.protocol < PROTOCOL else "this node"
    return (
        f"node {hello.name!r} at {hello.address} speaks peer protocol {hello.protocol} (at the oldest"
        f" {hello.protocol_oldest}), this node {PROTOCOL} (at the oldest {PROTOCOL_OLDEST}): upgrade {behind}"
    )
