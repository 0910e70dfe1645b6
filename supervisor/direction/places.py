"""Places: the directory, as it follows from where the processes of all backplanes are. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport import directory
from appbackplane.transport.directory import Directory

from . import standing_by
from .child import Child, Phase
from .group_restart import registrations
from .replicas import unready

#: They answer, and take nothing new.
_LEAVING = (Phase.DRAINING, Phase.STOPPING)


def directory_of(
    system: str, version: int, children: Mapping[str, Child], node: str = "", ceiling: ModuleState = ModuleState.PRIMARY
) -> Directory:
    """The map of all who have ever registered, and the names of the others.

    `node`: who carries what is for other nodes. `ceiling`: above it nobody is.
    """
    down = {name for name, child in children.items() if child.phase not in (Phase.UP, *_LEAVING)}
    draining = {name for name, child in children.items() if child.phase in _LEAVING}
    cgroups = {name: child.cgroup for name, child in children.items()}
    known = standing_by.offered(registrations(children), children, ceiling)
    missing = [name for name, child in children.items() if child.registration is None]
    finished = [name for name in down if children[name].has_finished]
    return directory.build(system, version, known, down, cgroups, draining, unready(children), node, missing, finished)
