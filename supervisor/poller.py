"""Poller: calls a descriptor's callback when it is readable. One poll(2), any number of descriptors, one thread."""

from __future__ import annotations

import select
from collections.abc import Callable

#: poll(2) takes an int, which a month in milliseconds does not fit. One needless wake-up an hour costs nothing.
WAIT_MAX_MS = 3_600_000
_NS_IN_MS = 1_000_000


class Poller:
    """Watched descriptors, each with the callback to run when it is readable."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watched: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, on_ready: Callable[[], None]) -> None:
        self._watched[fd] = on_ready
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Call before `fd` is closed; no effect if it is not watched."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def wait(
        self, until_ns: int | None, now_ns: int, goes_on: Callable[[], bool], *, room_in: int | None = None
    ) -> None:
        """Wait for a descriptor or until `until_ns`, then run the callbacks, as long as `goes_on()` is true.

        `room_in`: also wake up when this descriptor is writable; it has no callback.
        """
        if room_in is not None:
            self._poll.register(room_in, select.POLLOUT)
        ready = [(fd, self._watched.get(fd)) for fd, _ in self._poll.poll(_timeout_ms(until_ns, now_ns))]
        for fd, on_ready in ready:
            # An earlier callback of this list may have closed the descriptor, and a spawn may have reused its number.
            if on_ready is not None and self._watched.get(fd) is on_ready and goes_on():
                on_ready()
        if room_in is not None:
            self._poll.unregister(room_in)


def _timeout_ms(until_ns: int | None, now_ns: int) -> int | None:
    return None if until_ns is None else min(WAIT_MAX_MS, max(0, -((now_ns - until_ns) // _NS_IN_MS)))
