"""Lifeline: a descriptor, polled beside the link's, that tells whether a supervisor lives.

ZeroMQ reconnects for ever and reports nothing, so a client of a dead system would wait for its deadlines. This module
connects to the socket once, without ZeroMQ: a missing listener is known at once, and the kernel names the listening process
and its user. The pidfd of that process becomes readable when it ends: seen in about a millisecond, with no message and no
thread. One descriptor a client; the plain connection is closed again at once.
"""

import os
import socket
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from .addressing import run_dir_bases, run_link, supervisor_socket
from .descriptors import opening
from .discovery import Location
from .errors import FailedPrecondition, Unavailable
from .local_links import connected

_CREDENTIALS = struct.Struct("3i")
#: Seconds for a supervisor to accept connections before ours: those of a hundred clients take some ms. The kernel's timeval.
_ROOM_WAIT_S = 1
_ROOM_WAIT = struct.pack("@ll", _ROOM_WAIT_S, 0)


def open_lifeline(location: Location) -> int | None:
    """A descriptor that becomes readable when the system's supervisor ends, for the caller to close.

    None if the kernel does not tell (the process is in another pid namespace). Raises `SystemNotRunning`, `Unavailable` if
    the supervisor has no room for a connection, and `FailedPrecondition` if no descriptor is left, or if another user's
    process listens: in a shared temporary directory anybody may have put a socket of that name. Root may talk to anybody's
    supervisor, if it named the folder itself.
    """
    with opening():
        try:
            probe = connected(
                location.supervisor,
                lambda probe: probe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _ROOM_WAIT),
            )
        except BlockingIOError as error:
            raise Unavailable(
                f"system {location.system!r} takes no more connections: its supervisor has as many as it may "
                "(ulimit -Hn, LimitNOFILE=)",
                retry_after=_ROOM_WAIT_S,
            ) from error
        except PermissionError as error:
            raise location.not_permitted() from error
        except OSError as error:
            raise location.not_running(nearest(location)) from error
        with probe:
            pid, uid = _process_at(probe)
        check_trusted(location, uid)
        try:
            with opening():
                return os.pidfd_open(pid) if pid > 0 else None
        except OSError:  # it has just ended, or the kernel is older than pidfd: deadlines still hold
            return None


def find_living(location: Location) -> Location:
    """Where this system is served: at `location`, or else where it was started in another environment.

    Checks the run directory recorded beside its log, then those that a login, a service or cron would have given it. A folder
    named by the caller is taken as it is. Returns `location` itself if nobody serves the system.
    """
    if location.is_given or _is_served(location.run_dir):
        return location
    first, *others = (base / location.system for base in run_dir_bases())
    with suppress(OSError):  # it was never started here
        others.insert(0, Path(os.readlink(run_link(location.system))))
    for run_dir in others:
        if run_dir != first and _is_served(run_dir):
            return replace(location, run_dir=run_dir)
    return location


def _is_served(run_dir: Path) -> bool:
    """Whether a trusted user's process listens there. Never blocks: a full queue means that somebody listens, and
    `open_lifeline` finds out whose process it is.
    """
    try:
        with connected(supervisor_socket(run_dir), lambda probe: probe.setblocking(False)) as probe:
            return _process_at(probe)[1] in (os.getuid(), 0)
    except BlockingIOError:
        return True
    except OSError:
        return False


def _process_at(probe: socket.socket) -> tuple[int, int]:
    """The listening process and its user, by the kernel."""
    pid, uid, _gid = _CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def nearest(location: Location) -> str | None:
    """The running system that was probably meant; None: there is none, or the caller gave no system name."""
    if location.toml is not None or location.is_given:
        return None
    import difflib  # only where somebody has mistyped

    folder = location.run_dir.parent
    try:
        names = [name for name in os.listdir(folder) if name != location.system]
    except OSError:
        return None
    return next((name for name in difflib.get_close_matches(location.system, names) if _is_served(folder / name)), None)


def check_trusted(location: Location, uid: int) -> None:
    """Raises `FailedPrecondition` if the listening process belongs to a user who is not trusted."""
    here = os.getuid()
    if uid not in (here, 0) and not (here == 0 and location.is_given):
        raise FailedPrecondition(f"{location.supervisor} is served by another user (uid {uid}): not trusted")
