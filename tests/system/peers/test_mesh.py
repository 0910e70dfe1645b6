"""Many nodes on loopback: they find each other by one seed, what one offers is known to all, and each costs what is stated.

A node is an `Endpoint` with sockets, keys and a thread, and no system behind it (mesh.py). 32, on two cores: with 64 the
handshakes and beats of all, which are on 64 hosts elsewhere, take more than there is (docs/decisions/many_nodes.md).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder

from ..conftest import LIMIT_S, short_folder
from .conftest import free_port

ROOT = Path(__file__).resolve().parents[3]
NODES, PROCESSES = 32, 4
#: Within which all are up with all, and by how much a busy machine may be late.
MESH_S_MAX, LATE_S_MAX = 10.0, 20.0
#: Of its own: the endpoint's, and two of ZeroMQ's for each of its two contexts.
THREADS_A_NODE = 5
#: For each peer: two connections, one dialled and one taken, and what ZeroMQ needs to tell of the first; and those of its own.
FDS_A_PEER, FDS_A_NODE = 5, 24
NAMES = [f"n{number:02}" for number in range(NODES)]


class Worker:
    """A process with some of them."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.peers.mesh", str(folder), NAMES[0]],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.heard() == "ready"

    def say(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def heard(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, *words: str) -> Any:
        self.say(*words)
        return self.heard()


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    """Their keys and addresses, and the processes, without nodes yet."""
    with short_folder() as folder:
        rings = {name: Keyring(folder / name) for name in NAMES}
        holders = [Holder(name, ring.make_own()) for name, ring in rings.items()]
        for name, ring in rings.items():
            others = [holder for holder in holders if holder.name != name]
            ring.change(lambda known, others=others: reduce(lambda so_far, one: so_far.trusting(one), others, known))  # type: ignore[misc]
        ports: set[int] = set()
        while len(ports) < NODES:
            ports.add(free_port())
        addresses = {name: f"tcp://127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True)}
        (folder / "addresses").write_text(json.dumps(addresses))
        made = [Worker(folder) for _ in range(PROCESSES)]
        yield made
        for worker in made:
            worker.process.kill()  # 32 leaves are not the subject
            worker.process.communicate(timeout=LIMIT_S)


def of(workers: list[Worker], name: str) -> Worker:
    """Who has this node."""
    return workers[NAMES.index(name) % PROCESSES]


def until(workers: list[Worker], is_so: Callable[[dict[str, dict[str, list[str]]]], bool]) -> float:
    """Until what all know of the others is so; seconds."""
    began_s = time.monotonic()
    while True:
        for worker in workers:
            worker.say("look")
        known = {name: offers for worker in workers for name, offers in worker.heard()["offers"].items()}
        if is_so(known):
            return time.monotonic() - began_s
        assert time.monotonic() - began_s < MESH_S_MAX + LATE_S_MAX, {
            name: len(offers) for name, offers in known.items()
        }
        time.sleep(0.1)


def all_know(names: list[str]) -> Callable[[dict[str, dict[str, list[str]]]], bool]:
    """Whether each of these knows what all others of them offer, and of nobody else."""
    return lambda known: (
        known == {name: {other: [f"{other}.route"] for other in names if other != name} for name in names}
    )


def test_all_find_each_other_and_each_costs_what_is_stated(workers: list[Worker]) -> None:
    """And then one leaves, comes back, and offers something more: each time all come to know it."""
    for number, worker in enumerate(workers):
        worker.say("start", *NAMES[number::PROCESSES])
    for worker in workers:
        worker.heard()
    took_s = until(workers, all_know(NAMES))
    assert took_s < MESH_S_MAX + LATE_S_MAX
    before = workers[0].ask("look")
    nodes = NODES // PROCESSES
    assert before["threads"] <= 1 + nodes * THREADS_A_NODE
    assert before["fds"] <= nodes * (FDS_A_NODE + FDS_A_PEER * (NODES - 1)), before["fds"]
    one = NAMES[5]
    of(workers, one).ask("stop", one)
    until(workers, all_know([name for name in NAMES if name != one]))
    of(workers, one).ask("start", one)
    until(workers, all_know(NAMES))
    of(workers, one).ask("offer", one, "later.route")
    until(workers, lambda known: all("later.route" in offers[one] for name, offers in known.items() if name != one))
    after = workers[0].ask("look")
    assert (after["threads"], after["fds"]) <= (before["threads"], before["fds"] + nodes * FDS_A_PEER)
