"""Cluster store: checks before a start that the store of [cluster] works, and that no other node has this one's name.

A restarted node finds its own name in the record, as it left it. Only then does the check wait, for two renewals, to see
whether another process renews the lease.
"""

from __future__ import annotations

import threading
from pathlib import Path

from appbackplane.transport.errors import FailedPrecondition

from ..cluster.opening import open_store
from ..cluster.record import LOOK, RENEW, tenths
from ..cluster.stores import StoreError
from ..configuration.config import Config
from ..processes.run_dir import running_pid


def check(config: Config, *, waits: bool = True) -> None:
    """Raises `FailedPrecondition`. `waits`: find out whether another node with this one's name is alive."""
    cluster, node = config.cluster, config.node
    if cluster is None or node is None:
        return
    store = open_store(cluster)
    try:
        first = store.look()
        record = first.record
        is_running = running_pid(Path(config.run_dir)) is not None  # this very system: reported elsewhere
        if record is None or record.holder != node.name or is_running or not waits:
            return
        threading.Event().wait(tenths(max(record.ttl_ns, cluster.ttl_ns), 2 * RENEW + LOOK) / 1e9)
        later = store.look().record
    except StoreError as error:
        raise FailedPrecondition(f"{config.file}: cluster.lease: {error}") from error
    finally:
        store.close()
    is_same = later is not None and (later.holder, later.instance) == (node.name, record.instance)
    if is_same and later is not None and later.beat != record.beat:
        what = f"another node of cluster {cluster.name!r} calls itself {node.name!r}, too, and is primary"
        raise FailedPrecondition(f"{config.file}: node.name: {what}: give each node its own name")
