"""Events: everything that can happen to a system, as input of the director.

Frozen facts. Each event of a process names its generation, so one about a dead process is never attributed to its successor.
The source (a pidfd, the control socket, a signal) reports only observations, no conclusions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import Registration

from ..configuration.config import Config
from .effects import Caller
from .reconfiguration import Plan

if TYPE_CHECKING:
    from appbackplane.runtime.execution.urgency.board import BoardSlot


class ProcessEvent(msgspec.Struct, frozen=True):
    """What has happened to one process of a backplane."""

    backplane: str
    generation: int


class UpOrdered(msgspec.Struct, frozen=True):
    """Bring the system up. The first event, and given once."""


class DownOrdered(msgspec.Struct, frozen=True):
    """Take everything down in order: a signal, or `appbackplane down`. `is_final` (ordered again): kill at once."""

    because: str
    is_final: bool = False


class Spawned(ProcessEvent, frozen=True):
    """The process exists, but has not registered yet."""

    pid: int
    #: The folder of its own cgroup.
    cgroup: str | None = None


class SpawnFailed(ProcessEvent, frozen=True):
    """The process could not be created: no memory, no descriptors, no interpreter."""

    reason: str


class Placed(ProcessEvent, frozen=True):
    """A running process was moved to a cgroup of its own, because it was given a limit."""

    cgroup: str


class Registered(msgspec.Struct, frozen=True):
    """A backplane has constructed its components and listens."""

    registration: Registration
    caller: Caller


class Moved(ProcessEvent, frozen=True):
    """A component's hook has finished: it is in `state` now."""

    component: str
    state: str


class MoveFailed(ProcessEvent, frozen=True):
    """A component's hook raised, or did not finish in time."""

    component: str
    state: str
    reason: str


class MoveOrdered(msgspec.Struct, frozen=True):
    """A client orders a component, or all of a backplane, with their dependents, into another state.

    `name`: of the component or of the backplane; None: the whole system.
    """

    caller: Caller
    to: ModuleState
    name: str | None
    #: How long the caller waits. The order itself stays in force after that.
    limit_ns: int


class Granted(msgspec.Struct, frozen=True):
    """This node has become the primary of its cluster."""

    epoch: int


class Withdrawn(msgspec.Struct, frozen=True):
    """This node must stop being primary: its components become secondary, or their processes are replaced."""

    because: str
    #: Backplanes that are still primary then are killed; None: they may take the time they need.
    gone_by_ns: int | None


class RestartOrdered(msgspec.Struct, frozen=True):
    """A client orders backplanes restarted, one after the other; `is_now`: killed, and not drained."""

    caller: Caller
    backplanes: tuple[str, ...]
    #: How long the caller waits. A restart that has begun by then goes on.
    limit_ns: int
    is_now: bool = False
    #: Restart each replica only while the others serve (rolling.py); `is_forced`: also a backplane without replicas.
    is_rolling: bool = False
    is_forced: bool = False


class Drained(ProcessEvent, frozen=True):
    """A backplane has finished draining, or did not reply to `control.drain` (`error`)."""

    #: Requests refused because they had not begun within the time limit.
    refused_count: int = 0
    #: Requests that had begun but did not end within the time limit.
    running: tuple[str, ...] = ()
    #: Callers that have not read their replies.
    unread_count: int = 0
    #: Why the result of draining is unknown; "": it is known.
    error: str = ""


class LinkLost(ProcessEvent, frozen=True):
    """The control connection of a process is lost: it may live, but can no longer receive orders."""


class Exited(ProcessEvent, frozen=True):
    """The process and its whole group have ended. `code` below 0 is a signal, as in `subprocess`."""

    code: int
    #: The last line that it wrote; after an exception, the reason.
    last_words: str = ""
    #: Whether the kernel killed it for its memory.
    is_out_of_memory: bool = False

    @property
    def obituary(self) -> str:
        """The cause of death in a few words, for logs and `status`."""
        how = f"killed by signal {-self.code}" if self.code < 0 else f"exited with {self.code}"
        if self.is_out_of_memory:
            how = f"out of memory: killed by the kernel (signal {-self.code})"
        return f"{how}: {self.last_words}" if self.last_words and self.code != 0 else how


class Reconfigured(msgspec.Struct, frozen=True):
    """The configuration changes from `old` to `new` by `plan`, which was checked to be possible."""

    old: Config
    new: Config
    plan: Plan


class Sight(msgspec.Struct, frozen=True):
    """One backplane at one scan of the board."""

    #: Its slot of the shared-memory board; None: it has not written one.
    slot: BoardSlot | None
    #: The CPU limit that the kernel enforces, in percent of a core; None: no such limit.
    limit_percent: int | None = None
    #: The kernel's state of its process. Only looked up for suspects (`HealthWatch.suspects`).
    is_stopped: bool = False
    is_traced: bool = False


class Looked(msgspec.Struct, frozen=True):
    """The board was scanned; `sights` by backplane, for those whose processes live."""

    sights: Mapping[str, Sight]


class Wrote(ProcessEvent, frozen=True):
    """A backplane whose stacks are awaited has written to its standard error."""


class TimePassed(msgspec.Struct, frozen=True):
    """The time that the director asked for (`wakes_at_ns`) has come."""


Ordered = UpOrdered | DownOrdered | MoveOrdered | RestartOrdered
Event = ProcessEvent | Ordered | Registered | Granted | Withdrawn | Reconfigured | Looked | TimePassed
