"""Poller: whose descriptor is ready, is told so; one poll(2), any number of descriptors, one thread."""

from __future__ import annotations

import select
from collections.abc import Callable

#: poll(2) takes an int: a limit of a month would not fit. Waking once an hour for nothing costs nothing.
WAIT_MAX_MS = 3_600_000
_NS_IN_MS = 1_000_000


class Poller:
    """Descriptors that are watched, and what is done when there is something to read."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watched: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, on_ready: Callable[[], None]) -> None:
        self._watched[fd] = on_ready
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Before it is closed; without effect if it is not watched."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def wait(
        self, until_ns: int | None, now_ns: int, goes_on: Callable[[], bool], *, room_in: int | None = None
    ) -> None:
        """Wait until something is ready, or until a moment, and tell who is concerned, while it `goes_on`.

        `room_in`: a descriptor that had no room for what is to be written; waited for, told nobody.
        """
        if room_in is not None:
            self._poll.register(room_in, select.POLLOUT)
        ready = [(fd, self._watched.get(fd)) for fd, _ in self._poll.poll(_timeout_ms(until_ns, now_ns))]
        for fd, on_ready in ready:
            # A death earlier in this very list closed its descriptors, and a spawn may have been given their numbers.
            if on_ready is not None and self._watched.get(fd) is on_ready and goes_on():
                on_ready()
        if room_in is not None:
            self._poll.unregister(room_in)


def _timeout_ms(until_ns: int | None, now_ns: int) -> int | None:
    return None if until_ns is None else min(WAIT_MAX_MS, max(0, -((now_ns - until_ns) // _NS_IN_MS)))
