"""Forwarder: the process behind a FaultProxy (proxy.py): waits for what happens, and does what it is told.

A process of its own, so that neither the interpreter lock of a test nor its work is in the way of what it measures. One
thread and one loop: events, then what has come due. Commands are lines of JSON on standard input, each answered by one
line when it has taken effect; at the end of standard input it goes, and so with whoever started it, however that ends.
The epoll is waited for by select(), whose time is in microseconds: epoll's own is in milliseconds (before Linux 5.11).
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import select
import signal
import sys
import time
from typing import Any

from tests.network.carrier import Carrier
from tests.network.lane import SECOND_NS

#: As a network, which does not wait for the processors of its hosts. Only root may; others are measured with what they get.
NICE = -15
#: What the carrier is told, under the names of its methods; `count` and `wait` beside them only ask.
COMMANDS = ("set", "stall", "cut", "reset", "heal", "forget")


class Forwarder:
    """The loop, and the commands."""

    def __init__(self, host: str, upstream: tuple[str, int], seed: int) -> None:
        self._epoll = select.epoll()
        self._carrier = Carrier(host, upstream, seed, self._epoll)
        self._awaited: dict[str, int] | None = None
        self._commands = b""
        self.address = self._carrier.listening.address
        os.set_blocking(sys.stdin.fileno(), False)
        self._epoll.register(sys.stdin.fileno(), select.EPOLLIN)

    # The loop

    def run(self) -> None:
        """Until standard input ends."""
        epoll, carrier, stdin = self._epoll, self._carrier, sys.stdin.fileno()
        now_ns = time.monotonic_ns()
        while True:
            due_ns = carrier.next_ns(now_ns)
            if due_ns is not None:
                wait_ns = due_ns - time.monotonic_ns()
                if wait_ns > 0:
                    select.select([epoll], [], [], wait_ns / SECOND_NS)
                events = epoll.poll(0)
            else:
                events = epoll.poll()
            now_ns = time.monotonic_ns()
            for fd, event in events:
                if fd != stdin:
                    carrier.serve(fd, event, now_ns)
                elif not self._obey(now_ns):
                    return
            if due_ns is not None:
                carrier.carry_all(now_ns)
            if self._awaited is not None:
                self._answer_if_reached()

    # Commands

    def _obey(self, now_ns: int) -> bool:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            return False
        *lines, self._commands = (self._commands + data).split(b"\n")
        for line in lines:
            command: dict[str, Any] = json.loads(line)
            if self._awaited is not None:  # whoever waited has given up
                self._answer()
            name = command.pop("do")
            if name == "wait":
                self._awaited = command
                continue
            if name != "count":
                assert name in COMMANDS, name
                getattr(self._carrier, name)(now_ns=now_ns, **command)
                self._carrier.carry_all(now_ns)
            self._answer()
        return True

    def _answer(self) -> None:
        self._awaited = None
        sys.stdout.write(json.dumps(dataclasses.asdict(self._carrier.counted())) + "\n")
        sys.stdout.flush()

    def _answer_if_reached(self) -> None:
        assert self._awaited is not None
        counts = self._carrier.counted()
        if all(getattr(counts, name) >= least for name, least in self._awaited.items()):
            self._answer()


def main(words: list[str]) -> None:
    """HOST UPSTREAM_HOST UPSTREAM_PORT SEED; the first line out is the port."""
    with contextlib.suppress(PermissionError):
        os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, and their end is ours
    host, upstream_host, upstream_port, seed = words
    forwarder = Forwarder(host, (upstream_host, int(upstream_port)), int(seed))
    print(forwarder.address[1], flush=True)
    gc.freeze()
    forwarder.run()


if __name__ == "__main__":
    main(sys.argv[1:])
