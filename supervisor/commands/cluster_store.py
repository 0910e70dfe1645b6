"""Cluster store: whether the store of [cluster] can be used, and no other node bears this one's name, before anything starts.

A node that is started again finds its own name in the record, as its former self left it. Whether somebody else renews it
is seen by waiting for two renewals, and only then waited for.
"""

from __future__ import annotations

import threading
from pathlib import Path

from appbackplane.transport.errors import FailedPrecondition

from ..cluster.opening import open_store
from ..cluster.record import LOOK, RENEW, tenths
from ..cluster.stores import StoreError
from ..config import Config
from ..processes.run_dir import running_pid


def check(config: Config, *, waits: bool = True) -> None:
    """Raises `FailedPrecondition`. `waits`: see whether the node that has this one's name lives."""
    cluster, node = config.cluster, config.node
    if cluster is None or node is None:
        return
    store = open_store(cluster)
    try:
        first = store.look()
        record = first.record
        is_running = running_pid(Path(config.run_dir)) is not None  # this very system: it is for others to say so
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
        raise FailedPrecondition(f"{config.file}: node.name: {what}: each needs a name of its own")
