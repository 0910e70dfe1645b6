"""Messages: what the nodes of a system say to each other about themselves and others. Frozen words.

They travel as the body of an envelope (transport/codec.py), and come back through `message_from`, which checks every field:
a peer that is trusted may still be wrong. Each bears who says it (name and incarnation), which incarnation it is meant for
(what was queued for a dead peer is not taken by its successor), how often its sender has beaten, and what it last heard of
the other's clock: so each frame proves both that its sender lives and that it hears us. Who the sender is by its key, the
connection says, never the message. Longest: `Sync`, some 20 KB with 64 nodes and 128 dead; `Routes`, 1 MB at its bounds.
"""

from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec

from ..errors import MalformedFrame, text_of

#: What this node speaks. Raised by one when a field changes its meaning; new fields with a default do not need it.
PROTOCOL: Final = 1
#: The oldest that it still speaks: a system is brought up to date node by node.
PROTOCOL_OLDEST: Final = PROTOCOL - 1

#: Routes and topics that one node may export, each: a full list stays a fraction of one frame.
ROUTES_MAX: Final = 4_096
#: Others that one message may speak of: members and remembered dead, with room for peers whose policy allows more.
RECORDS_MAX: Final = 512

#: What a node may be called: no slash, which stands between it and a route.
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"
Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
#: It stands in logs and in tables on terminals: without blanks, and without what a terminal takes for orders.
Address = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,256}\Z")]
#: What was dialled, if anything.
Dialled = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{0,256}\Z")]
#: A sentence, for the same places: on one line.
Sentence = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{0,1024}\Z")]
#: What stands for a key, the same on all nodes: its public half, or a fingerprint of it.
Key = Annotated[str, msgspec.Meta(max_length=128)]
#: Of `peers --routes`, too.
Route = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,256}\Z")]
#: Times, counters and incarnations.
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
#: No clock is ahead so far (the year 2116): who says so is wrong, and one more would not fit the wire one day.
INCARNATION_MAX: Final = 1 << 62
#: Below the bound by enough for the next one.
Incarnation = Annotated[int, msgspec.Meta(ge=0, lt=INCARNATION_MAX - 1)]
#: 0: idle; 1: all its workers are busy; above: work waits.
Load = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    """What each message bears."""

    name: Name
    incarnation: Incarnation
    #: The incarnation it is meant for; 0: not known, which only a `Hello` may say.
    to: Incarnation
    #: The sender's rounds of heartbeats so far: a greater number is later news of it, whoever tells it.
    beat: Count
    #: The sender's clock, and what it last heard of the receiver's; 0: nothing.
    sent_ns: Count
    echo_ns: Count


class Heartbeat(Message, frozen=True, kw_only=True):
    """I live, and hear you."""

    #: Of the sender's view: whose differs, has something to tell.
    digest: Count
    #: How often the other has come up for the sender, and whether it is up: so who was given up meanwhile gets to know.
    session: Count
    is_up: bool
    #: Version of the routes it offers, and how busy it is.
    routes: Count
    load: Load


class Hello(Heartbeat, frozen=True, kw_only=True):
    """A heartbeat that says all about its sender: said until the other has answered."""

    protocol: Count
    protocol_oldest: Count
    #: Where the sender listens.
    address: Address
    #: What the sender dialled to say this, and what the other dialled when it last said it: so aliases are found.
    dialled: Address
    reached_as: Dialled = ""


class Refusal(Message, frozen=True, kw_only=True):
    """You cannot be my peer now, and why."""

    reason: Sentence
    #: What the other dialled to say hello: there it will not be heard for a while.
    dialled: Dialled
    #: A higher incarnation by which you are known here: your clock was set back. 0: that is not the reason.
    known: Incarnation = 0
    #: Where the node listens that bears your name; "": that is not the reason.
    holder: Dialled = ""


class Leave(Message, frozen=True, kw_only=True):
    """I go, in order: do not wait for me."""


class Inquiry(Message, frozen=True, kw_only=True, tag="inquiry"):
    """What do you know of these? Somebody else has to be asked before silence is taken for death (SWIM)."""

    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=RECORDS_MAX)]


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What a node knows of another."""

    name: Name
    incarnation: Incarnation
    address: Address
    key: Key
    #: "living", "dead" or "left".
    fate: Annotated[str, msgspec.Meta(pattern="^(living|dead|left)$")]
    beat: Count
    #: Since the last proof of its life, or since its end.
    age_ns: Count


class Vouch(Message, frozen=True, kw_only=True):
    """The answer: these live, as far as I know."""

    records: Annotated[tuple[Record, ...], msgspec.Meta(max_length=RECORDS_MAX)]


class Sync(Message, frozen=True, kw_only=True):
    """My whole view; or, as an answer, of my view what yours lacks."""

    records: Annotated[tuple[Record, ...], msgspec.Meta(max_length=RECORDS_MAX)]
    is_answer: bool = False


class RoutesWanted(Message, frozen=True, kw_only=True):
    """Tell me your routes; I know them as they were in version `since` (0: not at all)."""

    since: Count


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What has come, and what has gone."""

    added: Annotated[tuple[Route, ...], msgspec.Meta(max_length=ROUTES_MAX)] = ()
    removed: Annotated[tuple[Route, ...], msgspec.Meta(max_length=ROUTES_MAX)] = ()


class Routes(Message, frozen=True, kw_only=True):
    """What changed in what I export; `since` 0: all there is."""

    since: Count
    version: Count
    operations: Change
    topics: Change
    #: Of the operations, those that may wait: what is said of them at no other priority goes by the line for bulk.
    bulk: Change = Change()


#: By their word on the wire: msgspec takes 1 µs for one kind, and 14 to look through a union of them each time.
KINDS: Final[dict[object, type[Message]]] = {
    kind.__struct_config__.tag: kind
    for kind in (Hello, Heartbeat, Refusal, Leave, Inquiry, Vouch, Sync, RoutesWanted, Routes)
}

# Two threads that each convert the first message of a kind crash msgspec 0.22 (it shows what it knows of a type before that is
# whole), so the first is here.
for _kind in KINDS.values():
    with suppress(msgspec.ValidationError):
        msgspec.convert({}, _kind)


def body_of(message: Message) -> dict[str, Any]:
    """As the body of an envelope."""
    body: dict[str, Any] = msgspec.to_builtins(message)
    return body


def message_from(body: Any) -> Message:
    """From the body of an envelope. Raises `MalformedFrame`, and nothing else."""
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
    """Why two nodes cannot understand each other; None: they can, in the older one's protocol."""
    common = min(PROTOCOL, hello.protocol)
    if common >= max(PROTOCOL_OLDEST, hello.protocol_oldest):
        return None
    behind = "it" if hello.protocol < PROTOCOL else "this node"
    return (
        f"node {hello.name!r} at {hello.address} speaks peer protocol {hello.protocol} (at the oldest"
        f" {hello.protocol_oldest}), this node {PROTOCOL} (at the oldest {PROTOCOL_OLDEST}): upgrade {behind}"
    )
