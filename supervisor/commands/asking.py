"""Asking: one question to a supervisor, over its socket, without a directory.

Enough for `status`, `routes` and `down`, which must work when nothing else does. Everything that goes to a backplane
uses the client (appbackplane.transport.connect).
"""

from __future__ import annotations

import os
import secrets
import select
import time
from typing import Any

from appbackplane.transport.addressing import supervisor_socket
from appbackplane.transport.batching import Sent
from appbackplane.transport.codec import Encoder, batch, decode
from appbackplane.transport.discovery import Location
from appbackplane.transport.envelope import CALL, REPLY, STATUS, Envelope
from appbackplane.transport.errors import DeadlineExceeded, PeerDown, error_from
from appbackplane.transport.link import Link

from .systems import check_running

#: A supervisor answers within a turn; statistics may take two seconds when a backplane is stuck.
TIMEOUT_S = 5.0


def ask(location: Location, route: str, body: dict[str, Any] | None = None, timeout_s: float = TIMEOUT_S) -> Any:
    """The answer. Raises `Unavailable` when it does not run, and whatever the supervisor says."""
    pid = check_running(location)
    link = Link(f"command-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        return _ask(link, location, pid, route, body or {}, timeout_s)
    finally:
        link.close()


def _ask(link: Link, location: Location, pid: int, route: str, body: dict[str, Any], timeout_s: float) -> Any:
    peer = link.connect(supervisor_socket(location.run_dir))
    frame = batch([Encoder().encode(Envelope(CALL, 1, 0, route, None, round(timeout_s * 1e9), None, body))])
    # A peer we connect to takes frames before the connection stands.
    assert link.send(peer, frame) is Sent.SENT
    death = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(link.fileno(), select.POLLIN)
        poll.register(death, select.POLLIN)
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            while (received := link.receive()) is not None:
                for envelope in decode(received[1]):
                    if envelope.id == 1 and envelope.kind == STATUS:
                        raise error_from(*envelope.body)
                    if envelope.id == 1 and envelope.kind == REPLY:
                        return envelope.body
            if any(fd == death for fd, _ in poll.poll(left_s * 1e3)) and link.receive() is None:
                raise PeerDown(f"the supervisor of {location.system!r} (pid {pid}) ended before it answered")
    finally:
        os.close(death)
    raise DeadlineExceeded(
        f"the supervisor of {location.system!r} (pid {pid}) did not answer {route} within {timeout_s:g} s"
    )
