"""Connections: which peer of the link is which generation of which backplane.

A backplane is connected when first needed, and dropped when a routing table says that its generation has ended. The next
generation has another path, hence another peer: nothing meant for the dead one reaches it (TRAPS 5). Pure, but for the link.
"""

from pathlib import Path
from typing import Final, Protocol

from .batching import SendResult
from .codec import Frame
from .directory import Directory, Place
from .errors import PeerDown

#: Calls whose answers a client's new link reads ahead: half of link.READ_AHEAD, since late answers use it, too.
ANSWERS_AHEAD: Final = 32
#: Calls whose answers a client's link reads ahead at most. Each frame may be 1 MiB, and any peer may send as many as are read
#: ahead.
ANSWERS_AHEAD_MAX: Final = 4096
#: How long the last answers of a backplane that has finished its work are waited for. They were sent before the routing table
#: that tells of its end, but by another connection: ZeroMQ's thread may read the table first, and these up to a turn of the
#: CPU later (of 64 answers of 1.5 kB, 10 to 54 had been read then, with both cores busy; with twenty programs on two cores a
#: second did not always suffice).
LAST_ANSWERS_NS: Final = 5_000_000_000
#: The same while this process has input that it has not read: the answers may be among that. A process that gets a tenth of a
#: core reads a few frames between two looks at the time.
LAST_ANSWERS_UNREAD_NS: Final = 2 * LAST_ANSWERS_NS


class LinkPort(Protocol):
    """The part of `link.Link`, where it is described, that a session needs; no method waits."""

    def connect(self, path: Path) -> bytes: ...
    def disconnect(self, peer: bytes) -> None: ...
    def send(self, peer: bytes, frame: bytes) -> SendResult: ...
    def read_ahead(self, frames: int) -> None: ...
    def receive(self) -> tuple[bytes, Frame] | None: ...


class Connections:
    """The backplanes that this process has connected to, by name."""

    def __init__(self, link: LinkPort) -> None:
        self._link = link
        self._peers: dict[str, bytes] = {}
        self._generations: dict[str, int] = {}
        self._names: dict[bytes, str] = {}
        #: Whether the link must be read until empty before it is waited on. Its descriptor is edge-triggered, and any use of
        #: the link may swallow an edge.
        self.has_more = False
        #: Calls for whose answers the link's bound need not be raised.
        self.answers_ahead = ANSWERS_AHEAD
        #: The last generation of each backplane that was drained completely.
        self._finished: dict[str, int] = {}
        #: Connections to instances that have finished, kept for their last answers: until when, and the error if none comes.
        self._retired: dict[bytes, tuple[int, PeerDown]] = {}

    def peer(self, name: str) -> bytes | None:
        """The peer of a backplane; None: not connected."""
        return self._peers.get(name)

    def place_name(self, peer: bytes) -> str | None:
        """The name of a peer's backplane; None: we have not connected to that peer."""
        return self._names.get(peer)

    def name(self, peer: bytes) -> str:
        """The name of a peer's backplane, for messages to people."""
        return self._names.get(peer, "a stranger")

    def generation(self, name: str) -> int | None:
        """The generation of a connected backplane; None: not connected."""
        return self._generations.get(name)

    def names(self) -> list[str]:
        """The names of the connected backplanes."""
        return list(self._peers)

    def peers(self) -> list[bytes]:
        """The peers of the connected backplanes."""
        return list(self._names)

    def connect(self, name: str, place: Place) -> bytes:
        """Connect to an instance that is not connected; returns its peer."""
        assert name not in self._peers
        peer = self._peers[name] = self._link.connect(Path(place.path))
        self._generations[name], self._names[peer] = place.generation, name
        self.has_more = True
        return peer

    def drop(self, name: str) -> bytes | None:
        """Disconnect from a backplane; returns its former peer."""
        peer = self._peers.pop(name, None)
        if peer is not None:
            del self._generations[name], self._names[peer]
            self._link.disconnect(peer)
            self.has_more = True
        return peer

    def retire(self, name: str, now_ns: int) -> bytes | None:
        """Keep the connection to an instance that has finished its work, for `LAST_ANSWERS_NS`, and call there no more.

        Returns its peer. None: it has not finished, so that no answer is sure to come.
        """
        error = self.finished(name)
        if error is None:
            return None
        del self._generations[name]
        peer = self._peers.pop(name)
        self._retired[peer] = (now_ns + LAST_ANSWERS_NS, error)
        return peer

    @property
    def retired_due_ns(self) -> int | None:
        """When `overdue` has the next retired connection; None: there is none."""
        return next(iter(self._retired.values()))[0] if self._retired else None

    def overdue(self, now_ns: int | None = None, *, is_unread: bool = False) -> list[tuple[bytes, PeerDown]]:
        """Drop the connections that were retired long enough ago (None: all); each peer, and the error for its calls.

        `is_unread`: whether the link may have input that came before this time.
        """
        if not self._retired:
            return []
        if now_ns is not None and is_unread:
            now_ns -= LAST_ANSWERS_UNREAD_NS - LAST_ANSWERS_NS
        overdue = [(peer, error) for peer, (at_ns, error) in self._retired.items() if now_ns is None or at_ns <= now_ns]
        for peer, _ in overdue:
            del self._retired[peer], self._names[peer]
            self._link.disconnect(peer)
            self.has_more = True
        return overdue

    def expect_answers(self, calls_count: int) -> None:
        """Have the link read the answers of this many calls ahead: each may be a frame, and its callee may end first.

        To be called before the calls are sent: then no callee can have sent as many frames as were read ahead before
        (`Link.read_ahead`). At least doubled each time, since a system call per call would cost more than the room.
        """
        ahead = min(2 * calls_count, ANSWERS_AHEAD_MAX)
        if ahead > self.answers_ahead:
            self.answers_ahead = ahead
            self._link.read_ahead(2 * ahead)

    def expect_others(self) -> None:
        """Peers will send frames that answer no call, messages of topics or items of streams: the bound stays as it is."""
        self.answers_ahead = ANSWERS_AHEAD_MAX

    def note(self, directory: Directory) -> None:
        """Note which generations have finished all their work, by a routing table that may never be adopted.

        An instance that is up has not: a restarted supervisor counts generations from 1 again, as its predecessor did.
        """
        for name, place in directory.backplanes.items():
            if place.has_finished:
                self._finished[name] = place.generation
            elif place.is_up and self._finished.get(name) == place.generation:
                del self._finished[name]

    def finished(self, name: str) -> PeerDown | None:
        """The error for calls whose answers are lost although the backplane had finished all its work; None: it had not."""
        if name not in self._finished or self._finished[name] != self._generations.get(name):
            return None
        return PeerDown(
            f"backplane {name!r} has ended, and its answer was lost on the way: the work was done, unless it was refused"
        )

    def outdated(self, directory: Directory, keep: str) -> list[str]:
        """Connected backplanes whose generation has ended by this routing table. `keep`: a name that is in no routing table."""
        up = {name: place.generation for name, place in directory.backplanes.items() if place.is_up}
        return [name for name, generation in self._generations.items() if name != keep and up.get(name) != generation]
