"""Child: what the director knows of one backplane, through all its generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import Registration

from ..config import RestartPolicy
from .lifecycle import Standing, is_down, is_there
from .restart import RestartHistory


class Phase(StrEnum):
    """Where the process of a backplane is; the values are what `status` shows."""

    WAITING = "waiting"  # there is none: not spawned yet, or its next start is due later
    STARTING = "starting"  # spawned, not registered
    UP = "up"  # registered: its components are being moved, or serve
    DRAINING = "draining"  # takes nothing new: what it has is finished, then its components go down (draining.py)
    STOPPING = "stopping"  # told to go
    KILLED = "killed"  # SIGKILL is on its way
    FAILED = "failed"  # given up: it stays down while the others go on
    ENDED = "ended"  # by itself, and not wanted back (restart.type)
    DOWN = "down"  # gone, in order


#: There is a process.
LIVING = frozenset((Phase.STARTING, Phase.UP, Phase.DRAINING, Phase.STOPPING, Phase.KILLED))
#: It has registered, and its components can be moved.
MOVABLE = (Phase.UP, Phase.DRAINING)


class Drain(Enum):
    """How far it is with finishing what it has, before its components go down."""

    NONE = "none"  # nothing to finish, or nobody asks for it
    DUE = "due"  # ordered: those that depend on it are drained first
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True)
class Failure:
    """A component's hook that failed, or has not ended in time."""

    to: ModuleState
    reason: str
    since_ns: int
    #: When it is tried again; None: it is being tried, or has been given up.
    retry_ns: int | None = None
    #: It is not tried again by itself.
    is_given_up: bool = False


