"""Connections: which peer of the link is which generation of which backplane.

A place is connected when it is first needed, and let go when a directory says that its generation has ended: the next
one has another path, hence another peer, and nothing meant for the dead reaches the living (TRAPS 5). Pure but for the
port it is given.
"""

from pathlib import Path
from typing import Final, Protocol

from .batching import Sent
from .codec import Frame
from .directory import Directory, Place
from .errors import PeerDown

#: Calls whose answers a link reads ahead as it is made: half of link.READ_AHEAD, since topics come by it, too.
ANSWERS_AHEAD: Final = 32
#: Calls whose answers a link reads ahead at most. Each frame may be 1 MiB, and any peer may send as many as are read ahead:
#: without a bound, 5,000 calls of a backplane's objects gave each of its clients room for 20,000 frames, for ever.
ANSWERS_AHEAD_MAX: Final = 4096


class LinkPort(Protocol):
    """What a client's side needs of `link.Link`; nothing here waits."""

    def connect(self, path: Path) -> bytes:
        """The peer to send to."""

    def disconnect(self, peer: bytes) -> None:
        """Forget a peer."""

    def send(self, peer: bytes, frame: bytes) -> Sent:
        """Offer one frame."""

    def read_ahead(self, frames: int) -> None:
        """Keep room for so many frames of each peer that are not received yet."""

    def receive(self) -> tuple[bytes, Frame] | None:
        """The next (peer, frame), if there is one."""


class Connections:
    """Places we have connected to, by name."""

    def __init__(self, link: LinkPort) -> None:
        self._link = link
        self._peers: dict[str, bytes] = {}
        self._generations: dict[str, int] = {}
        self._names: dict[bytes, str] = {}
        #: Calls whose answers the link reads ahead now.
        self.answers_ahead = ANSWERS_AHEAD
        #: The last generation of each place that was drained, and left nothing.
        self._finished: dict[str, int] = {}

    def peer(self, name: str) -> bytes | None:
        """The peer that a place is; None: not connected."""
        return self._peers.get(name)

    def place_name(self, peer: bytes) -> str | None:
        """The place that a peer is; None: it is no place that we have connected to."""
        return self._names.get(peer)

    def name(self, peer: bytes) -> str:
        """The place that a peer is, for messages to people."""
        return self._names.get(peer, "a stranger")

    def names(self) -> list[str]:
        """The places we are connected to."""
        return list(self._peers)

    def peers(self) -> list[bytes]:
        """The same, as peers."""
        return list(self._names)

    def connect(self, name: str, place: Place) -> bytes:
        """Connect to a place that is not connected."""
        assert name not in self._peers
        peer = self._peers[name] = self._link.connect(Path(place.path))
        self._generations[name], self._names[peer] = place.generation, name
        return peer

    def drop(self, name: str) -> bytes | None:
        """Let go of a place; returns the peer that it was."""
        peer = self._peers.pop(name, None)
        if peer is not None:
            del self._generations[name], self._names[peer]
            self._link.disconnect(peer)
        return peer

    def expect_answers(self, calls_count: int) -> None:
        """Have the link read the answers of so many calls ahead: each may be a frame, and its callee may end before we look.

        At least doubled each time, since a system call a call would cost more than the room; the other half is for topics.
        """
        ahead = min(2 * calls_count, ANSWERS_AHEAD_MAX)
        if ahead > self.answers_ahead:
            self.answers_ahead = ahead
            self._link.read_ahead(2 * ahead)

    def note(self, directory: Directory) -> None:
        """A new version, whether it is followed or a newer one is: which generations have finished all that they had.

        One that is up has not: a supervisor that was started again counts generations from 1, as the one before it did.
        """
        for name, place in directory.backplanes.items():
            if place.has_finished:
                self._finished[name] = place.generation
            elif place.is_up and self._finished.get(name) == place.generation:
                del self._finished[name]

    def finished(self, name: str) -> PeerDown | None:
        """The end of calls whose answers are lost, although the place has finished all that it had; None: it has not."""
        if name not in self._finished or self._finished[name] != self._generations.get(name):
            return None
        return PeerDown(
            f"backplane {name!r} has ended, and its answer was lost on the way: the work was done, unless it was refused"
        )

    def outdated(self, directory: Directory, keep: str) -> list[str]:
        """Connected places whose generation has ended by this directory; `keep` is not in any directory."""
        up = {name: place.generation for name, place in directory.backplanes.items() if place.is_up}
        return [name for name, generation in self._generations.items() if name != keep and up.get(name) != generation]
