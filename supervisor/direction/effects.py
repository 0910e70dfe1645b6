"""Effects: everything that the director can ask for, as frozen data; `run.py` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import BackplaneError


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller that awaits a reply: a peer of the control socket and the id of its call."""

    peer: bytes
    id: int


@dataclass(frozen=True, slots=True)
class ProcessEffect:
    """Something to do to one process of a backplane."""

    backplane: str
    generation: int


@dataclass(frozen=True, slots=True)
class Spawn(ProcessEffect):
    """Start the process of this generation; answered by Spawned or SpawnFailed."""


@dataclass(frozen=True, slots=True)
class Move(ProcessEffect):
    """Call `control.move`; answered by Moved or MoveFailed within the limit, whatever the process does.

    On the way up the limit is far off (`movement.LATE_LIMIT_NS`): a hook may end after its time limit, and that still counts.
    """

    component: str
    state: str
    limit_ns: int
    #: The cluster's epoch while this node is primary; 0: it is not primary, or there is no cluster.
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Drain(ProcessEffect):
    """Call `control.drain`; answered by Drained in any case, with an error if the call failed."""

    #: How long it works on its requests. Then those not begun are refused, and those begun get `stop_limit_ns` to end.
    limit_ns: int
    stop_limit_ns: int
    #: The reason for refused callers.
    because: str


@dataclass(frozen=True, slots=True)
class Stop(ProcessEffect):
    """Cast `control.stop`: its components are down, and it is to exit."""


@dataclass(frozen=True, slots=True)
class Kill(ProcessEffect):
    """Send SIGKILL to the process group. Its death is reported by Exited, like any other."""


@dataclass(frozen=True, slots=True)
class TakeStacks(ProcessEffect):
    """Make it write the stacks of all its threads to its standard error; Wrote reports each batch of lines."""

    #: Its sentinel does not react, so a signal handler has to write them, which may crash it.
    by_force: bool


@dataclass(frozen=True, slots=True)
class ClearSlot:
    """Clear the shared-memory board's slot of a dead process."""

    backplane: str


@dataclass(frozen=True, slots=True)
class SendDirectory:
    """Send a new version of the routing table to every backplane that is up and to every client that asked for it."""

    directory: Directory


@dataclass(frozen=True, slots=True)
class Accept:
    """Confirm a registration to the backplane; its CPU limit holds from now on, and it learns who enforces it."""

    caller: Caller
    backplane: str


@dataclass(frozen=True, slots=True)
class ReplyToCaller:
    """Reply to a caller that its order is done."""

    caller: Caller
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Reply to a caller with an error."""

    caller: Caller
    error: BackplaneError


@dataclass(frozen=True, slots=True)
class Say:
    """Log a line, as INFO or ERROR."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class AnnounceUp:
    """Announce that all components have reached their targets, except for `problems`: failed hooks and waiting dependents."""

    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """Leave the event loop with this exit code: no process is left."""

    exit_code: int
    reason: str


Effect = ProcessEffect | ClearSlot | SendDirectory | Accept | ReplyToCaller | Refuse | Say | AnnounceUp | End
