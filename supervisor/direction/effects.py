"""Effects: everything that the director can ask for, as frozen data; `run.py` carries them out."""

from __future__ import annotations

from typing import Any

import msgspec

from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import BackplaneError


class Caller(msgspec.Struct, frozen=True):
    """A caller that awaits a reply: a peer of the control socket and the id of its call."""

    peer: bytes
    id: int


class ProcessEffect(msgspec.Struct, frozen=True):
    """Something to do to one process of a backplane."""

    backplane: str
    generation: int


class Spawn(ProcessEffect, frozen=True):
    """Start the process of this generation; answered by Spawned or SpawnFailed."""


class Move(ProcessEffect, frozen=True):
    """Call `control.move`; answered by Moved or MoveFailed within the limit, whatever the process does.

    On the way up the limit is far off (`movement.LATE_LIMIT_NS`): a hook may end after its time limit, and that still counts.
    """

    component: str
    state: str
    limit_ns: int
    #: The cluster's epoch while this node is primary; 0: it is not primary, or there is no cluster.
    epoch: int = 0


class Drain(ProcessEffect, frozen=True):
    """Call `control.drain`; answered by Drained in any case, with an error if the call failed."""

    #: How long it works on its requests. Then those not begun are refused, and those begun get `stop_limit_ns` to end.
    limit_ns: int
    stop_limit_ns: int
    #: The reason for refused callers.
    because: str


class Stop(ProcessEffect, frozen=True):
    """Cast `control.stop`: its components are down, and it is to exit."""


class Kill(ProcessEffect, frozen=True):
    """Send SIGKILL to the process group. Its death is reported by Exited, like any other."""


class TakeStacks(ProcessEffect, frozen=True):
    """Make it write the stacks of all its threads to its standard error; Wrote reports each batch of lines."""

    #: Its sentinel does not react, so a signal handler has to write them, which may crash it.
    by_force: bool


class ClearSlot(msgspec.Struct, frozen=True):
    """Clear the shared-memory board's slot of a dead process."""

    backplane: str


class SendDirectory(msgspec.Struct, frozen=True):
    """Send a new version of the routing table to every backplane that is up and to every client that asked for it."""

    directory: Directory


class Accept(msgspec.Struct, frozen=True):
    """Confirm a registration to the backplane; its CPU limit holds from now on, and it learns who enforces it."""

    caller: Caller
    backplane: str


class ReplyToCaller(msgspec.Struct, frozen=True):
    """Reply to a caller that its order is done."""

    caller: Caller
    result: dict[str, Any]


class Refuse(msgspec.Struct, frozen=True):
    """Reply to a caller with an error."""

    caller: Caller
    error: BackplaneError


class Say(msgspec.Struct, frozen=True):
    """Log a line, as INFO or ERROR."""

    text: str
    is_error: bool = False


class AnnounceUp(msgspec.Struct, frozen=True):
    """Announce that all components have reached their targets, except for `problems`: failed hooks and waiting dependents."""

    problems: tuple[str, ...] = ()


class End(msgspec.Struct, frozen=True):
    """Leave the event loop with this exit code: no process is left."""

    exit_code: int
    reason: str


Effect = ProcessEffect | ClearSlot | SendDirectory | Accept | ReplyToCaller | Refuse | Say | AnnounceUp | End
