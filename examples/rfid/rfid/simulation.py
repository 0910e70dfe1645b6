"""Simulation: a reader that reports a simulated world over TCP, in LLRP, to one client at a time.

    python -m rfid.simulation [--port 5084] [--seed 1] [--tags 10] [--antennas 2] [--speed 1] [--cut-every 0]

Reports wait while no client is connected; those behind the last acknowledged keepalive are sent again. Ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

from .llrp import KEEPALIVE, KEEPALIVE_ACK, connection_frame, frame, report_frame, round_frame
from .world import REPORT_US, START_US, TagWorld

#: Reports between two keepalives: one second of the world. A client that has acknowledged one has handled all before it.
KEEPALIVE_STEPS: Final = 10
#: Within which a client acknowledges, in seconds; and between two keepalives when all is reported.
ACKNOWLEDGED_S, IDLE_S = 60.0, 1.0


class SimulatedReader:
    """Listens from the beginning; `run` serves clients until `close`."""

    def __init__(
        self,
        world: TagWorld,
        port: int = 0,
        *,
        speed: float = 0.0,
        cut_every: int = 0,
        say: Callable[[str], object] = str,
    ) -> None:
        """`speed`: of its time; 0: as fast as the client acknowledges. `cut_every`: it ends the connection after so many
        keepalives, every other time with bytes that are no frame.
        """
        self._world, self._speed, self._cut_every, self._say = world, speed, cut_every, say
        self._listening = _listen(port)
        self._ids = count(1)
        #: The step that is reported next.
        self._next = 0
        self._cuts = 0
        self._is_over = threading.Event()
        #: Everything has been reported and acknowledged.
        self.is_reported = threading.Event()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def cut_count(self) -> int:
        """How many connections it has ended."""
        return self._cuts

    def run(self) -> None:
        """Serve one client after the other."""
        while not self._is_over.is_set():
            with suppress(OSError):  # its client is gone, or `close` has ended the accept
                connection, _ = self._listening.accept()
                with connection:
                    connection.settimeout(ACKNOWLEDGED_S)
                    self._serve(connection)

    def close(self) -> None:
        """End `run`."""
        self._is_over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # to close alone would not end an accept under way
        self._listening.close()

    def _serve(self, connection: socket.socket) -> None:
        steps = self._world.steps
        now_us = steps[self._next - 1].time_us if self._next else START_US
        connection.sendall(connection_frame(next(self._ids), now_us))
        acknowledged = 0
        while not self._is_over.is_set():
            for step in steps[self._next : self._next + KEEPALIVE_STEPS]:
                if self._speed:
                    self._is_over.wait(REPORT_US / 1_000_000 / self._speed)
                if step.reads:
                    connection.sendall(report_frame(next(self._ids), step.reads))
                if step.is_round:
                    connection.sendall(round_frame(next(self._ids), step.time_us))
            self._keep_alive(connection)
            acknowledged += 1
            self._next = min(self._next + KEEPALIVE_STEPS, len(steps))
            if self._next == len(steps):
                if not self.is_reported.is_set():
                    self._say("everything is reported")
                self.is_reported.set()
                self._is_over.wait(IDLE_S)
            elif acknowledged == self._cut_every:
                self._cuts += 1
                if self._cuts % 2:
                    connection.sendall(b"this is no frame of LLRP")
                return

    def _keep_alive(self, connection: socket.socket) -> None:
        """Raises OSError if the client does not acknowledge."""
        asked = next(self._ids)
        connection.sendall(frame(KEEPALIVE, asked))
        expected, answer = frame(KEEPALIVE_ACK, asked), b""
        while len(answer) < len(expected):
            received = connection.recv(len(expected) - len(answer))
            if not received:
                raise ConnectionError("the client is gone")
            answer += received
        if answer != expected:
            raise ConnectionError(f"expected {expected.hex()}, got {answer.hex()}")


def _listen(port: int) -> socket.socket:
    """Raises SystemExit if the port is in use."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise SystemExit(f"--port {port}: {error.strerror}: give the reader another one") from None


def main() -> None:
    """Until it is told to end."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--port", type=int, default=5084, help="(default: %(default)s)")
    asked.add_argument("--seed", type=int, default=1, help="of the world (default: %(default)s)")
    asked.add_argument("--tags", type=int, default=10, help="(default: %(default)s)")
    asked.add_argument("--antennas", type=int, default=2, help="(default: %(default)s)")
    asked.add_argument(
        "--speed", type=float, default=1.0, help="of its time; 0: as fast as it can (default: %(default)g)"
    )
    asked.add_argument("--cut-every", type=int, default=0, help="end the connection after so many seconds of its time")
    given = asked.parse_args()
    world = TagWorld(given.seed, given.tags, given.antennas)
    reader = SimulatedReader(world, given.port, speed=given.speed, cut_every=given.cut_every, say=_say)
    _say(f"{len(world.passes)} passes of {given.tags} tags, {world.stray_count} stray reads; port {reader.port}")
    with suppress(KeyboardInterrupt):
        reader.run()


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
