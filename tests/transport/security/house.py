"""House: a node's door for the tests: it echoes what it is sent, in a loop of its own, over real TCP on loopback."""

from __future__ import annotations

import os
import queue
import select
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import zmq
from zmq.utils.monitor import recv_monitor_message

from appbackplane.transport.security import links
from appbackplane.transport.security.doorstep import Doorstep
from appbackplane.transport.security.gatekeeper import Gatekeeper
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.security.roll import Roll
from tests.waiting import LIMIT_S, Limit

#: Between two sweeps.
SWEEP_MS = 50
#: A dial that has brought no connection by then is made again: no handshake takes longer.
REDIAL_MS = 2 * links.LIMITS.handshake_ms
#: Where a handshake that fails is not made again, by a test that asks how it ends: a busy machine may take a second for one.
PATIENT = links.LinkLimits(handshake_ms=round(1e3 * LIMIT_S), connect_ms=round(1e3 * LIMIT_S))
#: In which nothing must come, or no connection: many round trips of those who are served.
NOTHING_MS = 300


class House:
    """The one who listens: what an owner of the sockets does, and no more."""

    def __init__(self, folder: Path, limits: links.LinkLimits = links.LIMITS, *, with_gatekeeper: bool = True) -> None:
        self.keyring = Keyring(folder)
        self.key = self.keyring.make_own()
        self.log: queue.Queue[str] = queue.Queue()
        #: Who said what, of those that were let in.
        self.heard: list[tuple[str, bytes]] = []
        self._context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, 10_000)
        self._socket = self._context.socket(zmq.ROUTER)
        links.server(self._socket, self.keyring, limits)
        self.gatekeeper = Gatekeeper(self._context, self.keyring, self.log.put) if with_gatekeeper else None
        self._doorstep = Doorstep(self._socket, self.gatekeeper) if self.gatekeeper else None
        self.port = int(links.bind(self._socket, "tcp://127.0.0.1:0").rpartition(":")[2])
        if self._doorstep is not None:
            self._doorstep.listens()
        self.roll = Roll(self.gatekeeper, self._socket) if self.gatekeeper else None
        self._stop_fd, self._stopping_fd = os.pipe()
        self._thread = threading.Thread(target=self._run)
        self._is_to_stop_gatekeeper, self._has_stopped_gatekeeper = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._stopping_fd)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        os.close(self._stop_fd)
        if self._doorstep is not None and self.gatekeeper is not None:
            self._doorstep.close()
            self.gatekeeper.close()
        self._socket.close()
        self._context.term()

    def trust(self, name: str, key: PublicKey) -> None:
        """As the verb does: another keyring on the same folder."""
        self.trust_in(Keyring(self.keyring.folder.path), name, key)

    @staticmethod
    def trust_in(keyring: Keyring, name: str, key: PublicKey) -> None:
        """Any ring."""
        keyring.change(lambda ring: ring.trusting(Holder(name, key)))

    def revoke(self, name: str) -> None:
        """As the verb does."""
        Keyring(self.keyring.folder.path).change(lambda ring: ring.revoking(name))

    def stop_gatekeeper(self) -> None:
        """In the thread that it belongs to."""
        self._is_to_stop_gatekeeper.set()
        assert self._has_stopped_gatekeeper.wait(LIMIT_S)

    def says(self, words: str) -> str:
        """The next line of the log that has these words."""
        limit, seen = Limit(), [""]
        while words not in seen[-1]:
            limit.check(f"{words!r} was not logged: {seen}")
            with suppress(queue.Empty):
                seen.append(self.log.get(timeout=limit.left_s))
        return seen[-1]

    def _run(self) -> None:
        poll = select.poll()
        gatekeeper, doorstep = self.gatekeeper, self._doorstep
        doers = [each for each in (gatekeeper, doorstep) if each is not None]
        for fd in (self._stop_fd, self._socket.getsockopt(zmq.FD), *(each.fileno() for each in doers)):
            poll.register(fd, select.POLLIN)
        while True:
            if gatekeeper is not None and self._is_to_stop_gatekeeper.is_set():
                poll.unregister(gatekeeper.fileno())
                gatekeeper.close()
                gatekeeper = None
                self._has_stopped_gatekeeper.set()
            is_more = gatekeeper.answer(time.monotonic_ns()) if gatekeeper is not None else False
            is_more |= doorstep.look(time.monotonic_ns()) if doorstep is not None else False
            if self.roll is not None:
                now_ns = time.monotonic_ns()
                self.roll.sweep(now_ns, doorstep.due(now_ns) if doorstep is not None else ())
            is_more |= self._echo()
            if any(fd == self._stop_fd for fd, _ in poll.poll(0 if is_more else SWEEP_MS)):
                return

    def _echo(self) -> bool:
        for _ in range(100):
            try:
                peer, *frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return False
            holder = self.roll.admit(frames[-1]) if self.roll is not None else None
            if holder is not None:
                self.heard.append((holder.name, bytes(frames[-1])))
                self._socket.send_multipart([bytes(peer), bytes(frames[-1])], zmq.NOBLOCK)
        return True


