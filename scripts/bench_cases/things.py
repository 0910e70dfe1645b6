"""things: property reads over HTTP, alone and beside four clients of an action that computes for 20 ms of CPU time.

On one and the same thing, of an observable property; and on another thing, of one that is not: each of these reads is
answered by a call that begins after it, and readers that wait together share one. Also at a pace of 4,000 a second, and of
sixteen things, of which no two reads share a call. Alone against a constant of the same length that the gateway answers, too.
The reference: a server of aiohttp that answers that constant and does nothing else, alone, and beside a process that computes:
what two cores leave to anybody. A surprise: reads that wait for the actions.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from subprocess import Popen
from typing import Any

from appbackplane.runtime import Component
from appbackplane.runtime.things import Thing, action, prop

from .harness.bulk import compute
from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.processes import hear, program, say
from .harness.systems import running
from .peers.things_servers import ThingServer, thing_servers

SLICE_S, QUICK_SLICE_S = 2.0, 0.5
READERS, CALLERS = 16, 4
ACTION_S = 0.02
#: Reads a second of those that keep a pace.
PACE_PER_S = 4_000
#: Served by the gateway of this case (harness/constant_gateway.py).
CONSTANT_PATH = "/constant"
WEB = 'components = ["bench_cases.harness.constant_gateway:ConstantGateway"]'
SETTINGS = '[backplane.web.settings.ConstantGateway]\nlisten = "127.0.0.1:0"\nanonymous = true'


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
        for number in range(READERS):
            self.add(Machine(), key=f"urn:bench:idle-{number}")


def reads(thing: str, name: str, count: int = READERS, **pace: float) -> dict[str, Any]:
    path = f"/things/urn:bench:{thing}/properties/{name}"
    return {"count": count, "method": "GET", "path": path} | pace


CRUNCH = {"count": CALLERS, "method": "POST", "path": "/things/urn:bench:busy/actions/crunch"}
OTHER, PACED = reads("idle-0", "serial"), reads("idle-0", "serial", per_s=PACE_PER_S)
CONSTANT = {"count": READERS, "method": "GET", "path": CONSTANT_PATH}
APART = [reads(f"idle-{number}", "serial", 1) for number in range(READERS)]


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    seconds = QUICK_SLICE_S if is_quick else SLICE_S
    backplanes = {"hall": f'components = ["{__name__}:Hall"]', "web": f"{WEB}\n{SETTINGS}"}
    with (
        running(backplanes) as system,
        program("harness.http_load") as load,
        program("things", "serve") as constant,
        program("things", "compute") as computing,
        thing_servers(ACTION_S) as others,
    ):
        port = int(system.client.call("gateway.address").rstrip("/").rpartition(":")[2])
        constant_port = int(hear(constant))

        def ask(port: int, *loads: dict[str, Any], by: Popen[str] = load) -> list[dict[str, float]]:
            return asked(by, {"port": port, "seconds": seconds, "loads": loads})

        ask(port, CRUNCH)  # the first action publishes the values
        ask(port, reads("busy", "level"))
        ask(constant_port, OTHER)

        def measure() -> Figures:
            (alone,) = ask(port, reads("busy", "level"))
            (constant,) = ask(port, CONSTANT)
            same, beside_same = ask(port, reads("busy", "level"), CRUNCH)
            other, beside = ask(port, OTHER, CRUNCH)
            paced, beside_paced = ask(port, PACED, CRUNCH)
            *apart, beside_apart = ask(port, *APART, CRUNCH)
            (actions,) = ask(port, CRUNCH)
            percent = 100 / actions["per_s"]
            return {
                "alone_per_s": alone["per_s"], "alone_of_constant_percent": 100 * alone["per_s"] / constant["per_s"],
                "same_per_s": same["per_s"], "same_p99_ms": same["p99_ms"],
                "same_actions_percent": percent * beside_same["per_s"],
                "other_per_s": other["per_s"], "other_p99_ms": other["p99_ms"], "actions_percent": percent * beside["per_s"],
                "paced_per_s": paced["per_s"], "paced_p99_ms": paced["p99_ms"],
                "paced_actions_percent": percent * beside_paced["per_s"],
                "apart_per_s": sum(each["per_s"] for each in apart), "apart_p99_ms": max(each["p99_ms"] for each in apart),
                "apart_actions_percent": percent * beside_apart["per_s"],
                "actions_per_s": actions["per_s"],
            }  # fmt: skip

        def computed(*loads: dict[str, Any]) -> tuple[float, list[dict[str, float]]]:
            """Computations a second beside requests of the constant."""
            say(computing, str(seconds))
            found = ask(constant_port, *loads) if loads else []
            return float(hear(computing)), found

        def measure_constant() -> Figures:
            (alone,) = ask(constant_port, OTHER)
            actions_per_s, _ = computed()
            beside_per_s, (other,) = computed(OTHER)
            beside_paced_per_s, (paced,) = computed(PACED)
            return {
                "alone_per_s": alone["per_s"], "other_per_s": other["per_s"], "other_p99_ms": other["p99_ms"],
                "actions_percent": 100 * beside_per_s / actions_per_s, "paced_per_s": paced["per_s"],
                "paced_p99_ms": paced["p99_ms"], "paced_actions_percent": 100 * beside_paced_per_s / actions_per_s,
                "actions_per_s": actions_per_s,
            }  # fmt: skip

        def measure_other(server: ThingServer) -> Figures:
            readers, callers = {"count": READERS, **server.read}, {"count": CALLERS, **server.invoke}
            with program("harness.http_load") as own:  # whatever it meets, ours goes on
                (alone,) = ask(server.port, readers, by=own)
                same, beside = ask(server.port, readers, callers, by=own)
                (actions,) = ask(server.port, callers, by=own)
            return {
                "alone_per_s": alone["per_s"], "same_per_s": same["per_s"], "same_p99_ms": same["p99_ms"],
                "same_actions_percent": 100 * beside["per_s"] / actions["per_s"], "actions_per_s": actions["per_s"],
            }  # fmt: skip

        yield Sides(
            measure, measure_constant, {name: partial(measure_other, server) for name, server in others.items()}
        )


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


def serve_computing() -> None:
    """A process that computes for as many seconds as each line says, and tells how many times it did so a second."""
    for line in sys.stdin:
        began, count = time.monotonic(), 0
        while (passed := time.monotonic() - began) < float(line):
            compute(ACTION_S)
            count += 1
        print(count / passed, flush=True)


CASE = Case(
    name="things",
    what="property reads over HTTP beside actions of 20 ms; reference: aiohttp with a constant, beside a process that computes",
    requirements=(
        Requirement(
            "reads/s alone, of the gateway's constant", ours("alone_of_constant_percent"), at_least=80, unit="%"
        ),
        Requirement("reads/s, same thing", ours("same_per_s"), at_least=8_000),
        Requirement("p99, same thing", ours("same_p99_ms"), at_most=5, unit="ms"),
        Requirement("reads/s, another thing, not cached", ours("other_per_s"), at_least=4_000),
        Requirement("p99, another thing", ours("other_p99_ms"), at_most=5, unit="ms"),
        Requirement("actions beside reads", ours("actions_percent"), at_least=95, unit="%"),
    ),
    open=both,
    rounds=3,
    quick_rounds=1,
    is_warmed_up=False,
)

if __name__ == "__main__":
    {"serve": serve_constant, "compute": serve_computing}[sys.argv[1]]()
