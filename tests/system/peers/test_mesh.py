"""Many nodes on loopback: they find each other by one seed, what one offers is known to all, and each costs what is stated.

A node is a process with an `Endpoint`, sockets, keys and a thread, and no system behind it (mesh.py). Their handshakes and
beats, which are on 64 hosts elsewhere, are all on this one (docs/decisions/many_nodes.md).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder, Ring
from tests.figures import LONG, Stopwatch, judge
from tests.waiting import EVERY_S, Limit

from ..conftest import LIMIT_S, short_folder
from .conftest import free_port

ROOT = Path(__file__).resolve().parents[3]
COUNT, COUNT_LONG = 12, 64
#: Within which all are up with all, by `scripts/long`: two idle cores take 6 to 9 s. A hang ends after MESH_LIMIT_S.
MESH_S_MAX, MESH_LIMIT_S = 10.0, 240.0
#: Of its own: the process's, the endpoint's, and two of ZeroMQ's for each of its two contexts.
THREADS_A_NODE = 6
#: For each peer: two connections, one dialled and one taken, and what ZeroMQ needs to tell of the first; and those of its own,
#: of which two are its listening socket (headroom.py).
FDS_A_PEER, FDS_A_NODE = 5, 25


class Mesh:
    """All of them, by the process that forked them."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.names = names
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.peers.mesh", str(folder), names[0], *names],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._heard() == "ready"

    def ask(self, name: str, *words: object) -> dict[str, Any]:
        """What each answers; `*`: all."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, (name, *words))) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = self._heard()
        return found

    def look(self) -> dict[str, dict[str, Any]]:
        """What each knows and costs; `offers` of who does not run is None."""
        return self.ask("*", "look")

    def until_settled(self, fds: dict[str, int]) -> dict[str, dict[str, Any]]:
        """As each looks that runs when it has no more descriptors than that: a line that was dialled anew closes behind it."""
        limit = Limit()
        while True:
            looked = self.look()
            over = {name: one["fds"] for name, one in looked.items() if one["fds"] > fds[name]}
            if not over:
                return looked
            limit.check(over, pause_s=EVERY_S)

    def until_known(self, count: int) -> None:
        """Until each that runs knows so many routes of others."""
        does_know = self.ask("*", "know", count, MESH_LIMIT_S)
        assert all(does_know.values()), [name for name, knows in does_know.items() if not knows]

    def _heard(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def mesh(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    """Their keys and addresses, and the processes, without nodes yet; as many as the test says."""
    names = [f"n{number:02}" for number in range(request.param)]
    with short_folder() as folder:
        rings = {name: Keyring(folder / name) for name in names}
        holders = [Holder(name, ring.make_own()) for name, ring in rings.items()]
        for name, ring in rings.items():
            others = tuple(holder for holder in holders if holder.name != name)
            ring.change(lambda known, others=others: Ring((*known.lines, *others)))  # type: ignore[misc]
        ports: set[int] = set()
        while len(ports) < len(names):
            ports.add(free_port())
        addresses = {name: f"tcp://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
        (folder / "addresses").write_text(json.dumps(addresses))
        made = Mesh(folder, names)
        yield made
        made.process.communicate(timeout=LIMIT_S)  # all leave


def assert_all_know(looked: dict[str, dict[str, Any]], names: list[str]) -> None:
    """Each of these knows what all others of them offer, and of nobody else."""
    told = {name: one["offers"] for name, one in looked.items() if one["offers"] is not None}
    assert told == {name: {other: [f"{other}.route"] for other in names if other != name} for name in names}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mesh", [COUNT, pytest.param(COUNT_LONG, marks=LONG)], indirect=True)
def test_all_find_each_other_and_each_costs_what_is_stated(mesh: Mesh) -> None:
    """And then one leaves, comes back, and offers something more: each time all come to know it."""
    count, watch = len(mesh.names), Stopwatch()
    mesh.ask("*", "start")
    mesh.until_known(count - 1)
    judge(f"{count} nodes become one mesh", watch.taken_s, MESH_S_MAX)
    assert_all_know(mesh.look(), mesh.names)
    before = mesh.until_settled(dict.fromkeys(mesh.names, FDS_A_NODE + FDS_A_PEER * (count - 1)))
    for one in before.values():
        assert one["threads"] <= THREADS_A_NODE
    gone = mesh.names[5]
    mesh.ask(gone, "stop")
    others = [name for name in mesh.names if name != gone]
    mesh.until_known(count - 2)
    assert_all_know(mesh.look(), others)
    mesh.ask(gone, "start")
    mesh.until_known(count - 1)
    assert_all_know(mesh.look(), mesh.names)
    mesh.ask(gone, "offer", "later.route")
    for name in others:
        assert mesh.ask(name, "know", count, LIMIT_S)[name], name
    for name, after in mesh.until_settled({name: one["fds"] + FDS_A_PEER for name, one in before.items()}).items():
        assert after["threads"] <= before[name]["threads"]
