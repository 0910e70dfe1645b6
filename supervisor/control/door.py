"""Door: while the supervisor has few descriptors left, those who come wait outside, as with systemd.

ZeroMQ accepts on a thread of its own, as many as come, and aborts the process at the limit (TRAPS 1). It cannot be stopped:
`unbind` closes what has come in. So, while there is no room, the path of the socket leads to another one, at which nobody is
accepted. Once there is room it leads back; those who waited are cut off, and ZeroMQ at their end connects again. So are they
each 2 s while the door stays shut: one that has hung up would keep its place in the queue, and in the end nobody could wait.

It is looked for room after connections have come, not before: a flood that takes `RESERVE` descriptors before the supervisor's
next turn, in some milliseconds, still aborts it. Only processes of its own user can do that. A look takes 50 us.
"""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

#: Kept free, but half of all at most: for those who come until the door is shut, and for the supervisor itself, which takes 12
#: for a backplane that starts and 5 while it lives.
RESERVE = 512
#: Those who wait; the kernel holds up others in connect(2).
WAITING_MAX = 128
#: How often it is looked whether there is room again. A connection that says nothing is closed after 2 s (transport/link.py).
LOOK_NS = 100_000_000
#: The queue is emptied at each such look: after 2 s, when ZeroMQ at the far end of whoever waits connects again anyway.
CLEAR_EVERY = 20
#: The second name of the socket that listens, and the first of the one that takes its place. Generation 0 is the supervisor's:
#: what a killed one leaves is removed with the sockets of its backplanes (processes/run_dir.py).
_ASIDE, _NEXT = "door-0.sock", "next-0.sock"


class Door:
    """Before the socket that listens on a path."""

    def __init__(self, path: Path) -> None:
        self._path, self._aside = path, path.with_name(_ASIDE)
        self._waiting: socket.socket | None = None
        #: Looks since it was shut.
        self._looks = 0

    @property
    def is_shut(self) -> bool:
        """Whether those who come wait."""
        return self._waiting is not None

    def look(self) -> None:
        """Shut or open it, by how many descriptors are left. Raises OSError where that cannot be done."""
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
        """For the last time. Whoever has made the path removes it."""
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
    """Hang up on all that wait. Raises OSError where no descriptor is left to accept one with."""
    for _ in range(WAITING_MAX + 1):  # the kernel's queue holds one more
        try:
            accepted, _address = waiting.accept()
        except BlockingIOError:
            return
        accepted.close()


def descriptors_max() -> int:
    """How many this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
