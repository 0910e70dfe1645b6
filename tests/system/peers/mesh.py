"""The nodes of a mesh, a process each, for tests of meshes with more nodes than a machine bears whole systems of.

A node is here what a node is everywhere towards others: a process with an `NodeEndpoint` and its thread, real sockets, keys and
membership; but its system is only told to it: what it offers is said by hand, and nobody calls. `python -m
tests.system.peers.mesh FOLDER SEED NAME…` forks one for each name, so that what they import is there once, and takes words by
lines: `start`, `stop`, `offer ROUTE`, `know COUNT LIMIT_S`, `look`, each after the name that it is for, or `*`. It answers each
line with one of JSON: what each of them has said.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from appbackplane.runtime.peers.node_endpoint import NodeEndpoint
from appbackplane.transport.link import Link
from appbackplane.transport.peers.lines import Lines
from appbackplane.transport.peers.membership import Membership
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.view import Identity
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.session import ClientSession
from tests.transport.peers.network import exports_of
from tests.waiting import Limit

#: Slower than on hosts of their own: 64 nodes beat 20,000 times a second by default, and each beat is sent and read; that takes
#: four cores, of which there are two here. And no node is given up that only waits for a core: here all leave in order.
POLICY = MembershipPolicy(
    heartbeat_ns=1_000_000_000, suspect_ns=60_000_000_000, dead_ns=120_000_000_000, attempt_ns=30_000_000_000
)
#: What leaving may take.
LEAVE_LIMIT_S = 10.0
#: Between two looks at what is known.
LOOK_S = 0.05


class Node:
    """One of them, running."""

    def __init__(self, folder: Path, name: str, listen: str, seeds: dict[str, str]) -> None:
        """`seeds`: addresses, each with the key that is expected there."""
        keyring = Keyring(folder / name)
        keyring.refresh()
        lines = Lines(keyring, listen)
        me = Identity(name, time.time_ns(), lines.address, str(keyring.own().public))
        now_ns = time.monotonic_ns()
        membership = Membership(me, lambda: seeds, now_ns, random=random.random, unix_ns=time.time_ns, policy=POLICY)
        self.node = PeerNode(membership, now_ns)
        self.node.export([f"{name}.route"], [])
        link = Link(f"mesh-{name}")
        session = ClientSession(link, folder / f"{name}-none")
        self.endpoint = NodeEndpoint(
            self.node, lines, link, session, {}, now_ns=time.monotonic_ns, deliver=lambda answers: None,
            look_for=lambda peers: None, patterns=frozenset,
        )  # fmt: skip
        self.endpoint.start()

    def offers(self) -> dict[str, list[str]]:
        """Who is up here, and what each offers."""
        for _ in range(100):
            try:
                known = exports_of(self.node.table)
                return {name: sorted(operations) for name, (_, operations, _) in known.items()}
            except RuntimeError:  # its thread was just changing it
                continue
        raise AssertionError("its routes change all the time")


class Served:
    """One name, and the words that are for it."""

    def __init__(self, folder: Path, seed: str, name: str) -> None:
        """`seed`: the node that all others know from the start, by its name."""
        self.folder, self.seed, self.name = folder, seed, name
        self.running: Node | None = None

    def start(self) -> None:
        """At its address."""
        addresses: dict[str, str] = json.loads((self.folder / "addresses").read_text())
        key = str(Keyring(self.folder / self.seed).own().public)
        seeds = {} if self.name == self.seed else {addresses[self.seed]: key}
        self.running = Node(self.folder, self.name, addresses[self.name], seeds)

    def stop(self) -> None:
        """In order."""
        if self.running is not None:
            self.running.endpoint.stop(LEAVE_LIMIT_S)
            self.running = None

    def offer(self, route: str) -> None:
        """One thing more."""
        assert self.running is not None
        self.running.node.export([f"{self.name}.route", route], [])

    def know(self, count: str, limit_s: str) -> bool:
        """Whether it comes to know so many routes of others. It looks itself: to be asked costs it more."""
        limit = Limit(float(limit_s))
        while self.running is not None and len(self.running.node.table.routes()) != int(count):
            if not limit.left_s:
                return False
            threading.Event().wait(LOOK_S)
        return True

    def look(self) -> dict[str, Any]:
        """What it knows, and what it costs."""
        return {
            "offers": None if self.running is None else self.running.offers(),
            "threads": len(os.listdir("/proc/self/task")),
            "fds": len(os.listdir("/proc/self/fd")),
        }

    def serve(self, words: TextIO, answers: TextIO) -> None:
        """Until there are no more."""
        for line in words:
            word, *arguments = line.split()
            answers.write(json.dumps(getattr(self, word)(*arguments)) + "\n")
            answers.flush()
        self.stop()


class Child(NamedTuple):
    """A process, and the two ends of ours."""

    words: TextIO
    answers: TextIO


def forked(folder: Path, seed: str, name: str, others: Iterable[Child]) -> Child:
    """A process that serves. It has no end of the others', or their ends would not be known."""
    words_out, words_in = os.pipe()
    answers_out, answers_in = os.pipe()
    if os.fork() == 0:
        for end in (*(end for child in others for end in child), sys.stdin, sys.stdout):
            end.close()
        os.close(words_in)
        os.close(answers_out)
        code = 1
        try:
            Served(folder, seed, name).serve(open(words_out), open(answers_in, "w"))  # noqa: SIM115
            code = 0
        finally:
            os._exit(code)
    os.close(words_out)
    os.close(answers_in)
    return Child(open(words_in, "w"), open(answers_out))


def main(folder: str, seed: str, *names: str) -> None:
    """Hands words on, until there are no more."""
    logging.basicConfig(level=logging.ERROR)
    gc.freeze()
    children: dict[str, Child] = {}
    for name in names:
        children[name] = forked(Path(folder), seed, name, children.values())
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        whose, said = line.split(maxsplit=1)
        asked = {name: child for name, child in children.items() if whose in (name, "*")}
        for child in asked.values():
            child.words.write(said)
            child.words.flush()
        print(json.dumps({name: json.loads(child.answers.readline()) for name, child in asked.items()}), flush=True)
    for child in children.values():
        child.words.close()
    for _ in children:
        os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
