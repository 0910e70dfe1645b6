"""restart: from kill -9 of a backplane until the next call to it is served, by a client that asks again every 2 ms.

A round kills another backplane of the system, since a second death in a row is followed by a pause. Against a bare process
that is started and answers once. A surprise would be a second: then something waits for a time-out.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.transport.client import Client
from appbackplane.transport.errors import BackplaneError

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.parts import COUNT, backplanes
from .harness.raw import start_s
from .harness.systems import running

ASK_EVERY_S, CALL_S_MAX, SERVED_S_MAX = 0.002, 1.0, 10.0


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with running(backplanes(COUNT)) as system:
        pids = system.pids()
        routes = iter([(f"part{n}.ping", pids[f"b{n}"]) for n in range(COUNT)])

        def kill() -> Figures:
            route, pid = next(routes)
            system.client.call(route)
            began = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            wait_until_served(system.client, route)
            return {"served_ms": (time.perf_counter() - began) * 1e3}

        yield Sides(kill, lambda: {"served_ms": start_s(1) * 1e3})


def wait_until_served(client: Client, route: str) -> None:
    """Ask until it answers. Raises the last refusal when that takes too long."""
    end = time.perf_counter() + SERVED_S_MAX
    while True:
        try:
            client.call(route, timeout=CALL_S_MAX)
            return
        except BackplaneError:
            if time.perf_counter() > end:
                raise
            time.sleep(ASK_EVERY_S)


CASE = Case(
    name="restart",
    what="kill -9 until the next call is served; reference: start of a bare process that answers once",
    requirements=(Requirement("served", ours("served_ms"), at_most=400, unit="ms"),),
    open=both,
    rounds=7,
    quick_rounds=3,
    is_warmed_up=False,
)
