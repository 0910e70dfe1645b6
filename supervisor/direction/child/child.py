"""Child: the director's knowledge of one backplane, through all its generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import Registration

from ..lifecycle import Standing, is_there
from .components import ComponentStates
from .departure import Departure
from .drain import DrainProgress
from .history import ServiceHistory
from .process import ChildProcess, Phase
from .settings import ChildSettings


@dataclass(slots=True)
class Child:
    """One backplane. Events that change several of its parts are methods of this class."""

    name: str
    settings: ChildSettings
    process: ChildProcess = field(default_factory=ChildProcess)
    components: ComponentStates = field(default_factory=ComponentStates)
    departure: Departure = field(default_factory=Departure)
    drain: DrainProgress = field(default_factory=DrainProgress)
    history: ServiceHistory = field(default_factory=ServiceHistory)

    @property
    def problem(self) -> str | None:
        """Why it does not serve in a system that is up; None: it serves, is not to be restarted (restart.type), or has failed
        hooks, which are reported one by one (movement.py).
        """
        phase, history = self.process.phase, self.history
        if phase is Phase.FAILED:
            return history.reason
        if not history.has_died or self.components.failures or phase is Phase.ENDED:
            return None
        return (
            f"{history.reason}; {'it is not up again yet' if self.process.is_movable else 'it is being started again'}"
        )

    @property
    def is_in_service(self) -> bool:
        """Whether all its components have reached their targets, and it is not leaving."""
        return self.history.up_since_ns is not None and not self.departure.is_leaving

    @property
    def is_past(self) -> bool:
        """Whether its registration is only that of an exited process; the next one may register other routes."""
        return self.components.is_outdated and not self.departure.is_leaving

    def standings(self) -> dict[str, Standing]:
        """Its components as nodes of the lifecycle's graph, by node name; empty before it has registered."""
        components, phase = self.components, self.process.phase
        is_coming_back = self.history.has_been_up and self.history.up_since_ns is None
        may_be_missing = (
            is_coming_back or self.departure.is_leaving or phase is Phase.FAILED or bool(components.failures)
        )
        return {
            self.node(c.name): Standing(
                components.states.get(c.name, ModuleState.START),
                c.depends_on,
                self.name,
                c.name,
                is_reachable=self.process.is_movable,
                moving_to=components.moving.get(c.name),
                refuses=components.refuses(c.name),
                has_ended=phase is Phase.ENDED,
                is_driven_by_backplane=c.driven_by == "backplane",
                may_be_missing=may_be_missing,
            )
            for c in components.entries
        }

    def node(self, component: str) -> str:
        """The node name of a component in the graph: its own name, or BACKPLANE/COMPONENT in a replica."""
        return component if self.settings.replica_of is None else f"{self.name}/{component}"

    def has_begun(self) -> bool:
        """Whether any of its components has left `start`, so that it differs from a process just started."""
        return self.process.is_movable and self.components.has_begun

    def holds_nothing(self) -> bool:
        """Whether all its components are down, so that it may be ordered to exit."""
        return all(standing.holds == 0 for standing in self.standings().values())

    def has_reached(self, targets: Mapping[str, ModuleState]) -> bool:
        """Whether it is up and all its components have reached their targets."""
        return self.process.phase is Phase.UP and all(
            is_there(standing, targets[name]) for name, standing in self.standings().items()
        )

    def configure(self, settings: ChildSettings) -> None:
        """Replace its settings, in force at once."""
        self.settings = settings

    def spawn(self, now_ns: int) -> None:
        """Begin its next generation."""
        self.departure.respawned()
        self.process.begin(now_ns, now_ns + self.settings.start_limit_ns)

    def register(self, registration: Registration, now_ns: int) -> None:
        """Note that its process has registered."""
        self.process.enter(Phase.UP, now_ns)
        self.components.register(registration)
        self.drain.registered()

    def kill(self, reason: str, now_ns: int, deadline_ns: int | None = None) -> None:
        """Note that its process is sent SIGKILL. `deadline_ns`: when it is left behind; None: its death is awaited."""
        self.history.note(reason)
        self.process.enter(Phase.KILLED, now_ns, deadline_ns)

    def bury(self, now_ns: int) -> int:
        """Forget the state of the dead process. Returns how long it had been up, in ns; 0 if it never was."""
        self.process.exited(now_ns)
        self.components.die()
        self.departure.exited()
        self.drain.exited()
        return self.history.exited(now_ns)

    def stay_down(self, phase: Phase, reason: str, now_ns: int) -> None:
        """Note that it is not started again by itself: FAILED or ENDED."""
        self.history.note(reason)
        self.process.enter(phase, now_ns)

    def forget_restarts(self) -> None:
        """Forget its earlier restarts, and the retries of its hooks: an ordered start is its first."""
        self.history.forget_restarts()
        self.components.forget_retries()
