"""things: property reads over HTTP, alone and beside four clients of an action that computes for 20 ms.

On one and the same thing, of an observable property; and on another thing, of one that is not, so that each read is a call.
Alone against a server of aiohttp that answers a constant of the same length. A surprise: reads that wait for the actions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

from appbackplane.runtime import Component
from appbackplane.runtime.things import Thing, action, prop

from .harness.bulk import compute
from .harness.case import Case, Requirement, Sides, ours, ratio
from .harness.processes import hear, program, say
from .harness.systems import running

SLICE_S, QUICK_SLICE_S = 4.0, 1.0
READERS, CALLERS = 16, 4
ACTION_S = 0.02
WEB = 'components = ["appbackplane.runtime.things.web:Gateway"]'
SETTINGS = '[backplane.web.settings.Gateway]\nlisten = "127.0.0.1:0"\nanonymous = true'


class Machine(Thing):
    """Computes, and shows one value from the cache and one of its own."""

    def __init__(self) -> None:
        self.value = 7

    @prop(observable=True, priority=0)
    def level(self) -> int:
        return self.value

    @prop(priority=0)
    def serial(self) -> int:
        return 7

    @action(priority=6)
    def crunch(self) -> int:
        compute(ACTION_S)
        return 1


class Hall(Component):
    def setup(self) -> None:
        self.add(Machine(), key="urn:bench:busy")
        self.add(Machine(), key="urn:bench:idle")


def reads(thing: str, name: str) -> dict[str, Any]:
    return {"count": READERS, "method": "GET", "path": f"/things/urn:bench:{thing}/properties/{name}"}


CRUNCH = {"count": CALLERS, "method": "POST", "path": "/things/urn:bench:busy/actions/crunch"}


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    backplanes = {"hall": f'components = ["{__name__}:Hall"]', "web": f"{WEB}\n{SETTINGS}"}
    with (
        running(backplanes) as system,
        program("harness.http_load") as load,
        program("things") as constant,
    ):
        port = int(system.client.call("gateway.address").rstrip("/").rpartition(":")[2])
        constant_port = int(hear(constant))

        def ask(port: int, *loads: dict[str, Any]) -> list[dict[str, float]]:
            return asked(load, {"port": port, "seconds": seconds, "loads": loads})

        ask(port, CRUNCH)  # the first action publishes the values

        def measure() -> dict[str, float]:
            (alone,) = ask(port, reads("busy", "level"))
            same, _ = ask(port, reads("busy", "level"), CRUNCH)
            other, beside = ask(port, reads("idle", "serial"), CRUNCH)
            (actions,) = ask(port, CRUNCH)
            return {
                "alone_per_s": alone["per_s"], "same_per_s": same["per_s"], "same_p99_ms": same["p99_ms"],
                "other_per_s": other["per_s"], "other_p99_ms": other["p99_ms"],
                "actions_percent": 100 * beside["per_s"] / actions["per_s"],
            }  # fmt: skip

        def measure_constant() -> dict[str, float]:
            (alone,) = ask(constant_port, reads("busy", "level"))
            return {"alone_per_s": alone["per_s"]}

        yield Sides(measure, measure_constant)


def asked(load: Popen[str], run: dict[str, Any]) -> list[dict[str, float]]:
    """One run of the load."""
    say(load, json.dumps(run))
    found: list[dict[str, float]] = json.loads(hear(load))
    return found


def serve_constant() -> None:
    """The reference: the same server, the same path, and an answer of the same length, which nobody has to look for."""
    from aiohttp import web

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"7", content_type="application/json")

    async def started(_application: web.Application) -> None:
        print(listening.getsockname()[1], flush=True)

    import socket

    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    application = web.Application()
    application.router.add_get("/things/{id}/properties/{name}", answer)
    application.on_startup.append(started)
    web.run_app(application, sock=listening, access_log=None, handler_cancellation=True, print=None)


CASE = Case(
    name="things",
    what="property reads over HTTP beside actions of 20 ms; reference: aiohttp that answers a constant",
    requirements=(
        Requirement("reads/s alone to a constant", ratio("alone_per_s"), at_least=0.8),
        Requirement("reads/s, same thing", ours("same_per_s"), at_least=8_000),
        Requirement("p99, same thing", ours("same_p99_ms"), at_most=5, unit="ms"),
        Requirement("reads/s, another thing, not cached", ours("other_per_s"), at_least=4_000),
        Requirement("p99, another thing", ours("other_p99_ms"), at_most=5, unit="ms"),
        Requirement("actions beside reads", ours("actions_percent"), at_least=95, unit="%"),
    ),
    open=both,
    rounds=3,
    quick_rounds=1,
)

if __name__ == "__main__":
    sys.exit(serve_constant())
