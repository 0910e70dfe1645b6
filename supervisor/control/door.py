"""Door: makes new connections wait while the supervisor has few descriptors left, as systemd does.

ZeroMQ accepts on a thread of its own and aborts the process at the descriptor limit (TRAPS 1). It cannot be paused: `unbind`
closes accepted connections. So without room, the path of the listening socket leads to a second one that accepts nobody.
With room again, it leads back; waiting clients are disconnected and their ZeroMQ reconnects. They are also disconnected each
2 s, because clients that have hung up would fill the queue.

Room is checked after connections have come: a flood that takes `RESERVE` descriptors before the supervisor's next iteration
(some milliseconds) still aborts it. Only processes of the same user can do that. A check takes 50 us.
"""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

#: Kept free, but half of all at most: for connections that come before the door is shut, and for the supervisor itself, which
#: takes 12 for a backplane that starts and 5 while it lives.
RESERVE = 512
#: Backlog of the waiting socket; the kernel blocks further clients in connect(2).
WAITING_MAX = 128
#: Interval between checks for room. A silent connection is closed after 2 s (transport/link.py).
LOOK_NS = 100_000_000
#: Checks between two emptyings of the queue: 2 s, after which the waiting client's ZeroMQ connects again anyway.
CLEAR_EVERY = 20
#: Second name of the listening socket, and first name of its stand-in. Generation 0 is the supervisor's: files that a killed
#: one leaves are removed with the sockets of its backplanes (processes/run_dir.py).
_ASIDE, _NEXT = "door-0.sock", "next-0.sock"


class Door:
    """Switches the path of a listening socket between that socket and one that accepts nobody."""

    def __init__(self, path: Path) -> None:
        self._path, self._aside = path, path.with_name(_ASIDE)
        self._waiting: socket.socket | None = None
        #: Checks since it was shut.
        self._looks = 0

    @property
    def is_shut(self) -> bool:
        """Whether new connections wait unaccepted."""
        return self._waiting is not None

    def look(self) -> None:
        """Shut or open it, by the number of free descriptors. Raises OSError where that fails."""
        most = descriptors_max()
        has_room = most - len(os.listdir("/proc/self/fd")) > min(RESERVE, most // 2)
        if has_room and self._waiting is not None:
            self._aside.rename(self._path)
            self._waiting.close()
            self._waiting = None
        elif not has_room and self._waiting is None:
            self._shut()
        elif self._waiting is not None:
            self._looks += 1
            if self._looks % CLEAR_EVERY == 0:
                _clear(self._waiting)

    def close(self) -> None:
        """Close the waiting socket for good. The path itself is removed by its maker."""
        if self._waiting is not None:
            self._waiting.close()
            self._aside.unlink(missing_ok=True)

    def _shut(self) -> None:
        fresh, waiting = self._path.with_name(_NEXT), socket.socket(socket.AF_UNIX)
        try:
            waiting.bind(str(fresh))
            waiting.listen(WAITING_MAX)
            waiting.setblocking(False)
            os.link(self._path, self._aside)
            fresh.rename(self._path)
        except BaseException:
            waiting.close()
            fresh.unlink(missing_ok=True)
            self._aside.unlink(missing_ok=True)
            raise
        self._waiting, self._looks = waiting, 0


def _clear(waiting: socket.socket) -> None:
    """Disconnect all waiting clients. Raises OSError when no descriptor is left to accept one."""
    for _ in range(WAITING_MAX + 1):  # the kernel's queue holds one more
        try:
            accepted, _address = waiting.accept()
        except BlockingIOError:
            return
        accepted.close()


def descriptors_max() -> int:
    """Soft limit of open descriptors of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
