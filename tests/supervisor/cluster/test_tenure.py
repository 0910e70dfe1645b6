"""Tenure: what becomes of the lease where the node is not as it should be, and at the end. Its store gives it at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.supervisor.cluster.file_store import FileStore
from appbackplane.supervisor.cluster.record import LeaseRecord
from appbackplane.supervisor.cluster.tenure import Tenure
from appbackplane.supervisor.configuration.cluster_settings import ClusterSettings
from appbackplane.supervisor.configuration.config import Duration
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.supervisor.direction.events import Event
from appbackplane.supervisor.poller import Poller

from ..world import World, up_world

#: So long that no test waits for it, nor is ended by the kernel, however slow this machine is.
TTL_NS = 3_600_000_000_000
TURNS_MAX = 100


class Node:
    """One that is up, in a cluster whose lease was given back."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        store = FileStore(str(folder), "c")
        store.swap("0", LeaseRecord(epoch=3, holder="", ttl_ns=TTL_NS))
        store.close()
        self.fds = set(os.listdir("/proc/self/fd"))
        self.world: World = up_world({"first": {"base": ()}, "third": {"orders": ()}}, primary_only=("third",))
        self.said: list[str] = []
        settings = ClusterSettings("c", f"file:{folder}", Duration(TTL_NS))
        self.tenure = Tenure(
            settings, "a", self.world.director, self.take, lambda text, level="": self.said.append(text)
        )
        self._poller = Poller()
        self.tenure.watch(self._poller)

    def take(self, event: Event) -> None:
        self.world.tell(event)
        self.world.do_what_is_asked()

    def turn_until_primary(self) -> None:
        """As often as the store answers."""
        for _ in range(TURNS_MAX):
            self.tenure.turn()
            if self.tenure.describe()["role"] == "primary":
                return
            now_ns = RealClock.now_ns()
            self._poller.wait(self.tenure.next_wake_ns(now_ns), now_ns, lambda: True)
        raise AssertionError(self.tenure.describe())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.tenure.close()


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.ENDED])
def test_a_primary_whose_components_fail_keeps_the_lease(node: Node, phase: Phase) -> None:
    """Another node might fail at it as well, and then nobody would be; one that has done its work goes on being primary."""
    node.turn_until_primary()
    node.world.director.children["third"].process.enter(phase, 0)
    node.tenure.turn()
    assert node.tenure.describe()["role"] == "primary"


def test_nothing_is_left_at_the_end_but_a_lease_that_was_given_back(tmp_path: Path) -> None:
    """No thread, and no descriptor."""
    node = Node(tmp_path)
    node.turn_until_primary()
    node.world.order_down()
    node.world.do_what_is_asked()
    node.tenure.close()
    assert node.said[-1] == "the lease was given back"
    assert not any(thread.name == "lease" for thread in threading.enumerate())
    assert {fd for fd in os.listdir("/proc/self/fd") if int(fd) > 2} <= node.fds
    store = FileStore(str(tmp_path), "c")
    record = store.look().record
    store.close()
    assert record is not None and (record.holder, record.epoch) == ("", 4)
