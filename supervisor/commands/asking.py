"""Asking: one request to a supervisor, over its socket, without a directory.

Enough for `status`, `routes` and `down`, which must work when nothing else does. Calls to a backplane use the client
(appbackplane.transport.connect).
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import closing
from typing import Any

import click

from appbackplane.transport.addressing import supervisor_socket
from appbackplane.transport.batching import SendResult
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import Encoder, batch, decode
from appbackplane.transport.discovery import Location
from appbackplane.transport.envelope import REPLY, STATUS, call
from appbackplane.transport.errors import Busy, DeadlineExceeded, PeerDown, error_from
from appbackplane.transport.local_links import kind_at, local_link

from .systems import check_running

#: A supervisor answers within an iteration; statistics take up to 0.75 s when a backplane is stuck.
TIMEOUT_S = 5.0
#: A longer wait for the end of an order is reported.
SILENT_S = 1.0
#: Added to the time-out of an order, because the supervisor's own message is better than ours.
ANSWER_S = 2.0
#: Seconds that the last words of a supervisor which has ended may take, on a machine whose cores are all busy, from its socket
#: through ZeroMQ's thread.
LAST_WORDS_S = 0.5


def ask(location: Location, route: str, body: dict[str, Any] | None = None, timeout_s: float = TIMEOUT_S) -> Any:
    """Result of one request. Raises `Unavailable` when the system does not run, and errors of the supervisor."""
    with closing(Asker(location)) as asker:
        return asker.ask(route, body, timeout_s)


def order(location: Location, route: str, body: dict[str, Any], timeout_s: float, waiting: str) -> Any:
    """Result of an order that takes `timeout_s` at most. `waiting`: a line about it, printed if it takes long."""
    progress = threading.Timer(SILENT_S, click.echo, [f"waiting for {waiting}"], {"err": True})
    progress.daemon = True
    progress.start()
    try:
        return ask(location, route, {**body, "timeout": timeout_s}, timeout_s + ANSWER_S)
    finally:
        progress.cancel()


class Asker:
    """A connection for several requests, one after the other. `ask` waits; callers with an own poll use `send` and `take`."""

    def __init__(self, location: Location) -> None:
        """Raises `SystemNotRunning` if no supervisor listens there."""
        self._location = location
        self.pid = check_running(location)
        try:
            #: Readable once the supervisor is dead.
            self.pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            raise location.not_running() from None
        path = supervisor_socket(location.run_dir)
        self._link = local_link(kind_at(path), f"command-{os.getpid()}")
        self._peer = self._link.connect(path)
        self._encoder = Encoder()
        self._asked = 0

    def fileno(self) -> int:
        """Descriptor to poll after `take` had nothing."""
        return self._link.fileno()

    def send(self, route: str, body: dict[str, Any], timeout_s: float) -> None:
        """Send a request; replies to earlier ones are ignored from now on. Raises `Busy`: the supervisor does not read."""
        self._asked += 1
        asked = call(self._asked, CallSpec(route, body, priority=0), round(timeout_s * 1e9))
        result = self._link.send(self._peer, batch([self._encoder.encode(asked)]))
        if result is SendResult.UNREACHABLE:
            raise self._location.not_running()
        if result is not SendResult.SENT:
            raise Busy(f"the supervisor of {self._location.system!r} (pid {self.pid}) does not read", retry_after=1.0)

    def take(self) -> Any:
        """The result; None while there is none. Raises errors of the supervisor."""
        while (received := self._link.receive()) is not None:
            for envelope in decode(received[1]):
                if envelope.id == self._asked and envelope.kind == STATUS:
                    raise error_from(*envelope.body)
                if envelope.id == self._asked and envelope.kind == REPLY:
                    return envelope.body
        return None

    def take_last(self) -> Any:
        """As `take`, of a supervisor that has ended: its last words may still be on their way through this process."""
        poll = select.poll()
        poll.register(self._link.fileno(), select.POLLIN)
        end_s = time.monotonic() + LAST_WORDS_S
        while (answer := self.take()) is None and (left_s := end_s - time.monotonic()) > 0:
            poll.poll(left_s * 1e3)
        return answer

    def ask(self, route: str, body: dict[str, Any] | None = None, timeout_s: float = TIMEOUT_S) -> Any:
        """One request and its result. Raises errors of the supervisor, `PeerDown`, `DeadlineExceeded`."""
        self.send(route, body or {}, timeout_s)
        poll = select.poll()
        poll.register(self._link.fileno(), select.POLLIN)
        poll.register(self.pidfd, select.POLLIN)
        end_s = time.monotonic() + timeout_s
        who = f"the supervisor of {self._location.system!r} (pid {self.pid})"
        while (left_s := end_s - time.monotonic()) > 0:
            answer = self.take()
            if answer is not None:
                return answer
            if any(fd == self.pidfd for fd, _ in poll.poll(left_s * 1e3)):
                answer = self.take_last()
                if answer is None:
                    raise PeerDown(f"{who} ended before it answered")
                return answer
        raise DeadlineExceeded(f"{who} did not answer {route} within {timeout_s:g} s")

    def close(self) -> None:
        """Close the connection and the pidfd."""
        os.close(self.pidfd)
        self._link.close()
