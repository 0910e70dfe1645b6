"""streams: items a second from a generator in one process to a loop in another, 100 bytes each.

Against the same items, 64 a frame, from PUSH to PULL of raw pyzmq with msgpack, without any window: what a program would write
that needs neither order of urgency nor a bound. Beside it: what an urgent call waits for while the stream runs, against the
same on an idle backplane, and how far a reader that sleeps lets the callee run ahead.

    python -m bench_cases.streams ENDPOINT ITEMS
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgpack
import zmq

from appbackplane.runtime import AppObject, Component, operation
from appbackplane.transport import connect

from .harness.case import Case, Figures, Requirement, Sides, ours, ratio
from .harness.processes import hear, program, say
from .harness.systems import System, running
from .harness.timing import periodic_us, summary

ITEMS, QUICK_ITEMS = 1_000_000, 200_000
TEXT = "x" * 96
BATCH = 64
URGENT_S, QUICK_URGENT_S = 3.0, 1.0


class Table(AppObject):
    """Streams, and counts how far it has come."""

    def __init__(self) -> None:
        self.yielded = 0
        self.ended_ns = 0

    @operation(priority=6)
    def rows(self, count: int) -> Iterator[str]:
        self.yielded = 0
        try:
            for _ in range(count):
                self.yielded += 1
                yield TEXT
        finally:
            self.ended_ns = time.monotonic_ns()


class Tables(Component):
    """One table that streams, and an object that answers at once."""

    def setup(self) -> None:
        self.table = self.add(Table(), key="table")

    @operation(priority=0)
    def ping(self) -> None:
        """An urgent call."""

    @operation(priority=0)
    def yielded(self) -> int:
        """How far the stream has come."""
        return self.table.yielded

    @operation(priority=0)
    def ended_ns(self) -> int:
        """When the last stream has ended, by the clock that all processes share."""
        return self.table.ended_ns


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    items = QUICK_ITEMS if is_quick else ITEMS
    seconds = QUICK_URGENT_S if is_quick else URGENT_S
    with running({"tables": f'components = ["{__name__}:Tables"]'}) as system, raw_source() as raw:
        yield Sides(
            lambda: {**stream(system, items), **urgent(system, seconds), **asleep(system), **left(system)},
            lambda: raw.stream(items),
        )


def stream(system: System, items: int) -> Figures:
    """All items, read as fast as they come."""
    began = time.perf_counter()
    count = sum(1 for _ in system.client.stream("tables.rows", count=items, timeout=600))
    return {"items_per_s": count / (time.perf_counter() - began), "lost": items - count}


def urgent(system: System, seconds: float) -> Figures:
    """Urgent calls, from another client, on the idle backplane and beside a stream."""
    with connect(system.run_dir) as other:
        idle = summary(periodic_us(lambda: other.call("tables.ping"), seconds))
        is_over = threading.Event()

        def read() -> None:
            with system.client.stream("tables.rows", count=10**12, timeout=600) as rows:
                for _ in rows:
                    if is_over.is_set():
                        return

        reader = threading.Thread(target=read)
        reader.start()
        beside = summary(periodic_us(lambda: other.call("tables.ping"), seconds))
        is_over.set()
        reader.join()
    return {"idle_p99_us": idle["p99_us"], "urgent_p99_us": beside["p99_us"]}


def asleep(system: System) -> Figures:
    """How many items the callee has yielded for a reader that has read one."""
    with system.client.stream("tables.rows", count=10**12, timeout=600) as rows:
        next(rows)
        while (ahead := system.client.call("tables.yielded")) != system.client.call("tables.yielded"):
            pass
    return {"ahead_items": ahead}


def left(system: System) -> Figures:
    """How long the generator goes on after its reader has left it, the worst of twenty."""
    longest_ms = 0.0
    for _ in range(20):
        rows = system.client.stream("tables.rows", count=10**12, timeout=600)
        for _ in range(10):
            next(rows)
        left_ns = time.monotonic_ns()
        rows.close()
        while (ended_ns := system.client.call("tables.ended_ns")) < left_ns:
            pass
        longest_ms = max(longest_ms, (ended_ns - left_ns) / 1e6)
    return {"ended_ms": longest_ms}


class RawSource:
    """PULL here, PUSH in another process."""

    def __init__(self, socket: zmq.Socket[bytes], child: subprocess.Popen[str]) -> None:
        self._socket, self._child = socket, child

    def stream(self, items: int) -> Figures:
        unpack, receive = msgpack.unpackb, self._socket.recv
        began = time.perf_counter()
        say(self._child, str(items))
        count = 0
        while count < items:
            for _ in unpack(receive()):
                count += 1
        return {"items_per_s": count / (time.perf_counter() - began), "lost": 0}


@contextmanager
def raw_source() -> Iterator[RawSource]:
    """Connected."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ab-"))
        stack.callback(context.destroy, linger=0)
        socket = context.socket(zmq.PULL)
        endpoint = f"ipc://{folder}/raw.sock"
        socket.bind(endpoint)
        child = stack.enter_context(program("streams", endpoint))
        hear(child)
        yield RawSource(socket, child)


def main(endpoint: str) -> None:
    """Send as many items as each line of standard input says."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.connect(endpoint)
    pack = msgpack.Packer().pack
    print("ready", flush=True)
    for line in sys.stdin:
        items = int(line)
        for _ in range(items // BATCH):
            socket.send(pack([TEXT] * BATCH))
        socket.send(pack([TEXT] * (items % BATCH)))
    context.destroy(linger=0)


CASE = Case(
    name="streams",
    what="items of 100 B from a generator to a loop in another process; reference: raw pyzmq PUSH/PULL, 64 items a frame",
    requirements=(
        Requirement("items/s to raw pyzmq", ratio("items_per_s"), at_least=0.1),
        Requirement("items/s", ours("items_per_s"), at_least=300_000),
        Requirement("lost", ours("lost"), at_most=0),
        Requirement("urgent p99 to idle p99", lambda ours, _: ours["urgent_p99_us"] / ours["idle_p99_us"], at_most=1.5),
        Requirement("items ahead of a reader that sleeps", ours("ahead_items"), at_most=1_025),
        Requirement("end of a cancelled generator", ours("ended_ms"), at_most=10, unit="ms"),
    ),
    open=both,
    rounds=5,
    quick_rounds=2,
)

if __name__ == "__main__":
    main(sys.argv[1])