@dataclass(slots=True)
class Child:
    """One backplane. Changed by the director alone."""

    name: str
    policy: RestartPolicy
    #: The name that it has in common with its replicas, if it has some.
    replica_of: str | None = None
    phase: Phase = Phase.WAITING
    generation: int = 0
    #: Above what a killed supervisor may have left in this run directory: no name is used twice there.
    first_generation: int = 1
    #: How long its process may take to register and a hook on its way up to end; and the last hook, and then the process.
    start_limit_ns: int = 60_000_000_000
    stop_limit_ns: int = 10_000_000_000
    #: How long it may work off what it has been asked before it goes down.
    drain_limit_ns: int = 10_000_000_000
    pid: int | None = None
    #: The folder of its own cgroup, in which its next generation begins, too.
    cgroup: str | None = None
    #: Of the last generation that registered: its routes stay in the directory while it is down.
    registration: Registration | None = None
    states: dict[str, ModuleState] = field(default_factory=dict)
    moving: dict[str, ModuleState] = field(default_factory=dict)
    #: Until when a hook on its way up is to have ended.
    hooks_due_ns: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    #: When it is killed (starting, stopping) or spawned (waiting).
    deadline_ns: int | None = None
    #: It goes down, in order, to be started again: with another that died, or because somebody ordered it.
    is_leaving: bool = False
    #: Its restart was ordered: it is started again whatever its type, and that counts for nothing.
    is_ordered: bool = False
    drain: Drain = Drain.NONE
    #: What was refused or cut off when its last process went down on purpose.
    unfinished: list[str] = field(default_factory=list)
    #: Its last process has been drained, and nothing was left: all calls that it had taken in were done or refused.
    has_finished: bool = False
    #: Its components are above `start` on the primary node of a cluster alone.
    is_primary_only: bool = False
    #: It carries what is for other nodes, on each node of a cluster alike.
    is_carrier: bool = False
    #: This node is not to be primary any more, and something in it is; and when it is killed if that is so then.
    is_stepping_down: bool = False
    gone_by_ns: int | None = None
    #: Those that have to be gone before it is spawned.
    spawns_after: frozenset[str] = frozenset()
    #: It does not come back: the configuration does not know it any more.
    is_removed: bool = False
    #: What it registered is not what its next generation will: the configuration has changed.
    is_outdated: bool = False
    since_ns: int = 0
    #: When all its components had reached where they were to be.
    up_since_ns: int | None = None
    #: That was so once, in whatever generation.
    has_been_up: bool = False
    history: RestartHistory = field(default_factory=RestartHistory)
    #: Of the hooks of each component.
    hook_histories: dict[str, RestartHistory] = field(default_factory=dict)
    #: Why it is not as it should be; kept after a restart, for whoever asks.
    reason: str | None = None
    #: It has not been up since it died.
    has_died: bool = False

    @property
    def is_living(self) -> bool:
        return self.phase in LIVING

    @property
    def problem(self) -> str | None:
        """Why it does not do its part in a system that is up; None: it does, nobody wants it back (restart.type), or hooks of
        it have failed, which is told of each (movement.py).
        """
        if self.phase is Phase.FAILED:
            return self.reason
        if not self.has_died or self.failures or self.phase is Phase.ENDED:
            return None
        return f"{self.reason}; {'it is not up again yet' if self.is_movable else 'it is being started again'}"

    @property
    def is_in_service(self) -> bool:
        """Its components are where they are to be, and it is not about to go."""
        return self.up_since_ns is not None and not self.is_leaving

    @property
    def restarts(self) -> int:
        return max(0, self.generation - self.first_generation)

    @property
    def is_past(self) -> bool:
        """What it has registered was true of a process that has gone, and will not be of the next one."""
        return self.is_outdated and not self.is_leaving

    @property
    def is_movable(self) -> bool:
        return self.phase in MOVABLE

    def is_at(self, generation: int, *phases: Phase) -> bool:
        """Whether news of `generation` concerns the present process, and it is in one of these phases."""
        return generation == self.generation and self.phase in (phases or LIVING)

    def enter(self, phase: Phase, now_ns: int, deadline_ns: int | None = None) -> None:
        self.phase, self.since_ns, self.deadline_ns = phase, now_ns, deadline_ns

    def standings(self) -> dict[str, Standing]:
        """Its components, for the lifecycle: nodes of the graph."""
        if self.registration is None:
            return {}
        is_coming_back = self.has_been_up and self.up_since_ns is None
        may_be_missing = is_coming_back or self.is_leaving or self.phase is Phase.FAILED or bool(self.failures)
        return {
            self.node(c.name): Standing(
                self.states.get(c.name, ModuleState.START),
                c.depends_on,
                self.name,
                c.name,
                is_reachable=self.is_movable,
                moving_to=self.moving.get(c.name),
                refuses=self._refuses(c.name),
                has_ended=self.phase is Phase.ENDED,
                is_driven_by_backplane=c.driven_by == "backplane",
                may_be_missing=may_be_missing,
            )
            for c in self.registration.components
        }

    def node(self, component: str) -> str:
        """What it is called in the graph: by its own name, where no other backplane has it."""
        return component if self.replica_of is None else f"{self.name}/{component}"

    def _refuses(self, component: str) -> ModuleState | None:
        failure = self.failures.get(component)
        return failure.to if failure is not None and (failure.is_given_up or failure.retry_ns is not None) else None

    def die(self, reason: str) -> None:
        self.reason, self.has_died = reason, True

    def see_up(self, now_ns: int) -> None:
        self.up_since_ns, self.has_been_up, self.has_died = now_ns, True, False

    def has_begun(self) -> bool:
        """Some of its components have left the bottom: it cannot be taken for one that was just started."""
        return self.is_movable and (bool(self.moving) or any(s is not _START for s in self.states.values()))

    def holds_nothing(self) -> bool:
        """All its components are down, so it may be told to go."""
        return all(is_down(standing) for standing in self.standings().values())

    def has_reached(self, targets: Mapping[str, ModuleState]) -> bool:
        """All its components are where they are to be."""
        return self.phase is Phase.UP and all(
            is_there(standing, targets[name]) for name, standing in self.standings().items()
        )

    def register(self, registration: Registration, now_ns: int) -> None:
        self.enter(Phase.UP, now_ns)
        self.registration, self.is_outdated, self.has_finished = registration, False, False
        self.states = {component.name: ModuleState.START for component in registration.components}
        self._forget_hooks()

    def bury(self, now_ns: int) -> int:
        """Forget what was true of the process only. Returns how long it had been up; 0 if it never was."""
        up_ns = 0 if self.up_since_ns is None else now_ns - self.up_since_ns
        self.up_since_ns = self.pid = None
        self.is_leaving, self.drain = False, Drain.NONE
        self.is_stepping_down, self.gone_by_ns = False, None
        self.states = dict.fromkeys(self.states, ModuleState.DOWN)
        self._forget_hooks()
        return up_ns

    def _forget_hooks(self) -> None:
        self.moving, self.hooks_due_ns, self.failures = {}, {}, {}


def children_of(
    policies: Mapping[str, RestartPolicy],
    first_generation: int,
    replica_of: Mapping[str, str],
    drains_ns: Mapping[str, int],
    limits_ns: Mapping[str, tuple[int | None, int | None]],
    limit_ns: tuple[int, int],
) -> dict[str, Child]:
    """One for each policy, before its first spawn. `limits_ns`: of a start and a stop, of those that have their own."""
    children = {}
    for name, policy in policies.items():
        children[name] = child = Child(name, policy, first_generation=first_generation, generation=first_generation - 1)
        child.replica_of = replica_of.get(name)
        child.drain_limit_ns = drains_ns.get(name, child.drain_limit_ns)
        start_ns, stop_ns = limits_ns.get(name, (None, None))
        child.start_limit_ns, child.stop_limit_ns = start_ns or limit_ns[0], stop_ns or limit_ns[1]
    return children


_START = ModuleState.START
