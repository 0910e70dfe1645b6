"""Nodes of one cluster, on this host, and one that is none of it: whom they serve. Each has keys and a run directory.

What is primary writes down who it is, in one file for all: the trace. Appends are in one order, whoever makes them.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from appbackplane.transport import BackplaneError
from tests.waiting import EVERY_S, Limit

from ..conftest import LIMIT_S, System, Up, ask_until, short_folder, systems_in
from ..peers.conftest import address, free_port, introduce

#: Of the lease. A primary steps down when half of it has passed since its last renewal was requested: with 2 s, where the disk
#: takes 0.6 s to sync one, as it may while other tests write.
TTL_S = 4.0
NODE = """
[node]
name = "{name}"
listen = "{listen}"
keys = "keys-{name}"
[peers]
{peers}
"""
CLUSTER = """
[cluster]
name = "orders"
lease = "file:{store}"
ttl = "{ttl}s"
[backplane.orders]
components = ["orders:Orders"]
only_on = "primary"
[backplane.orders.settings.Orders]
node = "{name}"
[backplane.front]
components = ["orders:Front"]
"""
OUTSIDE = """
[backplane.front]
components = ["orders:Front"]
"""


class Line(NamedTuple):
    """Of the trace."""

    boot_ns: int
    node: str
    epoch: int
    pid: int
    what: str


class Cluster:
    """`a` and `b`, and `c`, which is not of it."""

    def __init__(self, folder: Path, begin: Up) -> None:
        self.folder, self._begin = folder, begin
        self.systems: dict[str, System] = {}
        self._listen = {name: ("127.0.0.1", free_port()) for name in "abc"}
        shutil.copy(Path(__file__).with_name("orders.py"), folder)
        introduce(folder, "abc")
        (folder / "store").mkdir(mode=0o700)
        self.stores = {name: self.folder / f"store-{name}" for name in "ab"}
        for name in self.stores:
            self.mend(name)

    def start(self, name: str) -> System:
        """A system; does not wait for anything."""
        peers = "\n".join(f'"{address(at)}" = "{each}"' for each, at in self._listen.items() if each != name)
        toml = NODE.format(name=name, listen=address(self._listen[name]), peers=peers)
        if name in self.stores:
            toml += CLUSTER.format(name=name, store=self.stores[name], ttl=TTL_S)
        else:
            toml += OUTSIDE
        self.systems[name] = self._begin(toml, name)
        return self.systems[name]

    def start_all(self) -> None:
        """One of the two is primary; all have met."""
        for name in "abc":
            self.start(name)
        for system in self.systems.values():
            system.wait_up()
        primary, secondary = self.roles()
        self.wait_served(primary)
        self.wait_served(primary, asked=secondary)

    def roles(self) -> tuple[str, str]:
        """(the primary, the secondary), once it is known."""
        with self.systems["a"].connect() as client:
            told = ask_until(client, "supervisor.status", lambda told: told["cluster"]["primary"])
        primary = told["cluster"]["primary"]
        return primary, "b" if primary == "a" else "a"

    def restart(self, name: str) -> None:
        """A node that has ended comes back, and is secondary."""
        self.start(name).wait_up()
        primary, secondary = self.roles()
        assert secondary == name
        self.wait_served(primary, asked=name)

    def epoch(self) -> int:
        """The last of the trace."""
        return self.trace()[-1].epoch

    def cut(self, name: str) -> None:
        """From now on its way to the store leads nowhere."""
        self.stores[name].unlink()

    def mend(self, name: str) -> None:
        """It leads there again."""
        self.stores[name].symlink_to(self.folder / "store")

    def wait_served(self, by: str, asked: str = "c") -> None:
        """Until what only the primary serves is answered by it, asked by another node."""
        limit = Limit()
        with self.systems[asked].connect() as client:
            while True:
                try:
                    answer = client.call("orders.place", number=-1, timeout=LIMIT_S, retry=False)
                    if answer[0] == by:
                        return
                except BackplaneError as error:
                    answer = error
                limit.check((answer, self.said()), pause_s=EVERY_S)

    def said(self) -> dict[str, list[str]]:
        """By all of them, of late."""
        return {name: system.said[-40:] for name, system in self.systems.items()}

    def trace(self) -> list[Line]:
        """All that was written so far."""
        lines = (self.folder / "trace").read_text().splitlines()
        found = (line.split() for line in lines)
        return [Line(int(boot_ns), node, int(epoch), int(pid), what) for boot_ns, node, epoch, pid, what in found]

    def processes(self, name: str) -> list[psutil.Process]:
        """All of a node, its guardian included."""
        process = psutil.Process(self.systems[name].pid)
        return [process, *process.children(recursive=True)]

    def signal(self, name: str, number: int) -> list[psutil.Process]:
        """To all of a node."""
        processes = self.processes(name)
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # it dies with the one before
                process.send_signal(number)
        return processes


def assert_one_primary(trace: list[Line]) -> None:
    """At every instant: each epoch is one process's, and nobody of an older one does anything once a newer has begun."""
    for before, after in pairwise(trace):
        assert after.epoch >= before.epoch, f"{after} after {before}"
    for epoch in {line.epoch for line in trace}:
        assert len({line.node for line in trace if line.epoch == epoch}) == 1, epoch
    assert 0 not in {line.epoch for line in trace}


def gap_s(trace: list[Line], epoch: int) -> float:
    """From the last thing that the primary before did, to the first of this one."""
    before = max(line.boot_ns for line in trace if line.epoch < epoch)
    return (min(line.boot_ns for line in trace if line.epoch == epoch) - before) / 1e9


@pytest.fixture(scope="module")
def cluster(_no_ignored_interrupt: None) -> Iterator[Cluster]:
    """One for all tests: each leaves one primary, one secondary, and who asks."""
    with short_folder() as folder, systems_in(folder) as begin:
        cluster = Cluster(folder, begin)
        try:
            cluster.start_all()
            yield cluster
        finally:
            for system in cluster.systems.values():  # whoever is stopped could not go down
                if system.process.poll() is None:
                    os.killpg(system.pid, signal.SIGCONT)
