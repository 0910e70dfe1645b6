"""What is urgent beside bulk: clients that keep bulk outstanding, and what urgent calls take meanwhile."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import pytest

from appbackplane.transport import Client, PendingCall
from appbackplane.transport.peers.window import PART_BYTES_MIN
from tests.network.measuring import KEPT_WAITING_MAX, RoundTrips
from tests.steady import Witness

from ..conftest import LIMIT_S

#: 10 Mbit/s, in bytes a second.
RATE = 1_250_000
#: More than is ever judged, so that one late call of a hundred is not all there is to the figure.
CALLS = 150
TRIES = 4


class Bulk:
    """A client that has so many large calls outstanding, always, and says nothing of their priority."""

    def __init__(self, client: Client, route: str, outstanding: int, **arguments: object) -> None:
        self._submit: Callable[[], PendingCall] = lambda: client.submit(route, timeout=2 * LIMIT_S, arguments=arguments)
        self._client, self._outstanding = client, outstanding
        self._is_over = threading.Event()
        self.done = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Bulk:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(2 * LIMIT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        waiting: deque[PendingCall] = deque()
        try:
            while not self._is_over.is_set():
                while len(waiting) < self._outstanding:
                    waiting.append(self._submit())
                self._client.flush()
                waiting.popleft().result()
                self.done += 1
        except BaseException as error:  # told by whoever looks
            self.error = error
        for call in waiting:
            call.cancel()
        self._client.flush()


def ping(client: Client, count: int = CALLS) -> RoundTrips:
    """Urgent calls to `b`, one after the other."""
    taken_s = []
    for number in range(count):
        began_s = time.monotonic()
        assert client.call("b/calc.add", x=number, y=1, priority=0, timeout=LIMIT_S) == number + 1
        taken_s.append(time.monotonic() - began_s)
    return RoundTrips(tuple(sorted(taken_s)))


def judged(idle: RoundTrips, measure: Callable[[], RoundTrips]) -> None:
    """Against what was measured without bulk; a machine that does other work only adds, so the best of a few counts."""
    bound_s = 3 * idle.p99 + PART_BYTES_MIN / RATE
    with Witness() as witness:
        tries = [measure()]
        while tries[-1].p99 > bound_s and len(tries) < TRIES:
            tries.append(measure())
    if tries[-1].p99 > bound_s and witness.kept_waiting > KEPT_WAITING_MAX:
        pytest.skip(f"the machine is too busy: a witness was kept waiting {witness.kept_waiting:.0%} of the time")
    assert tries[-1].p99 <= bound_s, (str(idle), [str(each) for each in tries])
