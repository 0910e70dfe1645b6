"""Ways: how a client reaches its system, on this host or on another; all that differs between the two.

A way has a link, the name of the process that distributes the routing table, and a descriptor that tells when this process is
gone. On this host, a supervisor that is gone takes all its backplanes with it. A connection to another host may break and is
made again, so calls that may be retried wait for it. `way_to` chooses by the target given to `connect`.
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
from .local_links import kind_at, local_link

if TYPE_CHECKING:
    from .remote.remote_link import RemoteLink
    from .remote.target import Target

#: As `addresses.SCHEME`, which programs on this host do not spend the time to import.
_SCHEME = "tcp://"


class ClientLink(LinkPort, Protocol):
    """The link as the client needs it, beyond the needs of its session (link.py)."""

    def expect(self) -> None: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class LocalWay:
    """The way to a system on this host. `RemoteWay` has the same methods."""

    #: Whether a broken connection is made again.
    is_remote = False

    def __init__(self, location: Location) -> None:
        self._location = location
        #: The system's name in messages, and where it is.
        self.system, self.where = location.system, f"in {location.run_dir}"
        #: Name and socket of the process that distributes the routing table.
        self.home, self.place = addressing.SUPERVISOR, location.supervisor
        self._kind = kind_at(location.supervisor)
        self.link: ClientLink = local_link(self._kind, f"client/{os.getpid()}")

    def open(self) -> int | None:
        """A descriptor, for the caller to close, that is readable when home is gone; None: unknown. Raises any obstacle."""
        lifeline = open_lifeline(self._location)
        if kind_at(self._location.supervisor) == self._kind:
            return lifeline
        if lifeline is not None:
            os.close(lifeline)
        raise Unavailable(f"system {self.system!r} has just come up, with another link: connect again", retry_after=0.1)

    def gone(self) -> BackplaneError:
        """The error for calls that were outstanding when home was gone, or that waited for it."""
        return PeerDown(f"system {self.system!r} is gone: its supervisor has ended")

    def not_running(self) -> BackplaneError:
        """The error for a system that nobody serves."""
        return self._location.not_running()


class RemoteWay:
    """The way to a system on another host, by its node."""

    is_remote = True

    def __init__(self, target: Target, link: RemoteLink) -> None:
        self._link = link
        self.system, self.where = target.node, f"at {target.address}"
        self.home, self.place = target.node, Path()
        self.link: ClientLink = link

    def open(self) -> int | None:
        return self._link.open()

    def gone(self) -> BackplaneError:
        return self._link.trouble

    def not_running(self) -> BackplaneError:
        return Unavailable(self._link.trouble.message, retry_after=self._link.trouble.retry_after)


Way = LocalWay | RemoteWay


def is_remote(target: str | os.PathLike[str]) -> bool:
    """Whether the target given to `connect` is on another host."""
    return isinstance(target, str) and target.startswith(_SCHEME)


def way_to(target: str | os.PathLike[str], keys: str | os.PathLike[str] | None, now_ns: Callable[[], int]) -> Way:
    """The way to the target given to `connect`. `keys`: folder of keys, for another host. May resolve a host name."""
    if not is_remote(target):
        if keys is not None:
            raise InvalidArgument(
                f"keys are for a system on another host, tcp://NAME@HOST:PORT; got {os.fspath(target)!r}"
            )
        return LocalWay(find_living(locate(target)))
    from .remote.remote_link import RemoteLink  # 10 ms that nobody needs on this host
    from .remote.target import Target
    from .security.keyring import Keyring

    found, keyring = Target.parse(str(target)), Keyring(None if keys is None else Path(keys).expanduser())
    found.check_keys(keyring)
    found = found.looked_up()
    return RemoteWay(found, RemoteLink(found, keyring, now_ns, random.random))


def is_back_soon(way: Way, error: BackplaneError) -> bool:
    """Whether waiting may help: the connection that ended in `error`, or could not be made, may come back."""
    return way.is_remote and isinstance(error, Unavailable | PeerDown)


def not_in_time(way: Way, error: BackplaneError) -> BackplaneError:
    """The error for a wait for a connection that ended in `error`. If the time ran out, it names the obstacle."""
    if not (way.is_remote and isinstance(error, DeadlineExceeded)):
        return error
    return DeadlineExceeded(f"no connection in time: {way.gone().message}")
