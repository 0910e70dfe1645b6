"""IoThread: the one thread of a socket source. It waits for sockets and for commands, never for a message to be handled.

All code that touches a socket of the source runs here. `call` is for any thread; commands given before the start run after it.
A command that raises ends the socket it was for, never the thread. `stop` does not wait for the thread, which may be waiting
for the lead that the caller holds.
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

#: Retry interval of messages for which the dispatcher had no room: a full queue of 1 ms messages moves by ten meanwhile.
AGAIN_S: Final = 0.01

#: A function to run in the thread.
Command = Callable[[], object]

log = logging.getLogger("appbackplane.runtime")


class SocketOwner(Protocol):
    """The owner of a socket, with the callbacks of the thread."""

    @property
    def socket(self) -> socket.socket | None:
        """The socket; None: it has none."""

    def on_ready(self, events: int) -> None:
        """The socket is readable or writable: `events` as in `selectors`."""

    def failed(self, error: Exception) -> None:
        """A command or callback for it has raised: a bug, and its end."""

    def abandon(self) -> None:
        """The thread ends: release all resources."""


class IoThread:
    """An event loop in a thread, started once and stopped once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._commands: deque[tuple[SocketOwner | None, Command]] = deque()
        #: Guards `_wake_fd`: it is closed at the end, and its number may be another file's soon after.
        self._mutex = threading.Lock()
        self._wake_fd = -1
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        # The following are used by the thread only.
        self._selector: selectors.BaseSelector | None = None
        self._owners: set[SocketOwner] = set()
        self._again: dict[SocketOwner, Command] = {}

    def start(self) -> None:
        """Start the thread. Raises OSError if no descriptors are left."""
        self._selector = selectors.DefaultSelector()
        try:
            self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._selector.close()
            raise
        self._selector.register(self._wake_fd, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._wake()  # for commands given before

    def call(self, owner: SocketOwner | None, function: Command) -> None:
        """Run `function` in the thread, for `owner`. From any thread."""
        self._commands.append((owner, function))
        self._wake()

    def stop(self) -> None:
        """Let the thread end and close its sockets; does not wait for it."""
        self._is_stopping = True
        self._wake()

    def wait_ended(self, seconds: float) -> bool:
        """Wait at most `seconds`; whether the thread has ended."""
        if self._thread is not None:
            self._thread.join(seconds)
            return not self._thread.is_alive()
        return True

    # -- in the thread ------------------------------------------------------------------------------------------------

    def watch(self, owner: SocketOwner, events: int) -> None:
        """Poll the socket of `owner` for `events`; 0: for none."""
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

    def forget(self, owner: SocketOwner) -> None:
        """Stop polling for `owner`, which is about to close its socket."""
        assert self._selector is not None and owner.socket is not None
        with suppress(KeyError, ValueError):  # it was not polled
            self._selector.unregister(owner.socket)
        self._owners.discard(owner)
        self._again.pop(owner, None)

    def again(self, owner: SocketOwner, function: Command) -> None:
        """Run `function` in the next event loop iteration, at most `AGAIN_S` later."""
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
            elif key.data in self._owners:  # an earlier event may have ended it
                self._guarded(key.data, partial(key.data.on_ready, events))
        for owner, function in again.items():
            self._guarded(owner, function)
        for _ in range(len(self._commands)):
            self._guarded(*self._commands.popleft())

    def _guarded(self, owner: SocketOwner | None, function: Command) -> None:
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
