"""Service manager: reports our state to systemd, or to another process that listens at NOTIFY_SOCKET (sd_notify(3)).

READY once the system is up, not when it has merely been started, so that units after ours find it serving; STATUS, one line,
whenever that changes; STOPPING when it goes down. WATCHDOG only from an iteration of the supervisor's loop: a supervisor that
hangs, or is stopped, is silent, and is killed and started again. Without a listener nothing is sent. Cost: a few datagrams a
day, and the watchdog's.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, MutableMapping

#: Kept from our children: a backplane that notifies the service manager, or its child, would be taken for us, or refused.
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: Datagrams that wait for a manager that does not read; of more, the oldest are dropped: they are out of date.
_UNSENT_MAX = 16
_RETRY_NS = 100_000_000
_NS_IN_US = 1_000


class ServiceManager:
    """The process that started us, if it wants notifications. Main thread only."""

    def __init__(self, address: str, watchdog_ns: int, pid: int, say: Callable[..., None]) -> None:
        """`address` empty: nobody listens. `watchdog_ns`: silence after which it kills us; 0: no watchdog."""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._pid, self._say = pid, say
        #: Half of the watchdog's time, as sd_watchdog_enabled(3) has it: one iteration may be late.
        self._every_ns = watchdog_ns // 2
        self._next_ns: int | None = None
        self._told = self._mode = ""
        self._unsent: deque[bytes] = deque(maxlen=_UNSENT_MAX)
        self._has_failed = False
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    @classmethod
    def of(cls, environment: MutableMapping[str, str], pid: int, say: Callable[..., None]) -> ServiceManager:
        """Configured by the environment, from which `VARIABLES` are removed."""
        address, watchdog_us, watchdog_pid = (environment.pop(name, "") for name in VARIABLES)
        if address and address[0] not in "/@":
            say(
                f"warning: NOTIFY_SOCKET {address!r} is not a local socket: the service manager gets no notifications",
                "WARNING",
            )
            address = ""
        is_watched = bool(address) and watchdog_us.isdecimal() and watchdog_pid in ("", str(pid))
        return cls(address, int(watchdog_us) * _NS_IN_US if is_watched else 0, pid, say)

    @property
    def is_heard(self) -> bool:
        """Whether a service manager listens."""
        return self._socket is not None

    def tell(self, mode: str, headline: str) -> None:
        """Send the state ("starting", "up", "stopping" or "down") and a one-line description of it, if either has changed."""
        if self._socket is None or (mode, headline) == (self._mode, self._told):
            return
        lines = []
        if mode == "up" and self._mode != "up":
            lines += ["READY=1", f"MAINPID={self._pid}"]
        if mode == "stopping" and self._mode != "stopping":
            lines.append("STOPPING=1")
        self._mode, self._told = mode, headline
        self._send("\n".join((*lines, f"STATUS={' '.join(headline.split())}")))

    def turn(self, now_ns: int) -> None:
        """Send waiting datagrams and the watchdog's. Called in each iteration of the loop."""
        while self._unsent and self._try(self._unsent[0]):
            self._unsent.popleft()
        if self._every_ns and (self._next_ns is None or now_ns >= self._next_ns):
            self._next_ns = now_ns + self._every_ns
            self._send("WATCHDOG=1")

    def next_wake_ns(self, now_ns: int) -> int | None:
        """When `turn` is due even if nothing else happens; None: never."""
        return now_ns + _RETRY_NS if self._unsent else self._next_ns

    def close(self) -> None:
        """Send waiting datagrams once more, then close the socket."""
        if self._socket is not None:
            while self._unsent and self._try(self._unsent.popleft()):
                continue
            self._socket.close()
            self._socket = None

    def _send(self, text: str) -> None:
        data = text.encode()
        if self._unsent or not self._try(data):
            self._unsent.append(data)

    def _try(self, data: bytes) -> bool:
        """Send one datagram. False: there is no room at present."""
        assert self._socket is not None
        try:
            self._socket.sendto(data, self._address)
        except BlockingIOError:
            return False
        except OSError as error:  # it is restarted, or gone: it needs nothing from us any more
            if not self._has_failed:
                self._has_failed = True
                self._say(f"warning: the service manager cannot be notified: {error.strerror}", "WARNING")
        return True