class Guest:
    """One who connects; by a pair of its own, unless told otherwise."""

    def __init__(self, folder: Path, limits: links.LinkLimits = links.LIMITS) -> None:
        self.keyring = Keyring(folder)
        self.key = self.keyring.make_own()
        self._limits = limits
        self._context: zmq.Context[Any] = zmq.Context()
        self._context.linger = 0
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._context.destroy(linger=0)

    def connect(self, house: House, key: PublicKey | None = None, port: int = 0) -> None:
        """By the options of a link; `port`: of somebody between."""
        self._dialled = house, key, port
        links.client(self.socket, self.keyring, key or house.key, self._limits)
        links.connect(self.socket, f"tcp://127.0.0.1:{port or house.port}")

    def again(self) -> zmq.Socket[bytes]:
        """A socket of the same keys, not connected."""
        self.socket.close()
        self.socket = self._context.socket(zmq.DEALER)
        return self.socket

    def watch(self, events: int) -> zmq.Socket[bytes]:
        """What becomes of its connection."""
        return self.socket.get_monitor_socket(events)

    def ask(self, body: bytes) -> bytes | None:
        """The echo, or None after long enough."""
        if not self.socket.poll(NOTHING_MS, zmq.POLLOUT):  # it gets no connection at all
            return None
        with suppress(zmq.Again):
            self.socket.send(body, zmq.NOBLOCK)
        return self.socket.recv() if self.socket.poll(NOTHING_MS) else None

    def waits(self, body: bytes) -> bytes:
        """The echo, for which there is time.

        Dials again, as each owner of a link does: ZeroMQ does not, and a handshake fails if the machine is busy for a second.
        """
        limit = Limit()
        while not self.socket.poll(REDIAL_MS, zmq.POLLOUT):
            limit.check("it gets no connection")
            self.again()
            self.connect(*self._dialled)
        self.socket.send(body, zmq.NOBLOCK)
        assert self.socket.poll(int(LIMIT_S * 1e3)), "nothing came"
        return self.socket.recv()


def wait_for(monitor: zmq.Socket[bytes], event: int) -> None:
    """Until it has happened."""
    limit = Limit()
    while not monitor.poll(int(limit.left_s * 1e3)) or recv_monitor_message(monitor)["event"] != event:
        limit.check(f"{zmq.Event(event).name} did not happen")


def raw(house: House) -> socket.socket:
    """A connection without ZeroMQ."""
    connection = socket.create_connection(("127.0.0.1", house.port), timeout=LIMIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Tap:
    """Between a guest and the house: passes on what they say until it is to stall, and keeps what the guest said."""

    def __init__(self, house: House) -> None:
        self.said = b""
        self.is_stalled = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._house = house
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        near = self._listener.accept()[0]
        far = raw(self._house)
        other = threading.Thread(target=self._pass, args=(far, near, False), daemon=True)
        other.start()
        self._pass(near, far, True)
        other.join(LIMIT_S)
        near.close()
        far.close()
        self._listener.close()

    def _pass(self, source: socket.socket, target: socket.socket, is_kept: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self.said += data if is_kept else b""
                if not self.is_stalled.is_set():
                    target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(self) -> bytes:
        """What was said, once it is over."""
        self._threads[0].join(LIMIT_S)
        return self.said
