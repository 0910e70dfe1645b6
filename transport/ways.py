"""Ways: how a client reaches its system, on this host or on another; all that differs between the two.

A way has a link, the name of the place that hands out the directory, and something that tells when that place is gone. What
is gone on this host is gone: the supervisor and all its backplanes with it. A connection to another host breaks, and is made
again, so that what may be done twice waits for it. `way_to` chooses by what `connect` was given.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from . import addressing
from .connections import LinkPort
from .discovery import Location, locate
from .errors import BackplaneError, DeadlineExceeded, InvalidArgument, PeerDown, Unavailable
from .lifeline import find_living, open_lifeline
from .link import LINGER_MS, Link

if TYPE_CHECKING:
    from .remote.remote_link import RemoteLink
    from .remote.target import Target

#: As `addresses.SCHEME`, which programs on this host do not wait for.
_SCHEME = "tcp://"


class ClientLink(LinkPort, Protocol):
    """What the owner of a client's link needs of it, beside what its session does (link.py)."""

    def expect(self) -> None:
        """The descriptor has just been found readable."""

    def fileno(self) -> int:
        """Readable when there may be something."""

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Let go."""


class Way(Protocol):
    """A way to one system, of one client."""

    #: How it is called in messages, and where it is: "in /run/…", "at tcp://…".
    system: str
    where: str
    #: The name and the socket of the place that hands out the directory.
    home: str
    place: Path
    #: Whether the connection is made again when it breaks.
    is_remote: bool
    link: ClientLink

    def open(self) -> int | None:
        """A descriptor that becomes readable when home is gone; whoever gets it closes it. Raises what is in the way."""

    def gone(self) -> BackplaneError:
        """In what calls end that were outstanding there when it was, or that waited for it."""

    def not_running(self) -> BackplaneError:
        """The error for a system that nobody serves."""


class LocalWay:
    """To a system on this host."""

    is_remote = False

    def __init__(self, location: Location) -> None:
        self._location = location
        self.system, self.where = location.system, f"in {location.run_dir}"
        self.home, self.place = addressing.SUPERVISOR, location.supervisor
        self.link: ClientLink = Link(f"client/{os.getpid()}")

    def open(self) -> int | None:
        """Raises `SystemNotRunning`, `FailedPrecondition`."""
        return open_lifeline(self._location)

    def gone(self) -> BackplaneError:
        """Its supervisor has ended."""
        return PeerDown(f"system {self.system!r} is gone: its supervisor has ended")

    def not_running(self) -> BackplaneError:
        """And how to start it."""
        return self._location.not_running()


class RemoteWay:
    """To a system on another host, by its node."""

    is_remote = True

    def __init__(self, target: Target, link: RemoteLink) -> None:
        self._link = link
        self.system, self.where = target.node, f"at {target.address}"
        self.home, self.place = target.node, Path()
        self.link: ClientLink = link

    def open(self) -> int | None:
        """Each time another."""
        return self._link.open()

    def gone(self) -> BackplaneError:
        """As the link has it."""
        return self._link.trouble

    def not_running(self) -> BackplaneError:
        """As it is gone."""
        return Unavailable(self._link.trouble.message, retry_after=self._link.trouble.retry_after)


def is_remote(target: str | os.PathLike[str]) -> bool:
    """Whether what `connect` was given is on another host."""
    return isinstance(target, str) and target.startswith(_SCHEME)


def way_to(target: str | os.PathLike[str], keys: str | os.PathLike[str] | None, now_ns: Callable[[], int]) -> Way:
    """To what `connect` was given. `keys`: the folder of this host's keys, for a system on another. May look a name up."""
    if not is_remote(target):
        if keys is not None:
            raise InvalidArgument(
                f"keys are for a system on another host, tcp://NAME@HOST:PORT; got {os.fspath(target)!r}"
            )
        return LocalWay(find_living(locate(target)))
    from .remote.remote_link import RemoteLink  # 10 ms that nobody needs on this host
    from .remote.target import Target, keyring_at

    found, keyring = Target.parse(str(target)), keyring_at(keys)
    found.check_keys(keyring)
    found = found.looked_up()
    return RemoteWay(found, RemoteLink(found, keyring, now_ns, random.random))


def is_back_soon(way: Way, error: BackplaneError) -> bool:
    """Whether who waits for a connection that has ended so, or could not be made, need not wait in vain."""
    return way.is_remote and isinstance(error, Unavailable | PeerDown)


def not_in_time(way: Way, error: BackplaneError) -> BackplaneError:
    """`error`, in which the wait for a connection has ended; of one that took too long it is said what kept it away."""
    if not (way.is_remote and isinstance(error, DeadlineExceeded)):
        return error
    return DeadlineExceeded(f"no connection in time: {way.gone().message}")
