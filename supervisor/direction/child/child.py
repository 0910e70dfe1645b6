"""Child: the director's knowledge of one backplane, through all its generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import Registration

from ...configuration.config import RestartPolicy
from ..lifecycle import Standing, is_down, is_there
from ..restart import RestartHistory
from .components import HookFailure
from .drain import DrainPhase
from .process import LIVING, MOVABLE, Phase


@dataclass(slots=True)
class Child:
    """One backplane. Only the director and the modules of its folder change it."""

    name: str
    policy: RestartPolicy
    #: The common name of the replicas that it belongs to; None: it has no replicas.
    replica_of: str | None = None
    phase: Phase = Phase.WAITING
    generation: int = 0
    #: Above all generations that a killed supervisor may have left in this run directory: file names are never reused.
    first_generation: int = 1
    #: Limit of registering and of each hook on the way up; limit of the last hook on the way down, and then of the exit.
    start_limit_ns: int = 60_000_000_000
    stop_limit_ns: int = 10_000_000_000
    #: How long it may work on accepted requests before it goes down.
    drain_limit_ns: int = 10_000_000_000
    pid: int | None = None
    #: The folder of its own cgroup; its next generation starts in it, too.
    cgroup: str | None = None
    #: Of the last generation that registered: its routes stay in the routing table while it is down.
    registration: Registration | None = None
    states: dict[str, ModuleState] = field(default_factory=dict)
    moving: dict[str, ModuleState] = field(default_factory=dict)
    #: By component: the time limit of its running hook, on the way up only.
    hooks_due_ns: dict[str, int] = field(default_factory=dict)
    failures: dict[str, HookFailure] = field(default_factory=dict)
    #: When it is killed (starting, draining, stopping) or spawned (waiting).
    deadline_ns: int | None = None
    #: It goes down, in order, to be restarted (or removed): with another that died, or by an order.
    is_leaving: bool = False
    #: Its restart was ordered: it is restarted whatever its `restart.type`, and the restart is not counted.
    is_ordered: bool = False
    drain: DrainPhase = DrainPhase.NONE
    #: The work that was refused or cut off when its last process went down on purpose.
    unfinished: list[str] = field(default_factory=list)
    #: Its last process was drained completely: all calls that it had accepted were done or refused.
    has_finished: bool = False
    #: Its components leave `start` only on the primary node of a cluster.
    is_primary_only: bool = False
    #: It connects this node to other nodes; it runs alike on each node of a cluster.
    is_carrier: bool = False
    #: This node must stop being primary, and this backplane still is; at `gone_by_ns` it is killed.
    is_stepping_down: bool = False
    gone_by_ns: int | None = None
    #: The backplanes that must have exited before it is spawned.
    spawns_after: frozenset[str] = frozenset()
    #: It is removed from the configuration and does not come back.
    is_removed: bool = False
    #: The configuration has changed: its next generation may register other routes.
    is_outdated: bool = False
    since_ns: int = 0
    #: When all its components had reached their targets; None: they have not.
    up_since_ns: int | None = None
    #: Any of its generations has been up.
    has_been_up: bool = False
    history: RestartHistory = field(default_factory=RestartHistory)
    #: By component: the retries of its hooks.
    hook_histories: dict[str, RestartHistory] = field(default_factory=dict)
    #: The reason of its last death or failure; kept after a restart, for display.
    reason: str | None = None
    #: It has not been up since it died.
    has_died: bool = False

    @property
    def is_living(self) -> bool:
        return self.phase in LIVING

    @property
    def problem(self) -> str | None:
        """Why it does not serve in a system that is up; None: it serves, is not to be restarted (restart.type), or has failed
        hooks, which are reported one by one (movement.py).
        """
        if self.phase is Phase.FAILED:
            return self.reason
        if not self.has_died or self.failures or self.phase is Phase.ENDED:
            return None
        return f"{self.reason}; {'it is not up again yet' if self.is_movable else 'it is being started again'}"

    @property
    def is_in_service(self) -> bool:
        """Whether all its components have reached their targets, and it is not leaving."""
        return self.up_since_ns is not None and not self.is_leaving

    @property
    def restarts(self) -> int:
        return max(0, self.generation - self.first_generation)

    @property
    def is_past(self) -> bool:
        """Whether its registration is only that of an exited process; the next one may register other routes."""
        return self.is_outdated and not self.is_leaving

    @property
    def is_movable(self) -> bool:
        return self.phase in MOVABLE

    def is_at(self, generation: int, *phases: Phase) -> bool:
        """Whether an event of `generation` concerns the current process, and that is in one of these phases (or living)."""
        return generation == self.generation and self.phase in (phases or LIVING)

    def enter(self, phase: Phase, now_ns: int, deadline_ns: int | None = None) -> None:
        self.phase, self.since_ns, self.deadline_ns = phase, now_ns, deadline_ns

    def standings(self) -> dict[str, Standing]:
        """Its components as nodes of the lifecycle's graph, by node name; empty before it has registered."""
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
        """The node name of a component in the graph: its own name, or BACKPLANE/COMPONENT in a replica."""
        return component if self.replica_of is None else f"{self.name}/{component}"

    def _refuses(self, component: str) -> ModuleState | None:
        failure = self.failures.get(component)
        return failure.to if failure is not None and (failure.is_given_up or failure.retry_ns is not None) else None

    def die(self, reason: str) -> None:
        self.reason, self.has_died = reason, True

    def see_up(self, now_ns: int) -> None:
        self.up_since_ns, self.has_been_up, self.has_died = now_ns, True, False

    def has_begun(self) -> bool:
        """Whether any of its components has left `start`, so that it differs from a process just started."""
        return self.is_movable and (bool(self.moving) or any(s is not _START for s in self.states.values()))

    def holds_nothing(self) -> bool:
        """Whether all its components are down, so that it may be ordered to exit."""
        return all(is_down(standing) for standing in self.standings().values())

    def has_reached(self, targets: Mapping[str, ModuleState]) -> bool:
        """Whether it is up and all its components have reached their targets."""
        return self.phase is Phase.UP and all(
            is_there(standing, targets[name]) for name, standing in self.standings().items()
        )

    def register(self, registration: Registration, now_ns: int) -> None:
        self.enter(Phase.UP, now_ns)
        self.registration, self.is_outdated, self.has_finished = registration, False, False
        self.states = {component.name: ModuleState.START for component in registration.components}
        self._forget_hooks()

    def bury(self, now_ns: int) -> int:
        """Forget the state of the dead process. Returns how long it had been up, in ns; 0 if it never was."""
        up_ns = 0 if self.up_since_ns is None else now_ns - self.up_since_ns
        self.up_since_ns = self.pid = None
        self.is_leaving, self.drain = False, DrainPhase.NONE
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
    """One child for each policy, before its first spawn. `limits_ns`: own (start, stop) limits; None: that of `limit_ns`."""
    children = {}
    for name, policy in policies.items():
        children[name] = child = Child(name, policy, first_generation=first_generation, generation=first_generation - 1)
        child.replica_of = replica_of.get(name)
        child.drain_limit_ns = drains_ns.get(name, child.drain_limit_ns)
        start_ns, stop_ns = limits_ns.get(name, (None, None))
        child.start_limit_ns, child.stop_limit_ns = start_ns or limit_ns[0], stop_ns or limit_ns[1]
    return children


_START = ModuleState.START
