"""Greeting: the first messages between a node and a client on another host, and the offset between their clocks.

The client sends its version, the name by which it knows the node, and its clock. The node welcomes it, or refuses it with the
reason, before anything else is sent. Deadlines are times on the caller's clock, as on one host (envelope.py): the node learns
the clock offset from the greeting, and from a message every few seconds. So time in transit counts towards the deadline.
Clocks of two hosts drift apart by less than 0.1 ms per second. Pure: messages in, messages out.
"""

from typing import Annotated, Final

import msgspec

from ..call_spec import CallSpec
from ..envelope import CAST, Envelope, cast
from ..errors import MalformedFrame, text_of

#: Protocol version of this end. Raised by one when a message changes its meaning; new fields with a default do not need it.
PROTOCOL: Final = 1
#: Oldest version that it still speaks: clients and nodes are upgraded one after the other.
PROTOCOL_OLDEST: Final = PROTOCOL
#: A client sends its clock if it has not for so long, ns: by then the difference is off by a millisecond at the worst.
CLOCK_EVERY_NS: Final = 10_000_000_000
#: A client or node that has sent nothing for so long, not even a heartbeat, has gone. With less, as when a segment is lost
#: twice, connections may be cut where 5 % of segments are lost.
SILENCE_MS: Final = 2_000

#: Routes of these messages: with a space, which no component's have.
HELLO: Final = "remote hello"
WELCOME: Final = "remote welcome"
REFUSED: Final = "remote refused"
CLOCK: Final = "remote clock"

_Version = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Clock = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
_Because = Annotated[str, msgspec.Meta(max_length=1_000)]


class ClientHello(msgspec.Struct, frozen=True):
    """First message of a client: its protocol, the name by which it knows the node, and its clock."""

    protocol: _Version
    oldest: _Version
    #: The name by which the client knows the node: the node serves calls that address it by this name.
    node: _Name
    clock_ns: _Clock


class Welcome(msgspec.Struct, frozen=True):
    """A node accepts a client: calls may follow."""

    protocol: _Version


class ClientRefused(msgspec.Struct, frozen=True):
    """A node refuses a client, and answers none of its messages."""

    because: _Because


class ClientClock(msgspec.Struct, frozen=True):
    """A client's clock at the moment of sending."""

    clock_ns: _Clock


Word = ClientHello | Welcome | ClientRefused | ClientClock
_ROUTES: Final[dict[type[Word], str]] = {
    ClientHello: HELLO, Welcome: WELCOME, ClientRefused: REFUSED, ClientClock: CLOCK,
}  # fmt: skip
_WORDS: Final = {route: kind for kind, route in _ROUTES.items()}


def said(word: Word) -> Envelope:
    """The envelope of a greeting's message."""
    return cast(CallSpec(_ROUTES[type(word)], msgspec.to_builtins(word), priority=0))


def heard(envelope: Envelope) -> Word | None:
    """The greeting's message in an envelope; None: it is another one. Raises `MalformedFrame`."""
    kind = _WORDS.get(envelope.route or "") if envelope.kind == CAST else None
    if kind is None:
        return None
    try:
        word: Word = msgspec.convert(envelope.body, kind)
    except msgspec.ValidationError as error:
        raise MalformedFrame(f"{envelope.route}: {text_of(error, 200)}") from error
    return word


def hello(node: str, clock_ns: int) -> ClientHello:
    """The hello of a client of this version."""
    return ClientHello(PROTOCOL, PROTOCOL_OLDEST, node, clock_ns)


def answer(hello: ClientHello) -> Welcome | ClientRefused:
    """The answer of a node of this version."""
    if hello.protocol < PROTOCOL_OLDEST:
        return ClientRefused(
            f"it speaks protocol {PROTOCOL_OLDEST} and later, this client {hello.protocol}: bring the client up to date"
        )
    if hello.oldest > PROTOCOL:
        return ClientRefused(
            f"it speaks protocol {PROTOCOL}, this client {hello.oldest} and later: bring the node up to date"
        )
    return Welcome(PROTOCOL)
