"""Readers: the component that is connected to RFID readers, as a dispatcher of their frames, and holds their things."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from appbackplane.runtime.dispatcher import DataProtector, Dispatcher
from appbackplane.runtime.dispatcher.sources import Outlet, TimerSource
from appbackplane.runtime.dispatcher.sources.sockets import SocketSource

from . import handlers
from .epcis import expect_biz_step, expect_uri
from .handlers import ReaderLink, ReaderLinks, Smoothers
from .messages import Connect
from .smoothing import Smoother, SmoothingPolicy
from .things import Antenna, EventOutbox, RfidReader


@dataclass(frozen=True)
class ReaderSettings:
    """A reader. `address`: IP:PORT; 5084 is the port of LLRP. `antennas`: the read points of its antennas 1, 2, …, as URIs."""

    address: str
    antennas: list[str] = field(default_factory=list)
    biz_step: str = "receiving"


class Readers(Dispatcher):
    """readers: by name. reads_min, window_ms, gone_ms: a tag is present after so many reads within the window, and gone when it
    was not read for so long. retry_s: between two attempts to connect. silent_s: after which a connection is given up; a reader
    sends keepalives more often.
    """

    depends_on = ("repository",)

    def __init__(
        self, readers: dict[str, ReaderSettings], reads_min: int = 3, window_ms: int = 500, gone_ms: int = 1_500,
        retry_s: float = 1.0, silent_s: float = 10.0,
    ) -> None:  # fmt: skip
        if not (reads_min > 0 < window_ms <= gone_ms and retry_s > 0 < silent_s):
            raise ValueError("expected reads_min, retry_s and silent_s above 0, and 0 < window_ms <= gone_ms")
        self.readers = readers
        self.retry_s, self.silent_s = retry_s, silent_s
        self.policy = SmoothingPolicy(reads_min, window_ms * 1_000, gone_ms * 1_000)
        self.timers = TimerSource()

    def setup(self) -> None:
        """Add the things, and register the handlers."""
        links, smoothers, points = {}, {}, set[str]()
        for name, reader in self.readers.items():
            links[name] = ReaderLink(_address(name, reader.address), name, self.retry_s, self.silent_s)
            expect_biz_step(reader.biz_step)
            self.add(RfidReader(), key=name)
            for number, point in enumerate(reader.antennas, 1):
                expect_uri(point, f"readers.{name}.antennas")
                if point in points:
                    raise ValueError(f"readers.{name}.antennas: {point!r} is there twice: one read point is one thing")
                points.add(point)
                self.add(Antenna(reader.biz_step), key=point)
                smoothers[name, number] = point, Smoother(self.policy)
        self.add(EventOutbox())
        self.connect_handlers(DataProtector(ReaderLinks(links)), DataProtector(Smoothers(smoothers)))
        for name in self.readers:
            self.timers.begin(0.0, Connect(name))

    def connect_handlers(self, links: DataProtector[ReaderLinks], smoothers: DataProtector[Smoothers]) -> None:
        sockets, timers, out = self.attach(SocketSource()), self.attach(self.timers), self.attach(Outlet())
        self.register(handlers.connect, links, sockets, timers)
        self.register(handlers.take_connection, links)
        self.register(handlers.take_failure, links, timers, out)
        self.register(handlers.take_end, links, timers, out)
        self.register(handlers.take_silence, links, sockets, timers, out)
        self.register(handlers.refuse, links, sockets, out)
        self.register(handlers.take_reads, links, smoothers, timers, out)
        self.register(handlers.take_event, links, smoothers, sockets, timers, out)
        self.register(handlers.acknowledge, links, sockets, timers, out)
        self.register(handlers.take_other, links, timers, out)


def _address(name: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    try:
        ipaddress.ip_address(host)
        if 0 < int(port) < 65_536:
            return host, int(port)
    except ValueError:
        pass
    raise ValueError(f"readers.{name}.address = {text!r}: expected IP:PORT, such as 192.0.2.7:5084")
