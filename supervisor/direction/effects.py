"""Effects: everything the director can ask for. Frozen words; `run.py` is the one that carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from appbackplane.transport.directory import Directory
from appbackplane.transport.errors import BackplaneError


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for an answer: a peer of the control socket and the number of its call."""

    peer: bytes
    id: int


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start the process of this generation; answered by Spawned or SpawnFailed."""

    backplane: str
    generation: int


@dataclass(frozen=True, slots=True)
class Move:
    """Call `control.move`; answered by Moved or MoveFailed within the limit, whatever the process does.

    A hook on its way up may end when its time is long over: the director counts that, so the limit here is far off.
    """

    backplane: str
    generation: int
    component: str
    state: str
    limit_ns: int
    #: Of the cluster, while this node is primary; 0: it is not, or there is none.
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """Call `control.drain`; answered by Drained, whatever becomes of it."""

    backplane: str
    generation: int
    #: How long it works off what it has; then what has not begun is refused, and what has gets `stop_limit_ns` to end.
    limit_ns: int
    stop_limit_ns: int
    #: What those are told who are refused.
    because: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Cast `control.stop`: its components are down, it may go."""

    backplane: str
    generation: int


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to the process group. Its death is seen as any other."""

    backplane: str
    generation: int


@dataclass(frozen=True, slots=True)
class TakeStacks:
    """Have it write the stacks of all its threads to its standard error; each batch of lines is told by Wrote."""

    backplane: str
    generation: int
    #: Its sentinel does not answer, so that it has to be done behind its back, and may crash it.
    by_force: bool


@dataclass(frozen=True, slots=True)
class ClearSlot:
    """Its owner is dead: clear what it left on the board."""

    backplane: str


@dataclass(frozen=True, slots=True)
class SendDirectory:
    """A new version, to every backplane that is up and to every client that asked."""

    directory: Directory


@dataclass(frozen=True, slots=True)
class Accept:
    """Tell a backplane that it is registered; from now on its limit holds, and it is told by whom."""

    caller: Caller
    backplane: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell a caller that what it ordered is done."""

    caller: Caller
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell a caller that it may not."""

    caller: Caller
    error: BackplaneError


@dataclass(frozen=True, slots=True)
class Say:
    """A line for whoever watches."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class AnnounceUp:
    """Every component is where it is to be, but for those named in `problems`: failed hooks, and who waits for them."""

    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is left: leave the loop with this exit code."""

    exit_code: int
    reason: str


Effect = (
    Spawn
    | Move
    | Drain
    | Stop
    | Kill
    | TakeStacks
    | ClearSlot
    | SendDirectory
    | Accept
    | Answer
    | Refuse
    | Say
    | AnnounceUp
    | End
)
