"""Round trip and throughput: what one call costs, alone and with a thousand outstanding.

Measured: a client process and one backplane with one thread; a trivial operation with one argument. Against:
ProcessPoolExecutor with one worker, and raw pyzmq (two bare ROUTER/DEALER sockets, one frame a call, an echo in a loop):
the floor under anything that talks through ZeroMQ. Rounds are interleaved; printed are medians.

A surprise would be a round trip above twice raw pyzmq's, or fewer calls a second than the executor.

    python scripts/bench_cases/call_rtt.py [rounds]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import zmq
from bench_system import running

from appbackplane.runtime import Component, operation

CALLS, PIPELINED, WINDOW = 2_000, 20_000, 1_000


class Echo(Component):
    """Serves one trivial operation."""

    @operation(priority=1)
    def echo(self, text: str) -> str:
        return text


def echo(text: str) -> str:
    """The same, for the executor."""
    return text


def round_trip_us(call: Callable[[], Any]) -> float:
    """The median of many calls, one after the other."""
    for _ in range(100):
        call()
    taken = []
    for _ in range(CALLS):
        start = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - start)
    return statistics.median(taken) / 1e3


def pipelined_per_s(submit: Callable[[], Any]) -> float:
    """Calls a second with a window of them outstanding."""
    began = time.perf_counter()
    window: deque[Any] = deque(submit() for _ in range(WINDOW))
    for _ in range(PIPELINED - WINDOW):
        window.popleft().result()
        window.append(submit())
    while window:
        window.popleft().result()
    return PIPELINED / (time.perf_counter() - began)


def ours() -> tuple[float, float]:
    with running("call_rtt:Echo") as (client, _):
        return (
            round_trip_us(lambda: client.call("echo.echo", text="x")),
            pipelined_per_s(lambda: client.submit("echo.echo", text="x")),
        )


def executor() -> tuple[float, float]:
    with ProcessPoolExecutor(1) as pool:

        def submit() -> Future[str]:
            return pool.submit(echo, "x")

        return round_trip_us(lambda: submit().result()), pipelined_per_s(submit)


def raw() -> tuple[float, float]:
    """Two sockets and nothing else."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        endpoint = f"ipc://{folder}/echo.sock"
        child = subprocess.Popen([sys.executable, __file__, "--echo", endpoint])
        context = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.set_hwm(0)
        socket.connect(endpoint)
        frame = b"x" * 40

        def call() -> bytes:
            socket.send(frame)
            reply: bytes = socket.recv()
            return reply

        try:
            rtt = round_trip_us(call)
            began = time.perf_counter()
            for _ in range(WINDOW):
                socket.send(frame)
            for _ in range(PIPELINED - WINDOW):
                socket.recv()
                socket.send(frame)
            for _ in range(WINDOW):
                socket.recv()
            return rtt, PIPELINED / (time.perf_counter() - began)
        finally:
            child.kill()
            child.wait()
            context.destroy(linger=0)


def echo_server(endpoint: str) -> None:
    """The far end of `raw`."""
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.set_hwm(0)  # at its default a ROUTER drops what the window sends too much
    socket.bind(endpoint)
    while True:
        socket.send_multipart(socket.recv_multipart())


def main(rounds: int) -> None:
    """All rounds, interleaved."""
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "ProcessPoolExecutor": [], "raw pyzmq": []}
    for _ in range(rounds):
        for who, measure in (("ours", ours), ("ProcessPoolExecutor", executor), ("raw pyzmq", raw)):
            found[who].append(measure())
    for who, each in found.items():
        rtt, rate = (statistics.median(column) for column in zip(*each, strict=True))
        print(f"{who:<20} round trip {rtt:7.1f} us   pipelined {rate / 1e3:7.1f} k/s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--echo"]:
        echo_server(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
