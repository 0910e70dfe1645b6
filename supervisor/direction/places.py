"""Places: builds the routing table from the phases of all backplanes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport import directory
from appbackplane.transport.directory import Directory

from . import standing_by
from .child.child import Child
from .child.process import Phase
from .group_restart import registrations
from .replicas import unready

#: Phases in which a backplane still replies, but accepts no new requests.
_LEAVING = (Phase.DRAINING, Phase.STOPPING)


def directory_of(
    system: str,
    version: int,
    children: Mapping[str, Child],
    node: str = "",
    ceiling: ModuleState = ModuleState.PRIMARY,
    node_name: str = "",
) -> Directory:
    """The routing table: all backplanes that have ever registered, and the names of the others.

    `node`: the backplane that connects to other nodes. `ceiling`: the highest state allowed on this node.
    `node_name`: of this node among the others.
    """
    down = {name for name, child in children.items() if child.process.phase not in (Phase.UP, *_LEAVING)}
    draining = {name for name, child in children.items() if child.process.phase in _LEAVING}
    cgroups = {name: child.process.cgroup for name, child in children.items()}
    known = standing_by.offered(registrations(children), children, ceiling)
    missing = [name for name, child in children.items() if child.components.registration is None]
    finished = [name for name in down if children[name].drain.has_finished]
    return directory.build(
        system, version, known, down, cgroups, draining, unready(children), node, missing, finished, node_name
    )
