"""Handlers: connect to readers, keep the connections alive, and pass reads to the smoothers."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from appbackplane.runtime import NotFound
from appbackplane.runtime.dispatcher.sources import Outlet, TimerSource
from appbackplane.runtime.dispatcher.sources.sockets import Closed, Connected, Failed, Malformed, SocketSource

from .llrp import KEEPALIVE_ACK, Llrp, frame
from .messages import AcknowledgementAsked, Connect, FellSilent, OtherFrame, ReaderEvent, ReadsReported, TagRead
from .smoothing import Smoother, TagArrival, TagDeparture

#: Antennas beside those in the settings that are logged: more than a reader has.
UNKNOWN_MAX: Final = 1_000

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReaderLink:
    """The connection to one reader. `key`: of its thing. `attempt`, `connection`, `silence`: ids of the sources; 0: none."""

    address: tuple[str, int]
    key: str
    retry_s: float
    silent_s: float
    attempt: int = 0
    connection: int = 0
    silence: int = 0
    #: Whether it has sent a frame over this connection; whether its loss was logged already.
    is_heard: bool = False
    is_lost: bool = False


@dataclass
class ReaderLinks:
    """All of them, by reader."""

    of: dict[str, ReaderLink]

    def by_connection(self, connection: int) -> tuple[str, ReaderLink] | None:
        """The reader of a connection; None: it is an earlier connection."""
        return next((each for each in self.of.items() if each[1].connection == connection), None)


@dataclass
class Smoothers:
    """The smoothers of all antennas by reader and antenna, with the keys of their things."""

    of: Mapping[tuple[str, int], tuple[str, Smoother]]
    #: Antennas that are read and not in the settings; each is logged once.
    unknown: set[tuple[str, int]] = field(default_factory=set)


def connect(message: Connect, links: ReaderLinks, sockets: SocketSource, timers: TimerSource) -> None:
    """Begin to connect; a reader that does not answer counts as silent."""
    link = links.of[message.reader]
    link.attempt = sockets.begin_connect(link.address, framing=partial(Llrp, message.reader))
    link.silence = timers.begin(link.silent_s, FellSilent(message.reader))


def take_connection(message: Connected, links: ReaderLinks) -> None:
    """The reader's first frame says whether it accepts this client."""
    for link in links.of.values():
        if link.attempt == message.transaction:
            link.attempt, link.connection = 0, message.connection


def take_failure(message: Failed, links: ReaderLinks, timers: TimerSource, out: Outlet) -> None:
    """Nobody listens. Failures of writes are followed by `Closed`."""
    for reader, link in links.of.items():
        if link.attempt == message.transaction:
            _lose(reader, link, message.because, timers, out)


def take_end(message: Closed, links: ReaderLinks, timers: TimerSource, out: Outlet) -> None:
    """A connection has ended: connect again."""
    if found := links.by_connection(message.connection):
        _lose(*found, message.because, timers, out)


def take_silence(
    message: FellSilent, links: ReaderLinks, sockets: SocketSource, timers: TimerSource, out: Outlet
) -> None:
    """Give the connection up: the reader, or a cable, is dead."""
    link = links.of[message.reader]
    if link.connection:
        with suppress(NotFound):
            sockets.begin_close(link.connection)
    else:
        sockets.cancel(link.attempt)
    _lose(message.reader, link, f"silent for {link.silent_s:g} s", timers, out)


def refuse(message: Malformed, links: ReaderLinks, sockets: SocketSource, out: Outlet) -> None:
    """Where one frame is wrong, the next may be, too: begin anew. `Closed` follows."""
    if found := links.by_connection(message.connection):
        reader, link = found
        _log_loss(reader, link, message.because)
        out.cast("readers.note", key=link.key, is_connected=False, malformed=1)
        with suppress(NotFound):
            sockets.begin_close(message.connection)


def take_reads(
    message: ReadsReported, links: ReaderLinks, smoothers: Smoothers, timers: TimerSource, out: Outlet
) -> None:
    """Have the smoothers decide which tags have come and gone."""
    _hear(message, links, timers, out)
    reads: dict[int, list[TagRead]] = defaultdict(list)
    for read in message.reads:
        reads[read.antenna].append(read)
    for antenna, found in reads.items():
        place = message.reader, antenna
        if place in smoothers.of:
            key, smoother = smoothers.of[place]
            _tell(smoother.take(found), key, out)
        elif place not in smoothers.unknown and len(smoothers.unknown) < UNKNOWN_MAX:
            smoothers.unknown.add(place)
            log.warning("reader %s: antenna %d is not in the settings: its reads are dropped", *place)


def take_event(
    message: ReaderEvent,
    links: ReaderLinks,
    smoothers: Smoothers,
    sockets: SocketSource,
    timers: TimerSource,
    out: Outlet,
) -> None:
    """Time has passed for all antennas: tags that were not read are gone."""
    if message.is_refused:
        _log_loss(message.reader, links.of[message.reader], "another client is connected to it")
        with suppress(NotFound):
            sockets.begin_close(message.connection)
        return
    _hear(message, links, timers, out)
    for (reader, _), (key, smoother) in smoothers.of.items():
        if reader == message.reader and message.time_us is not None:
            _tell(smoother.pass_to(message.time_us), key, out)


def acknowledge(
    message: AcknowledgementAsked, links: ReaderLinks, sockets: SocketSource, timers: TimerSource, out: Outlet
) -> None:
    """A reader ends a connection whose client does not acknowledge."""
    _hear(message, links, timers, out)
    with suppress(NotFound):
        sockets.begin_write(message.connection, frame(KEEPALIVE_ACK, message.id))


def take_other(message: OtherFrame, links: ReaderLinks, timers: TimerSource, out: Outlet) -> None:
    """Its content is not used."""
    _hear(message, links, timers, out)


def _hear(
    message: ReadsReported | ReaderEvent | AcknowledgementAsked | OtherFrame,
    links: ReaderLinks,
    timers: TimerSource,
    out: Outlet,
) -> None:
    """The reader lives: count its silence from now."""
    link = links.of[message.reader]
    if link.connection == message.connection:
        timers.cancel(link.silence)
        link.silence = timers.begin(link.silent_s, FellSilent(message.reader))
        if not link.is_heard:
            link.is_heard, link.is_lost = True, False
            out.cast("readers.note", key=link.key, is_connected=True, malformed=0)


def _lose(reader: str, link: ReaderLink, because: str, timers: TimerSource, out: Outlet) -> None:
    timers.cancel(link.silence)
    if link.is_heard:
        out.cast("readers.note", key=link.key, is_connected=False, malformed=0)
    _log_loss(reader, link, because)
    link.attempt = link.connection = 0
    link.is_heard = False
    timers.begin(link.retry_s, Connect(reader))


def _log_loss(reader: str, link: ReaderLink, because: str) -> None:
    """Once, until the reader is heard again."""
    if not link.is_lost:
        link.is_lost = True
        log.warning("reader %s: %s: connecting again each %g s", reader, because, link.retry_s)


def _tell(changes: list[TagArrival | TagDeparture], key: str, out: Outlet) -> None:
    for change in changes:
        if isinstance(change, TagArrival):
            out.cast("readers.arrive", key=key, epc=change.epc, first_us=change.first_us)
        else:
            out.cast("readers.depart", key=key, epc=change.epc, last_us=change.last_us, reads=change.reads)
