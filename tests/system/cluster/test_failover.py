"""Failover: whatever becomes of the primary node, the secondary becomes primary, and never are both.

The trace tells the order of what both did. `scripts/long` judges the stated times.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from appbackplane.supervisor.cluster.record import TAKEN_OVER
from appbackplane.transport import BackplaneError
from appbackplane.transport.errors import PeerDown
from tests.figures import judge
from tests.waiting import wait_until

from ..conftest import LIMIT_S, command
from .conftest import TTL_S, Cluster, assert_one_primary, gap_s

#: The lease, a look and the swap; and for the hooks, the mesh and this machine as much again as a lease.
TAKEN_OVER_S = TTL_S * TAKEN_OVER / 10
LATE_S = 2.0
#: Of who orders, behind each answer: four who never pause take the CPU from the nodes, whose lease runs.
PAUSE_S = 0.002


class Load:
    """Somebody on another node who orders and orders."""

    def __init__(self, cluster: Cluster) -> None:
        self.answered: list[tuple[int, str]] = []
        self.failed: list[BackplaneError] = []
        self._cluster, self._is_over = cluster, threading.Event()

    def run(self) -> None:
        """Until it is over."""
        number = 0
        with self._cluster.systems["c"].connect() as client:
            while not self._is_over.is_set():
                number += 1
                try:
                    node, _ = client.call("orders.place", number=number, timeout=LIMIT_S, retry=False)
                    self.answered.append((number, str(node)))
                    self._is_over.wait(PAUSE_S)
                except BackplaneError as error:
                    self.failed.append(error)
                    self._is_over.wait(0.01)

    def stop(self) -> None:
        self._is_over.set()


@contextmanager
def load_on(cluster: Cluster) -> Iterator[Load]:
    """Four of them."""
    load = Load(cluster)
    threads = [threading.Thread(target=load.run) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.stop()
        for thread in threads:
            thread.join(2 * LIMIT_S)  # and not before the deadline of a call that nobody answers


def seen(load: Load, count: int = 100) -> None:
    """Until so many more have been answered."""
    many = len(load.answered) + count
    wait_until(lambda: len(load.answered) >= many, lambda: load.failed[-1:])


def assert_failed_well(load: Load, cluster: Cluster, *kinds: str) -> None:
    """Callers were told what they can do something about."""
    others = {repr(error) for error in load.failed if type(error).__name__ not in kinds}
    assert not others, (others, cluster.said())


def test_who_is_primary_is_shown(cluster: Cluster) -> None:
    """With its epoch, on each node; and what cannot be is said in a sentence."""
    primary, secondary = cluster.roles()
    first, second = cluster.systems[primary], cluster.systems[secondary]
    lease = f"its lease has epoch {cluster.epoch()}, since "
    assert f"cluster 'orders': this node, {primary!r}, is primary; {lease}" in first.command("status").stdout
    for verb in ("status", "peers"):
        said = f"cluster 'orders': this node, {secondary!r}, is secondary; {primary!r} is primary; {lease}"
        assert said in second.command(verb).stdout
    refused = [
        (second.command("move", "primary", "--node", "cc"), "no node 'cc' is known here (did you mean 'c'?)"),
        (second.command("move", "primary", "orders"), "cannot be primary: this node is secondary in its cluster"),
        (cluster.systems["c"].command("move", "primary", "--node", "b"), "system 'c' is in no cluster"),
    ]
    for told, because in refused:
        assert told.returncode == 1 and because in told.stderr, told.stderr
    twin = cluster.folder / "twin.toml"
    twin.write_text(first.toml.read_text().replace(f'name = "{primary}"', 'name = "twin"', 1))
    told = command(cluster.folder, "up", str(twin))
    elsewhere = cluster.folder / "elsewhere.toml"
    elsewhere.write_text(twin.read_text().replace('lease = "file:', 'lease = "file:/nowhere'))
    for verb in ("up", "check"):
        missing = command(cluster.folder, verb, str(elsewhere))
        assert missing.returncode == 1 and "appbackplane: cluster.lease: folder /nowhere" in missing.stderr, (
            missing.stderr
        )
    assert told.returncode == 1 and f"calls itself {primary!r}, too, and is primary" in told.stderr, told.stderr


def test_the_primary_is_moved_in_order(cluster: Cluster) -> None:
    """By whichever node is asked. What has begun is finished, what has not may be asked again, and nobody waits long."""
    primary, secondary = cluster.roles()
    before = cluster.epoch()
    with load_on(cluster) as load:
        seen(load)
        told = cluster.systems[primary].command("move", "primary", "--node", secondary)
        said = f"node {secondary!r} is primary of cluster 'orders', epoch {before + 1}\n"
        assert (told.returncode, told.stdout) == (0, said), told.stderr
        cluster.wait_served(secondary)
        assert cluster.systems[primary].command("move", "primary").returncode == 0
        cluster.wait_served(primary)
        assert cluster.systems[primary].command("move", "secondary").returncode == 0
        cluster.wait_served(secondary)
        assert cluster.systems[primary].command("move", "primary").returncode == 0
        cluster.wait_served(primary)
        seen(load)
    trace = cluster.trace()
    assert_one_primary(trace)
    gaps_s = [gap_s(trace, before + count) for count in (1, 2, 3, 4)]
    judge("a primary is moved, without waiting for a lease to run out", max(gaps_s), TTL_S)
    done = Counter(line.what for line in trace)
    assert all(done[f"order-{number}"] for number, _ in load.answered)
    assert_failed_well(load, cluster, "Unavailable")


def test_a_primary_that_goes_down_gives_the_lease_back(cluster: Cluster) -> None:
    """Nobody waits for it to run out."""
    primary, secondary = cluster.roles()
    assert cluster.systems[primary].command("down").returncode == 0
    cluster.systems[primary].wait_down()
    cluster.wait_served(secondary)
    trace = cluster.trace()
    assert_one_primary(trace)
    judge("a primary goes down, and its lease does not have to run out", gap_s(trace, trace[-1].epoch), TTL_S)
    cluster.restart(primary)


def test_a_primary_that_cannot_reach_the_store_is_secondary_before_the_other_is_primary(cluster: Cluster) -> None:
    """Under load. All that it was is gone by then; when the store is back it is a secondary, and serves as one."""
    primary, secondary = cluster.roles()
    first, since = cluster.systems[primary], len(cluster.systems[primary].said)
    with load_on(cluster) as load:
        seen(load)
        cluster.cut(primary)
        first.wait_for("this node is to be secondary", since)
        first.wait_for("this node is secondary", since)
        cluster.wait_served(secondary)
        cluster.mend(primary)
        first.wait_for("its store answers again", since)
        cluster.wait_served(secondary, asked=primary)
    trace = cluster.trace()
    assert_one_primary(trace)
    judge("a primary without a store is replaced", gap_s(trace, trace[-1].epoch), TAKEN_OVER_S + LATE_S)
    assert_failed_well(load, cluster, "Unavailable", "PeerDown")
    assert cluster.roles() == (secondary, primary)


@pytest.mark.parametrize("stopped", ["all of it", "its supervisor"])
def test_a_primary_node_that_is_stopped_is_dead_before_the_other_is_primary(cluster: Cluster, stopped: str) -> None:
    """As when its machine sleeps, or a supervisor hangs: the kernel ends it before its lease is over."""
    primary, secondary = cluster.roles()
    processes, supervisor = cluster.processes(primary), cluster.systems[primary].process
    with cluster.systems["c"].connect() as caller:
        toil = caller.submit("orders.toil", timeout=LIMIT_S)  # what asks nobody, and would finish in its own time
        caller.flush()
        wait_until(lambda: cluster.trace()[-1].what == "toil")
        for process in processes if stopped == "all of it" else processes[:1]:
            process.suspend()
        assert supervisor.wait(LIMIT_S) == -signal.SIGKILL, "it was stopped: nobody but the kernel can have ended it"
        cluster.wait_served(secondary)
        assert isinstance(toil.exception(), PeerDown)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    psutil.wait_procs(processes, LIMIT_S)  # what is left of them may do something in its last moments
    trace = cluster.trace()
    assert_one_primary(trace)
    judge("a primary that is stopped is replaced", gap_s(trace, trace[-1].epoch), TAKEN_OVER_S + LATE_S)
    cluster.restart(primary)


def test_a_primary_node_that_is_killed_under_load(cluster: Cluster) -> None:
    """All of it at once, as when its machine dies: the other becomes primary, and serves the same callers."""
    primary, secondary = cluster.roles()
    with load_on(cluster) as load:
        seen(load)
        cluster.signal(primary, signal.SIGKILL)
        cluster.wait_served(secondary)
        seen(load)
    trace = cluster.trace()
    assert_one_primary(trace)
    judge("a primary that is killed is replaced", gap_s(trace, trace[-1].epoch), TAKEN_OVER_S + LATE_S)
    assert_failed_well(load, cluster, "Unavailable", "PeerDown")
    cluster.restart(primary)
