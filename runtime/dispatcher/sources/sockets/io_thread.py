"""IoThread: the one thread of a socket source. It waits for sockets and for what others want of it, and never for a message.

Whatever touches a socket of the source runs here. `call` is for any thread; before the thread has started, what is called
waits for it. What runs here and raises ends the socket whose it was, never the thread. Whoever stops it does not wait for it:
it may be waiting for the lead, which they hold.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

#: What the dispatcher had no room for is offered again after this: as often as a full queue of 1 ms messages has moved by ten.
AGAIN_S: Final = 0.01

#: Something that runs in the thread.
Command = Callable[[], object]

log = logging.getLogger("appbackplane.runtime")


class Owner(Protocol):
    """Whose socket it is."""

    @property
    def socket(self) -> socket.socket | None:
        """None: it has none."""

    def on_ready(self, events: int) -> None:
        """The socket is readable or writable."""

    def failed(self, error: Exception) -> None:
        """What was run for it has raised: that is a bug, and its end."""

    def abandon(self) -> None:
        """The thread ends: let go of everything."""


class IoThread:
    """Started once, stopped once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._commands: deque[tuple[Owner | None, Command]] = deque()
        #: Over `_wake_fd`: it is closed at the end, and its number may be another file's soon after.
        self._mutex = threading.Lock()
        self._wake_fd = -1
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        # From here on the thread's own.
        self._selector: selectors.BaseSelector | None = None
        self._owners: set[Owner] = set()
        self._again: dict[Owner, Command] = {}

    def start(self) -> None:
        """Raises OSError where there are no descriptors left."""
        self._selector = selectors.DefaultSelector()
        try:
            self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._selector.close()
            raise
        self._selector.register(self._wake_fd, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._wake()  # for what was called before

    def call(self, owner: Owner | None, function: Command) -> None:
        """Have it run in the thread; from any thread."""
        self._commands.append((owner, function))
        self._wake()

    def stop(self) -> None:
        """It ends, and closes all that it has."""
        self._is_stopping = True
        self._wake()

    def wait_ended(self, seconds: float) -> bool:
        """Whether it has, within that time."""
        if self._thread is not None:
            self._thread.join(seconds)
            return not self._thread.is_alive()
        return True

    # -- in the thread ------------------------------------------------------------------------------------------------

    def watch(self, owner: Owner, events: int) -> None:
        """Have it told when its socket is ready for these; 0: for nothing."""
        assert self._selector is not None and owner.socket is not None
        self._owners.add(owner)
        known = self._selector.get_map().get(owner.socket)
        if known is None:
            if events:
                self._selector.register(owner.socket, events, owner)
        elif not events:
            self._selector.unregister(owner.socket)
        elif known.events != events:
            self._selector.modify(owner.socket, events, owner)

    def forget(self, owner: Owner) -> None:
        """It closes its socket."""
        assert self._selector is not None and owner.socket is not None
        with suppress(KeyError, ValueError):  # it was not watched just now
            self._selector.unregister(owner.socket)
        self._owners.discard(owner)
        self._again.pop(owner, None)

    def again(self, owner: Owner, function: Command) -> None:
        """Have it run once more, a little later."""
        self._again[owner] = function

    def _run(self) -> None:
        selector = self._selector
        assert selector is not None
        try:
            while not self._is_stopping:
                self._turn(selector)
        finally:
            for owner in list(self._owners):
                owner.abandon()
            with self._mutex:
                fd, self._wake_fd = self._wake_fd, -1
            selector.close()
            os.close(fd)

    def _turn(self, selector: selectors.BaseSelector) -> None:
        ready = selector.select(AGAIN_S if self._again else None)
        again, self._again = self._again, {}
        for key, events in ready:
            if key.data is None:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
            elif key.data in self._owners:  # one before it may have ended it
                self._guarded(key.data, partial(key.data.on_ready, events))
        for owner, function in again.items():
            self._guarded(owner, function)
        for _ in range(len(self._commands)):
            self._guarded(*self._commands.popleft())

    def _guarded(self, owner: Owner | None, function: Command) -> None:
        try:
            function()
        except Exception as error:
            log.exception("%s: %s", self._name, owner or "a command")
            if owner is not None:
                owner.failed(error)

    def _wake(self) -> None:
        with self._mutex:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)
