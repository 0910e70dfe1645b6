"""Some nodes of a mesh in one process, for tests of meshes with more nodes than a machine bears whole systems of.

A node is here what a node is everywhere towards others: an `Endpoint` with its thread, real sockets, keys and membership; but
its system is only told to it: what it offers is said by hand, and nobody calls. `python -m tests.system.peers.mesh FOLDER SEED`
takes words by lines: `start NAME…`, `stop NAME…`, `offer NAME ROUTE`, `look`, and answers each with one line of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from appbackplane.runtime.peers.endpoint import Endpoint
from appbackplane.transport.link import Link
from appbackplane.transport.peers.lines import Lines
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.view import Identity
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.session import ClientSession

#: Slower than on hosts of their own: 64 nodes beat 20,000 times a second by default, and each beat is sent and read; that takes
#: four cores, of which there are two here.
POLICY = MembershipPolicy(
    heartbeat_ns=1_000_000_000, suspect_ns=3_000_000_000, dead_ns=10_000_000_000, attempt_ns=5_000_000_000
)
#: As short as backplanes have it that are to answer at once.
SWITCH_S = 0.000_1
#: What leaving may take.
LEAVE_LIMIT_S = 10.0


class Node:
    """One of them, running."""

    def __init__(self, folder: Path, name: str, listen: str, seeds: dict[str, str]) -> None:
        """`seeds`: addresses, each with the key that is expected there."""
        keyring = Keyring(folder / name)
        keyring.refresh()
        lines = Lines(keyring, listen)
        me = Identity(name, time.time_ns(), lines.address, str(keyring.own().public))
        self.node = PeerNode(me, seeds, time.monotonic_ns(), random=random.random, policy=POLICY)
        self.node.export([f"{name}.route"], [])
        link = Link(f"mesh-{name}")
        session = ClientSession(link, folder / f"{name}-none")
        self.endpoint = Endpoint(
            self.node, lines, link, session, {}, now_ns=time.monotonic_ns, deliver=lambda answers: None,
            look_for=lambda callers: None, patterns=frozenset,
        )  # fmt: skip
        self.endpoint.start()

    def offers(self) -> dict[str, list[str]]:
        """Who is up here, and what each offers."""
        found = {}
        for _ in range(100):
            try:
                for name, (_, operations, _) in self.node.table.known().items():
                    found[name] = sorted(operations)
            except RuntimeError:  # its thread was just changing it
                found.clear()
            else:
                return found
        raise AssertionError("its routes change all the time")


class Mesh:
    """Those of this process."""

    def __init__(self, folder: Path, seed: str) -> None:
        """`seed`: the node that all others know from the start, by its name."""
        self.folder, self.seed = folder, seed
        self.nodes: dict[str, Node] = {}

    def start(self, *names: str) -> None:
        """Nodes, each at its address."""
        addresses: dict[str, str] = json.loads((self.folder / "addresses").read_text())
        key = str(Keyring(self.folder / self.seed).own().public)
        for name in names:
            seeds = {} if name == self.seed else {addresses[self.seed]: key}
            self.nodes[name] = Node(self.folder, name, addresses[name], seeds)

    def stop(self, *names: str) -> None:
        """In order."""
        for name in names:
            self.nodes.pop(name).endpoint.stop(LEAVE_LIMIT_S)

    def offer(self, name: str, route: str) -> None:
        """It offers one thing more."""
        self.nodes[name].node.export([f"{name}.route", route], [])

    def look(self) -> dict[str, Any]:
        """What each of them knows, and what they cost together."""
        times = os.times()
        return {
            "offers": {name: node.offers() for name, node in self.nodes.items()},
            "threads": len(os.listdir("/proc/self/task")),
            "fds": len(os.listdir("/proc/self/fd")),
            "cpu_s": times.user + times.system,
        }


def main(folder: str, seed: str) -> None:
    """Serves words until there are no more."""
    logging.basicConfig(level=logging.ERROR)
    # Each call of ZeroMQ lets go of the interpreter, and with 5 ms each of 16 threads took a second for a turn of 1 ms.
    sys.setswitchinterval(SWITCH_S)
    mesh = Mesh(Path(folder), seed)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        word, *words = line.split()
        print(json.dumps(getattr(mesh, word)(*words)), flush=True)
    mesh.stop(*mesh.nodes)


if __name__ == "__main__":
    main(*sys.argv[1:])
