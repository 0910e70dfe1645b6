"""spawn: light objects with addresses: bytes each, how many are spawned and ended a second, and how soon an end is told.

Bytes and rate in a process of its own, in one operation of a whole backplane, with 100,000 objects that live: what an object
has of its own is one number. The reference is an asyncio task for each, with a queue for its messages, made and cancelled.
Told is the action of a monitor in another process: after an object has ended itself; after kill -9 of its backplane (another
one each round, since a second death in a row is followed by a pause); and both again at another node. A surprise would be 10
ms: then something waits for a time-out.

    python -m bench_cases.spawn
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from appbackplane.runtime import Action, AppObject, Component, Outcome
from appbackplane.transport import Address, Client, connect
from appbackplane.transport.errors import BackplaneError

from .harness.addressed import COUNT, backplanes
from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.in_process import backplane_of, config_of
from .harness.machine import rss_mib
from .harness.processes import hear, program, say
from .harness.systems import running, up
from .node_to_node import MET_S_MAX, nodes

LIVE = 100_000
CYCLES = 50_000
TASKS = 20_000
TOLD_S_MAX, LOOK_EVERY_S = 10.0, 0.002
THERE = "bench_cases.harness.addressed"
#: It is killed in each round.
OFTEN = 'restart = { max = 100, within = "60s" }'


@contextmanager
def both(_is_quick: bool) -> Iterator[Sides]:
    with ExitStack() as stack:
        child = stack.enter_context(program("spawn"))
        bytes_each = float(hear(child))
        system = stack.enter_context(running(backplanes(COUNT)))
        pids = system.pids()
        victims = iter(range(COUNT))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ab-")))
        tomls = nodes(
            folder, {"a": f'components = ["{THERE}:Watcher"]', "b": f'components = ["{THERE}:Accounts"]\n{OFTEN}'}
        )
        a, b = (stack.enter_context(connect(stack.enter_context(up(toml)))) for toml in tomls)
        wait_met(a)

        def measured() -> Figures:
            say(child, "go")
            figures: Figures = json.loads(hear(child))
            number = next(victims)
            told_s = ended_s(system.client, system.client, f"accounts{number}.open")
            told_there_s = ended_s(a, b, "accounts.open")
            killed_s = killed(system.client, system.client, f"accounts{number}.open", pids[f"b{number}"])
            killed_there_s = killed(a, b, "accounts.open", pid_of(b, "worker"))
            return {
                "per_s": figures["per_s"], "object_bytes": bytes_each, "told_ms": told_s * 1e3, "killed_ms": killed_s * 1e3,
                "told_at_node_ms": told_there_s * 1e3, "killed_at_node_ms": killed_there_s * 1e3,
            }  # fmt: skip

        yield Sides(measured, lambda: {"per_s": asyncio.run(tasks_per_s())})


def wait_met(client: Client) -> None:
    """Until the other node answers."""
    end_s = time.monotonic() + MET_S_MAX
    while True:
        try:
            client.call("b/accounts.open", timeout=1.0)
            return
        except BackplaneError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.1)


def ended_s(watching: Client, holding: Client, route: str) -> float:
    """From the end of an object, by itself, to the action of a monitor."""
    target = Address(holding.call(route))
    watching.call("watcher.watch", target=target)
    wait_watched(holding, target)
    began_s = holding.call(target.to("close"))
    return told_s(watching, target, "ended") - float(began_s)


def killed(watching: Client, holding: Client, route: str, pid: int) -> float:
    """From kill -9 of the backplane of an object to the action of a monitor."""
    target = Address(holding.call(route))
    watching.call("watcher.watch", target=target)
    wait_watched(holding, target)
    began_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return told_s(watching, target, "killed") - began_s


def pid_of(client: Client, backplane: str) -> int:
    """Of its process, once it is up."""

    def look() -> int | None:
        status = client.call("supervisor.status", statistics=False)
        return next((e["pid"] for e in status["backplanes"] if e["name"] == backplane and e["state"] == "up"), None)

    client.call("accounts.open")  # retried until it is served
    found: int = wait_until(look)
    return found


def wait_watched(client: Client, target: Address) -> None:
    """Until the process that has the object knows of its watcher."""
    wait_until(lambda: client.call(f"backplane.{target.backplane}.statistics")["addresses"]["watchers"] or None)


def told_s(client: Client, target: Address, reason: str) -> float:
    """When the monitor's action ran."""
    told = wait_until(lambda: client.call("watcher.told", target=target))
    if told[0] != reason:
        raise RuntimeError(f"{target} was told to be {told[0]}, expected {reason}")
    return float(told[1])


