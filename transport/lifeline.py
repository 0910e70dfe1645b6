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

from .addressing import supervisor_socket
from .descriptors import opening
from .discovery import Location
from .errors import FailedPrecondition

_CREDENTIALS = struct.Struct("3i")


def open_lifeline(location: Location) -> int | None:
    """A descriptor that becomes readable when the system's supervisor ends; whoever gets it closes it.

    None where the kernel does not tell (the process is in another pid namespace). Raises `SystemNotRunning`, and
    `FailedPrecondition` when no descriptor is left, or when another user's process listens: in a shared temporary directory
    anybody may have put a socket of that name. Root may talk to anybody's supervisor, if it named the folder itself.
    """
    with opening(), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(location.supervisor))
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
    for name in difflib.get_close_matches(location.system, names):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.connect(os.fspath(supervisor_socket(folder / name)))
            return name
    return None


def check_trusted(location: Location, uid: int) -> None:
    """Raises `FailedPrecondition` when the user who listens there may not be believed."""
    here = os.getuid()
    if uid not in (here, 0) and not (here == 0 and location.is_given):
        raise FailedPrecondition(f"{location.supervisor} is served by another user (uid {uid}): not trusted")
