"""Lifeline: whether a supervisor lives, as a descriptor to poll beside the link's.

ZeroMQ reconnects for ever and says nothing, so a client of a dead system would wait for its deadlines. Here the socket
is connected to once, plainly: that nobody answers is known at once, and the kernel says which process listens and whose
it is. The pidfd of that process becomes readable when it ends: seen in about a millisecond, with no message and no
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

_CREDENTIALS = struct.Struct("3i")
#: For a supervisor to take in those before us; a start of a hundred clients takes it some ms. A timeval, for the kernel.
_ROOM_WAIT_S = 1
_ROOM_WAIT = struct.pack("@ll", _ROOM_WAIT_S, 0)


def open_lifeline(location: Location) -> int | None:
    """A descriptor that becomes readable when the system's supervisor ends; whoever gets it closes it.

    None where the kernel does not tell (the process is in another pid namespace). Raises `SystemNotRunning`, `Unavailable`
    when the supervisor has no room for a connection, and `FailedPrecondition` when no descriptor is left, or when another
    user's process listens: in a shared temporary directory anybody may have put a socket of that name. Root may talk to
    anybody's supervisor, if it named the folder itself.
    """
    with opening(), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _ROOM_WAIT)
        try:
            probe.connect(os.fspath(location.supervisor))
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
        pid, uid, _gid = _CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        check_trusted(location, uid)
        try:
            with opening():
                return os.pidfd_open(pid) if pid > 0 else None
        except OSError:  # it has ended in this very moment, or the kernel is older than pidfd: deadlines still hold
            return None


def find_living(location: Location) -> Location:
    """Where this system is served: at `location`, or else where it was started in another environment.

    Looked for in the run directory that is recorded beside its log, and in those that a login, a service or cron would have
    given it. A folder that was named is taken as it is. `location` itself where nobody serves it.
    """
    if location.is_given or _is_served(location.run_dir):
        return location
    for run_dir in other_run_dirs(location.system):
        if _is_served(run_dir):
            return replace(location, run_dir=run_dir)
    return location


def other_run_dirs(system: str) -> list[Path]:
    """Where it may have been started, beside its default run directory."""
    first, *others = (base / system for base in run_dir_bases())
    with suppress(OSError):  # it was never started here
        others.insert(0, Path(os.readlink(run_link(system))))
    return [run_dir for run_dir in others if run_dir != first]


def _is_served(run_dir: Path) -> bool:
    """Whether a process listens there that this user may believe. Never blocks: where its queue is full somebody listens, and
    `open_lifeline` finds out whose process it is.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(supervisor_socket(run_dir)))
        except BlockingIOError:
            return True
        except OSError:
            return False
        _pid, uid, _gid = _CREDENTIALS.unpack(
            probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        return uid in (os.getuid(), 0)


def nearest(location: Location) -> str | None:
    """The system that was probably meant, of those that run; None: there is none, or it was not named by its name."""
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
    """Raises `FailedPrecondition` when the user who listens there may not be believed."""
    here = os.getuid()
    if uid not in (here, 0) and not (here == 0 and location.is_given):
        raise FailedPrecondition(f"{location.supervisor} is served by another user (uid {uid}): not trusted")
