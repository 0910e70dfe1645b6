"""Accept gate: a bound ipc socket accepts one connection at a time, and none while the process has few descriptors left.

ZeroMQ accepts on its I/O thread and aborts the process at the descriptor limit (TRAPS 1). It cannot be paused: `unbind` closes
accepted connections. But it waits for connections in an epoll set, and the kernel shows what is registered there
in /proc. The gate takes the listener's registration over: the kernel reports one connection to ZeroMQ when the gate
says so (EPOLLONESHOT), and the gate counts descriptors before. So no burst is too fast, whatever the owner does meanwhile.
Further clients wait in the kernel's queue, as with systemd. Connections that say nothing end after `HANDSHAKE_IVL` (link.py).

Costs a descriptor, and the owner 10 us a connection; a frame costs nothing. Other ways: docs/decisions/accept_gate.md.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import select
import socket as sockets
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .descriptors import descriptors_max, open_count

#: Descriptors that connections leave to the process: to files of user code, and to the supervisor, which takes 12 for a
#: backplane that starts. Of a small limit a quarter: half of all may be strangers' (security/headroom.py), and the rest is for
#: clients of this host.
RESERVE: Final = 512
RESERVE_SHARE: Final = 4
#: Interval between checks for room while connections wait.
LOOK_NS: Final = 100_000_000
#: A shortage may begin and end ten times a second; a line a minute is enough for an operator.
REPORT_EVERY_NS: Final = 60_000_000_000
#: Milliseconds for ZeroMQ's I/O thread to register a new listener. It takes 0.1 of one.
REGISTERED_MS: Final = 1_000
#: Shows what each epoll descriptor waits for (proc(5)).
FDINFO: Final = "/proc/self/fdinfo"
#: A registration in the fdinfo of an epoll descriptor: the registered descriptor, and the pointer by which ZeroMQ knows it.
_REGISTERED: Final = re.compile(r"^tfd: *(\d+) events: *[0-9a-f]+ data: *([0-9a-f]+)", re.MULTILINE)
#: struct epoll_event. It is packed on x86-64 alone.
_EPOLL_EVENT: Final = struct.Struct("=IQ" if platform.machine() == "x86_64" else "@IQ")
_EPOLL_CTL_MOD: Final = 3
_libc: Final = ctypes.CDLL(None, use_errno=True)


class AcceptGate:
    """The gate of one listener. Not thread-safe, but its owner need not be the socket's: it touches only ZeroMQ's epoll set."""

    def __init__(self, path: Path) -> None:
        """`path`: where a ZeroMQ socket of this process has just been bound.

        Where the kernel does not show its registration, all connections are accepted, and the first `look` says so.
        """
        self._registration = _find(path)
        self._queue = select.epoll()
        #: When to call `look` although `fileno` is not readable; None: not while the gate is open.
        self.due_ns: int | None = None
        self._reported_ns: int | None = None
        self._is_permitted = True
        if self._registration is None:
            self.due_ns = 0
        else:
            self._queue.register(self._registration.listening_fd, select.EPOLLIN)
            self._permit(is_permitted=False)

    @property
    def is_shut(self) -> bool:
        """Whether connections wait until descriptors have been closed."""
        return self.due_ns is not None

    def fileno(self) -> int:
        """Descriptor that is readable while connections wait and the gate is open. Poll it, and call `look`."""
        return self._queue.fileno()

    def look(self, now_ns: int) -> str | None:
        """If a connection waits, have it accepted, or shut the gate. To be called when `fileno` is readable, and at `due_ns`.

        Returns a line for the log when connections have to wait, at most one a minute.
        """
        if self.due_ns is not None:
            if now_ns < self.due_ns:
                return None
        elif not self._queue.poll(0):
            # Used up, or given while ZeroMQ was accepting the last connection: the next one is to be counted before.
            self._permit(is_permitted=False)
            return None
        if self._registration is None:
            self.due_ns = None
            return f"{FDINFO} does not show ZeroMQ's listener: nothing limits the connections that it accepts"
        most = descriptors_max()
        left = most - open_count(most)
        is_shut, was_shut = left <= min(RESERVE, most // RESERVE_SHARE), self.is_shut
        self.due_ns = now_ns + LOOK_NS if is_shut else None
        if is_shut is not was_shut:
            self._queue.modify(self._registration.listening_fd, 0 if is_shut else select.EPOLLIN)
        self._permit(is_permitted=not is_shut)
        if not is_shut:
            return None
        if self._reported_ns is not None and now_ns - self._reported_ns < REPORT_EVERY_NS:
            return None
        self._reported_ns = now_ns
        shortage = f"{left} of {most} file descriptors are left (ulimit -Hn, LimitNOFILE=)"
        return f"{shortage}: new connections wait until others are closed"

    def close(self) -> None:
        """To be called before the socket is closed; nothing more is accepted."""
        self._queue.close()

    def _permit(self, *, is_permitted: bool) -> None:
        """Let ZeroMQ accept one connection, or none."""
        if self._registration is not None and (is_permitted or self._is_permitted):
            self._registration.report(select.EPOLLIN | select.EPOLLONESHOT if is_permitted else 0)
            self._is_permitted = is_permitted


@dataclass(frozen=True, slots=True)
class ListenerRegistration:
    """Where ZeroMQ's I/O thread waits for connections to a listener."""

    epoll_fd: int
    listening_fd: int
    #: By this ZeroMQ knows the listener when the kernel reports it.
    pointer: int

    def report(self, events: int) -> None:
        """Have the kernel report these events of the listener."""
        event = _EPOLL_EVENT.pack(events, self.pointer)
        if _libc.epoll_ctl(self.epoll_fd, _EPOLL_CTL_MOD, self.listening_fd, event):
            raise OSError(ctypes.get_errno(), "epoll_ctl")


def _find(path: Path) -> ListenerRegistration | None:
    """The registration of the socket that listens on `path`; None: the kernel does not show it."""
    pause = select.poll()
    for _ in range(REGISTERED_MS):
        for epoll_fd, registered in _epoll_sets():
            for fd, pointer in _REGISTERED.findall(registered):
                if _listens(int(fd), path):
                    return ListenerRegistration(epoll_fd, int(fd), int(pointer, 16))
        pause.poll(1)
    return None


def registration_of(listening_fd: int) -> ListenerRegistration | None:
    """The registration of a listener by its descriptor, which is ZeroMQ's; None: the kernel does not show it."""
    for epoll_fd, registered in _epoll_sets():
        for fd, pointer in _REGISTERED.findall(registered):
            if int(fd) == listening_fd:
                return ListenerRegistration(epoll_fd, listening_fd, int(pointer, 16))
    return None


def _epoll_sets() -> Iterator[tuple[int, str]]:
    """The epoll descriptors of this process, and what is registered with each."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # another thread has closed it
            if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventpoll]":
                yield int(name), Path(FDINFO, name).read_text()


def _listens(fd: int, path: Path) -> bool:
    """Whether this descriptor is a socket that listens on `path`."""
    try:
        found = sockets.socket(fileno=fd)
    except OSError:  # no socket
        return False
    try:
        is_listening = found.getsockopt(sockets.SOL_SOCKET, sockets.SO_ACCEPTCONN)
        return bool(is_listening) and found.getsockname() == os.fspath(path)
    finally:
        found.detach()  # ZeroMQ's
