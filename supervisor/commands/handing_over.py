"""Handing over: makes another node of the cluster primary, and waits until it is (`move primary --node NAME`).

Any system of the cluster can be asked; it writes the order into the record of the lease, where the primary reads it. So nodes
command each other through the store alone. A node that is unknown here would never take the lease: that is refused.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import click

from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import DeadlineExceeded, FailedPrecondition, NotFound

from .asking import SILENT_S, ask
from .peers import ROUTE, TIMEOUT_S

if TYPE_CHECKING:
    from appbackplane.transport.discovery import Location

#: Poll interval: a status costs a millisecond, and a drain takes longer.
_LOOK_S = 0.05


def hand_over(location: Location, node: str, timeout_s: float) -> dict[str, Any]:
    """Have `node` become primary; returns the cluster's status after that. Raises `BackplaneError`."""
    began_s, is_told = time.monotonic(), False
    cluster: dict[str, Any] = ask(location, "supervisor.status")["cluster"] or {}
    if not cluster:
        raise FailedPrecondition(f"system {location.system!r} is in no cluster: add a table [cluster] to its TOML")
    if cluster["primary"] != node:
        _check_known(location, node, cluster["node"])
        ask(location, "supervisor.hand_over", {"node": node})
    while True:
        cluster = ask(location, "supervisor.status")["cluster"]
        if cluster["primary"] == node and cluster["role"] == ("primary" if cluster["node"] == node else "secondary"):
            return cluster
        waited_s = time.monotonic() - began_s
        if waited_s > timeout_s:
            holder = f"node {cluster['primary']!r} is" if cluster["primary"] else "no node is"
            raise DeadlineExceeded(f"node {node!r} is not primary yet, {holder}; the order stays in force")
        if waited_s > SILENT_S and not is_told:
            is_told = True
            click.echo(f"waiting for node {node!r} to become primary", err=True)
        threading.Event().wait(_LOOK_S)


def _check_known(location: Location, node: str, own: str) -> None:
    """Raises `NotFound` for a node that this one has never met, `FailedPrecondition` for one that is not up."""
    from appbackplane.transport import connect

    if node == own:
        return
    with connect(location.run_dir) as client:
        found = client.call(ROUTE, timeout=TIMEOUT_S, retry=False)
    states = {one["name"]: one["state"] for one in found}
    if node not in states:
        like = nearest(node, states)
        raise NotFound(f"no node {node!r} is known here" + (f" (did you mean {like!r}?)" if like else ""))
    if states[node] != "up":
        raise FailedPrecondition(
            f"node {node!r} is {states[node]} (see `appbackplane peers`): the cluster would have no primary node"
        )
