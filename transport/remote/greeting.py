"""Greeting: what a client of another host and a node say to each other before the first call, and of the time.

The client says which version it speaks, by which name it knows the node, and what its clock shows; the node welcomes it, or
says why not, and only then is anything else said. Deadlines travel as they do on one host, by the caller's clock
(envelope.py): the node knows from the greeting, and from a word that follows every few seconds, how that clock stands to its
own. So what a call waits for on its way is spent there, too. Clocks of two hosts drift apart by less than 0.1 ms a second.
Pure: words in, words out.
"""

from typing import Annotated, Final

import msgspec

from ..call_spec import CallSpec
from ..envelope import CAST, Envelope, cast
from ..errors import MalformedFrame, text_of

#: What this end speaks. Raised by one when a word changes its meaning; new fields with a default do not need it.
PROTOCOL: Final = 1
#: The oldest that it still speaks: clients and nodes are brought up to date one after the other.
PROTOCOL_OLDEST: Final = PROTOCOL
#: A client says what its clock shows when it has not for so long, ns: by then it is off by a millisecond at the worst.
CLOCK_EVERY_NS: Final = 10_000_000_000
#: Who has said nothing for so long, not even a heartbeat, has gone. With less, as when a segment is lost twice, connections
#: may be cut where 5 % of segments are lost.
SILENCE_MS: Final = 2_000

#: The routes of these words: with a space, which no component's have.
HELLO: Final = "remote hello"
WELCOME: Final = "remote welcome"
REFUSED: Final = "remote refused"
CLOCK: Final = "remote clock"

_Version = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Clock = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
_Because = Annotated[str, msgspec.Meta(max_length=1_000)]


class Hello(msgspec.Struct, frozen=True):
    """A client: I am new here."""

    protocol: _Version
    oldest: _Version
    #: By which name it knows the node: what it calls is served there by this one.
    node: _Name
    clock_ns: _Clock


class Welcome(msgspec.Struct, frozen=True):
    """A node: say what you want."""

    protocol: _Version


class Refused(msgspec.Struct, frozen=True):
    """A node: nothing that you say is understood or answered here."""

    because: _Because


class Clock(msgspec.Struct, frozen=True):
    """A client: what its clock shows now."""

    clock_ns: _Clock


Word = Hello | Welcome | Refused | Clock
_ROUTES: Final[dict[type, str]] = {Hello: HELLO, Welcome: WELCOME, Refused: REFUSED, Clock: CLOCK}
_WORDS: Final[dict[str, type[Word]]] = {HELLO: Hello, WELCOME: Welcome, REFUSED: Refused, CLOCK: Clock}


def said(word: Word) -> Envelope:
    """As it travels."""
    return cast(CallSpec(_ROUTES[type(word)], msgspec.to_builtins(word), priority=0))


def heard(envelope: Envelope) -> Word | None:
    """The word that an envelope is; None: it is something else. Raises `MalformedFrame`."""
    kind = _WORDS.get(envelope.route or "") if envelope.kind == CAST else None
    if kind is None:
        return None
    try:
        word: Word = msgspec.convert(envelope.body, kind)
    except msgspec.ValidationError as error:
        raise MalformedFrame(f"{envelope.route}: {text_of(error, 200)}") from error
    return word


def hello(node: str, clock_ns: int) -> Hello:
    """Of a client of this version."""
    return Hello(PROTOCOL, PROTOCOL_OLDEST, node, clock_ns)


def answer(hello: Hello) -> Welcome | Refused:
    """Of a node of this version."""
    if hello.protocol < PROTOCOL_OLDEST:
        return Refused(
            f"it speaks protocol {PROTOCOL_OLDEST} and later, this client {hello.protocol}: bring the client up to date"
        )
    if hello.oldest > PROTOCOL:
        return Refused(
            f"it speaks protocol {PROTOCOL}, this client {hello.oldest} and later: bring the node up to date"
        )
    return Welcome(PROTOCOL)