def wait_until(look: Any) -> Any:
    """What it returns, once that is not None."""
    end_s = time.monotonic() + TOLD_S_MAX
    while (found := look()) is None:
        if time.monotonic() > end_s:
            raise RuntimeError(f"not within {TOLD_S_MAX:g} s")
        time.sleep(LOOK_EVERY_S)
    return found


# -- the program ------------------------------------------------------------------------------------------------------


class Account(AppObject):
    __slots__ = ("cents",)

    def __init__(self) -> None:
        self.cents = 0


class Bank(Component):
    declares = (Account,)


class Task(Action):
    """One piece of work of the program, run by the worker of its backplane."""

    __slots__ = ("done", "found", "work")

    def __init__(self, bank: Bank, work: Any) -> None:
        super().__init__(bank, "bank.work", 4)
        self.work, self.found, self.done = work, 0.0, threading.Event()

    def run(self) -> Outcome:
        self.found = self.work(self.object)
        self.done.set()
        return Outcome.DONE


def spawn_many(bank: Bank) -> float:
    """What the process grows by for one that stays."""
    gc.collect()
    before_mib = rss_mib(os.getpid())
    for _ in range(LIVE):
        bank.spawn(Account())
    return (rss_mib(os.getpid()) - before_mib) * (1 << 20) / LIVE


def cycle(bank: Bank) -> float:
    """Objects spawned and ended a second."""
    spawn, end = bank.spawn, bank.end_spawned
    began = time.perf_counter()
    for _ in range(CYCLES):
        end(spawn(Account()))
    return CYCLES / (time.perf_counter() - began)


async def tasks_per_s() -> float:
    """asyncio tasks with a queue each, made and ended a second."""

    async def serve(queue: asyncio.Queue[int]) -> None:
        await queue.get()

    began = time.perf_counter()
    tasks = [asyncio.create_task(serve(asyncio.Queue())) for _ in range(TASKS)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return TASKS / (time.perf_counter() - began)


def main() -> None:
    """Says what an object costs, then measures what it is told to."""
    bank = Bank()
    backplane = backplane_of(config_of("spawn", preempt=False), bank)
    backplane.start(1)

    def ran(work: Any) -> float:
        task = Task(bank, work)
        bank.post(task)
        task.done.wait()
        return task.found

    print(ran(spawn_many), flush=True)
    gc.collect()
    gc.freeze()
    for _ in sys.stdin:
        print(json.dumps({"per_s": ran(cycle)}), flush=True)


CASE = Case(
    name="spawn",
    what=f"{LIVE:,} light objects: spawned and ended a second, bytes each, ends told; reference: asyncio tasks with queues",
    requirements=(
        Requirement("spawned and ended", ours("per_s"), at_least=150_000, unit="/s"),
        Requirement("an object", ours("object_bytes"), at_most=700, unit="B"),
        Requirement("told of an end", ours("told_ms"), at_most=10, unit="ms"),
        Requirement("told of kill -9", ours("killed_ms"), at_most=10, unit="ms"),
        Requirement("told at another node", ours("told_at_node_ms"), at_most=10, unit="ms"),
        Requirement("told of kill -9 at another node", ours("killed_at_node_ms"), at_most=10, unit="ms"),
    ),
    open=both,
    rounds=6,
    quick_rounds=3,
)

if __name__ == "__main__":
    main()
