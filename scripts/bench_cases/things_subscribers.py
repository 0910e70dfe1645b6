"""things_subscribers: ten thousand subscribers of server-sent events on one gateway, and some more that never read.

The growth of the gateway's process with them, and the time from an action until the last subscriber has its event. A surprise:
growth by a queue for each, or subscribers that wait for those that do not read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from appbackplane.runtime import Component
from appbackplane.runtime.things import Thing, action, event

from .harness.case import Case, Requirement, Sides, ours
from .harness.processes import hear, program, say
from .harness.systems import running
from .things import SETTINGS, WEB

SUBSCRIBERS, QUICK_SUBSCRIBERS, MUTES = 10_000, 2_000, 20


class Bell(Thing):
    """Rings."""

    @action
    def ring(self) -> None:
        self.rung.emit(1)

    rung = event(int)


class Belfry(Component):
    def setup(self) -> None:
        self.add(Bell(), key="urn:bench:bell")


@contextmanager
def subscribed(is_quick: bool) -> Iterator[Sides]:
    backplanes = {"belfry": f'components = ["{__name__}:Belfry"]', "web": f"{WEB}\n{SETTINGS}"}
    count = QUICK_SUBSCRIBERS if is_quick else SUBSCRIBERS
    with running(backplanes) as system, program("harness.sse_load") as load:
        port = int(system.client.call("gateway.address").rstrip("/").rpartition(":")[2])
        gateway = psutil.Process(system.pids()["web"])
        system.client.call("belfry.ring", key="urn:bench:bell")
        idle_bytes = gateway.memory_info().rss
        path = "/things/urn:bench:bell/events/rung/stream"
        say(load, json.dumps({"port": port, "path": path, "count": count, "mutes": MUTES}))
        assert hear(load) == "open"

        def measure() -> dict[str, float]:
            say(load, "ring")
            began = time.monotonic()
            system.client.call("belfry.ring", key="urn:bench:bell")
            last = float(hear(load))
            return {"last_s": last - began, "grown_mb": (gateway.memory_info().rss - idle_bytes) / 1e6}

        yield Sides(measure)


CASE = Case(
    name="things_subscribers",
    what=f"{SUBSCRIBERS:,} subscribers of server-sent events, and {MUTES} that never read",
    requirements=(
        Requirement("time until the last one has an event", ours("last_s"), at_most=0.6, unit="s"),
        Requirement("memory beyond that of an idle gateway", ours("grown_mb"), at_most=170, unit="MB"),
    ),
    open=subscribed,
    rounds=5,
    quick_rounds=2,
)
