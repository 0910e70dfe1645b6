"""Urgent calls beside bulk: clients that keep bulk outstanding, and how much of it is served before an urgent answer.

The order of answers says whether a call was urgent, on a machine of any speed. Its duration is judged by `scripts/long`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from statistics import median

from appbackplane.transport import Client, PendingCall
from appbackplane.transport.peers.window import PART_BYTES_MIN
from tests.figures import IS_LONG, Stopwatch, judge
from tests.network.measuring import RoundTrips

from ..conftest import LIMIT_S

#: 10 Mbit/s, in bytes a second.
RATE = 1_250_000
#: For a p99: so many that one late call of a hundred is not all there is to the figure.
CALLS = 150
#: For a median.
CALLS_COUNTED = 15 if IS_LONG else 3


class Bulk:
    """A client that has so many large calls outstanding, always, and says nothing of their priority."""

    def __init__(self, client: Client, route: str, outstanding: int, **arguments: object) -> None:
        self._submit: Callable[[], PendingCall] = lambda: client.submit(route, timeout=2 * LIMIT_S, arguments=arguments)
        self._client, self.outstanding = client, outstanding
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
                while len(waiting) < self.outstanding:
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
        watch = Stopwatch()
        assert client.call("b/calc.add", x=number, y=1, priority=0, timeout=LIMIT_S) == number + 1
        taken_s.append(watch.taken_s)
    return RoundTrips(tuple(sorted(taken_s)))


def idle_trips(client: Client) -> RoundTrips | None:
    """Round trips without bulk, where they are judged."""
    return ping(client) if IS_LONG else None


def assert_urgent(client: Client, *bulks: Bulk, idle: RoundTrips | None) -> None:
    """Half of the urgent calls are answered before half of the bulk calls that were outstanding when they were made.

    In the order of arrival, all of these would be answered first. `scripts/long` judges p99 as well: three times that of the
    idle link, and one part of bulk.
    """
    served_before = []
    for number in range(CALLS_COUNTED):
        before = sum(bulk.done for bulk in bulks)
        assert client.call("b/calc.add", x=number, y=1, priority=0, timeout=2 * LIMIT_S) == number + 1
        served_before.append(sum(bulk.done for bulk in bulks) - before)
    assert median(served_before) < sum(bulk.outstanding for bulk in bulks) / 2, served_before
    if idle is not None:
        judge("p99 of urgent calls beside bulk", ping(client).p99, 3 * idle.p99 + PART_BYTES_MIN / RATE)
