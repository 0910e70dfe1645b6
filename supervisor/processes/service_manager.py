"""Service manager: systemd, or whoever started us and listens at NOTIFY_SOCKET, is told how it goes (sd_notify(3)).

READY once the system is up, not when it has merely been started, so that units after ours find it serving; STATUS, one line,
whenever that changes; STOPPING when it goes down. WATCHDOG only from a turn of the supervisor's loop: one that hangs, or is
stopped, is silent, and is killed and started again. Nothing is said to anybody where nobody listens. What is said is a few
datagrams a day, and the watchdog's.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, MutableMapping

#: Ours alone: a backplane that speaks to the service manager, or a child of one, would be taken for us, or refused.
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: What a manager that does not read for a while is still to hear; of more, the oldest are dropped: they are out of date.
_UNSENT_MAX = 16
_RETRY_NS = 100_000_000
_NS_IN_US = 1_000


class ServiceManager:
    """What started us, if it wants to hear of us. Main thread only."""

    def __init__(self, address: str, watchdog_ns: int, pid: int, say: Callable[..., None]) -> None:
        """`address` empty: nobody listens. `watchdog_ns`: it kills us after so much silence; 0: it does not."""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._pid, self._say = pid, say
        #: Half of the time, as sd_watchdog_enabled(3) has it: one turn may be late.
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
        """As the environment says, from which it is removed."""
        address, watchdog_us, watchdog_pid = (environment.pop(name, "") for name in VARIABLES)
        if address and address[0] not in "/@":
            say(
                f"warning: NOTIFY_SOCKET {address!r} is no socket of this machine: nobody is told how it goes",
                "WARNING",
            )
            address = ""
        is_watched = bool(address) and watchdog_us.isdecimal() and watchdog_pid in ("", str(pid))
        return cls(address, int(watchdog_us) * _NS_IN_US if is_watched else 0, pid, say)

    @property
    def is_heard(self) -> bool:
        """Whether there is anybody to tell."""
        return self._socket is not None

    def tell(self, mode: str, headline: str) -> None:
        """How it goes: "starting", "up", "stopping" or "down", and the same in one line. Says what is new of it."""
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
        """The loop turns."""
        while self._unsent and self._try(self._unsent[0]):
            self._unsent.popleft()
        if self._every_ns and (self._next_ns is None or now_ns >= self._next_ns):
            self._next_ns = now_ns + self._every_ns
            self._send("WATCHDOG=1")

    def next_wake_ns(self, now_ns: int) -> int | None:
        """When a turn is due, whatever else happens."""
        return now_ns + _RETRY_NS if self._unsent else self._next_ns

    def close(self) -> None:
        """Nothing more is said."""
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
        """False: there is no room, now."""
        assert self._socket is not None
        try:
            self._socket.sendto(data, self._address)
        except BlockingIOError:
            return False
        except OSError as error:  # it is restarted, or has gone: it will ask for nothing that we could still tell
            if not self._has_failed:
                self._has_failed = True
                self._say(f"warning: the service manager does not hear: {error.strerror}", "WARNING")
        return True
