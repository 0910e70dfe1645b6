"""Events: everything that can happen to a system, as the director is told of it.

Facts, frozen; each that concerns a process names its generation, so that what is said about a dead one is never taken
for news of its successor. Whoever saw it (a pidfd, the control socket, a signal) says no more than it saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import Registration

from ..config import Config
from .effects import Caller
from .reconfiguration import Plan

if TYPE_CHECKING:
    from appbackplane.runtime.execution.board import BoardSlot


@dataclass(frozen=True, slots=True)
class UpOrdered:
    """Bring the system up. The first event, and given once."""


@dataclass(frozen=True, slots=True)
class DownOrdered:
    """Bring everything down in order: a signal, or `appbackplane down`. Again while going down: kill at once."""

    because: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Spawned:
    """The process is there; it has said nothing yet."""

    backplane: str
    generation: int
    pid: int
    #: The folder of its own cgroup.
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """There is no process: no memory, no descriptors, no interpreter."""

    backplane: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Placed:
    """It was moved to a cgroup of its own while it runs: it has been given a limit."""

    backplane: str
    generation: int
    cgroup: str


@dataclass(frozen=True, slots=True)
class Registered:
    """A backplane has constructed its components and listens."""

    registration: Registration
    caller: Caller


@dataclass(frozen=True, slots=True)
class Moved:
    """A component's hook has finished: it is in `state` now."""

    backplane: str
    generation: int
    component: str
    state: str


@dataclass(frozen=True, slots=True)
class MoveFailed:
    """A component's hook raised, or did not finish in time."""

    backplane: str
    generation: int
    component: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class MoveOrdered:
    """A client wants a component, and what depends on it, in another state; None: the whole system."""

    caller: Caller
    to: ModuleState
    component: str | None
    #: How long the caller waits. What was ordered holds beyond that.
    limit_ns: int


@dataclass(frozen=True, slots=True)
class Granted:
    """This node is the primary one of its cluster."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """It is not to be any more: its components are to be secondary, or not there at all."""

    because: str
    #: What is not by then is killed; None: all take the time they need.
    gone_by_ns: int | None


@dataclass(frozen=True, slots=True)
class RestartOrdered:
    """A client wants backplanes restarted, one after the other; `is_now`: killed, and not drained."""

    caller: Caller
    backplanes: tuple[str, ...]
    #: How long the caller waits. What has begun by then goes on.
    limit_ns: int
    is_now: bool = False
    #: Replicas, each when the others answer (rolling.py); `is_forced`: also what has none.
    is_rolling: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Drained:
    """A backplane has finished what it had, or refused what it could not begin; or it did not answer."""

    backplane: str
    generation: int
    #: What it had not begun when its time was over, and has refused.
    refused_count: int = 0
    #: What had begun, and has not ended in its time.
    running: tuple[str, ...] = ()
    #: Callers that have not taken their answers.
    unread_count: int = 0
    #: Why it does not know.
    error: str = ""


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The process may live, but its control link is gone: it can no longer be told anything."""

    backplane: str
    generation: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The process has ended, and all its group with it. `code` below 0 is a signal, as subprocess has it."""

    backplane: str
    generation: int
    code: int
    #: The last line it wrote: why, when it was an exception.
    last_words: str = ""
    #: Whether the kernel killed it for its memory.
    is_out_of_memory: bool = False

    @property
    def obituary(self) -> str:
        """How it ended, in a few words."""
        how = f"killed by signal {-self.code}" if self.code < 0 else f"exited with {self.code}"
        if self.is_out_of_memory:
            how = f"out of memory: killed by the kernel (signal {-self.code})"
        return f"{how}: {self.last_words}" if self.last_words and self.code != 0 else how


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """Another configuration holds from now on; `plan` leads there, and has been found to be possible."""

    old: Config
    new: Config
    plan: Plan


@dataclass(frozen=True, slots=True)
class Sight:
    """One backplane at one look."""

    #: What it says of itself; None: nothing.
    slot: BoardSlot | None
    #: The percentage of a core at which the kernel holds it; None: no such limit.
    limit_percent: int | None = None
    #: What the kernel says of its process. Looked up for those who are suspected only.
    is_stopped: bool = False
    is_traced: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """The board was looked at: backplane to what was seen there, of those whose processes live."""

    sights: Mapping[str, Sight]


@dataclass(frozen=True, slots=True)
class Wrote:
    """It has written to its standard error, where its stacks are awaited."""

    backplane: str
    generation: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The instant that the director asked for (`wakes_at_ns`) has come."""


Event = (
    UpOrdered
    | DownOrdered
    | Spawned
    | SpawnFailed
    | Placed
    | Registered
    | Moved
    | MoveFailed
    | MoveOrdered
    | Granted
    | Withdrawn
    | RestartOrdered
    | Drained
    | LinkLost
    | Exited
    | Reconfigured
    | Looked
    | Wrote
    | TimePassed
)
