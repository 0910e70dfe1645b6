"""A world that obeys the director's effects, and holds it to its promises: the slow, obvious twin of a real system.

It knows which processes live, which hooks run and who waits for an answer, and checks each effect against that. What a
real supervisor does wrong only on a bad day, it does here within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from appbackplane.runtime.execution.urgency.board import BoardSlot
from appbackplane.runtime.objects.module_state import MOVES, ModuleState
from appbackplane.supervisor.configuration.config import BackplaneConfig, Config, Duration, RestartPolicy, SystemConfig
from appbackplane.supervisor.direction import effects, events
from appbackplane.supervisor.direction.child.drain import DrainPhase
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.supervisor.direction.child.settings import ChildSettings
from appbackplane.supervisor.direction.director import Director
from appbackplane.supervisor.direction.effects import Caller
from appbackplane.supervisor.direction.reconfiguration import plan
from appbackplane.transport.directory import ComponentEntry, Registration

SECOND_NS = 1_000_000_000
START_LIMIT_NS, STOP_LIMIT_NS, DRAIN_LIMIT_NS = 30 * SECOND_NS, 10 * SECOND_NS, 10 * SECOND_NS
STUCK_AFTER_NS = 5 * SECOND_NS
#: backplane -> component -> what it depends on. Two of them share a process, and one chain crosses all three.
System = Mapping[str, Mapping[str, tuple[str, ...]]]
SYSTEM: System = {
    "first": {"base": ()},
    "second": {"middle": ("base",), "side": ()},
    "third": {"top": ("middle", "side")},
}
#: The same where two replicas share the middle, one of whose components needs another beside it.
REPLICATED: System = {
    "first": {"base": ()},
    "second-1": {"middle": ("base",), "side": ("middle",)},
    "second-2": {"middle": ("base",), "side": ("middle",)},
    "third": {"top": ("middle", "side")},
}
REPLICA_OF = {"second-1": "second", "second-2": "second"}
#: Who may rely on what: nobody is to be higher than what it depends on.
HEIGHT = {
    ModuleState.START: 0,
    ModuleState.DOWN: 0,
    ModuleState.INITIALIZING: 1,
    ModuleState.SECONDARY: 2,
    ModuleState.PRIMARY: 3,
}


@dataclass
class LivingProcess:
    """One process of the world."""

    generation: int
    pid: int
    is_registered: bool = False
    is_stopping: bool = False
    is_killed: bool = False
    are_stacks_awaited: bool = False
    #: Told to finish what it has, and has not answered yet.
    is_draining: bool = False
    has_drained: bool = False
    #: Goes without having answered that, because one that has died waits for it to go.
    is_cut: bool = False
    states: dict[str, ModuleState] = field(default_factory=dict)
    moving: dict[str, ModuleState] = field(default_factory=dict)


def policy(**words: object) -> RestartPolicy:
    """Three restarts in a minute, unless told otherwise."""
    return RestartPolicy(**{"max": 3, "within_ns": Duration(60 * SECOND_NS), **words})  # type: ignore[arg-type]


def child_settings(
    restart: RestartPolicy | None = None,
    replica_of: str | None = None,
    *,
    drain_limit_ns: int = DRAIN_LIMIT_NS,
    is_primary_only: bool = False,
    is_carrier: bool = False,
) -> ChildSettings:
    """Of one backplane, with this world's limits."""
    limits = (START_LIMIT_NS, STOP_LIMIT_NS, drain_limit_ns)
    return ChildSettings(
        restart or policy(), *limits, replica_of, is_primary_only=is_primary_only, is_carrier=is_carrier
    )


def make_director(
    restarts_max: int = 3,
    *,
    system: System = SYSTEM,
    policies: Mapping[str, RestartPolicy] | None = None,
    role: ModuleState = ModuleState.PRIMARY,
    node: str = "",
    primary_only: Collection[str] | None = None,
    drains_ns: Mapping[str, int] | None = None,
) -> Director:
    """Of `SYSTEM`, where nobody has a policy, or a limit, of its own."""
    replica_of, policies = REPLICA_OF if system is REPLICATED else {}, policies or {}
    found = {
        name: child_settings(
            policies.get(name, policy(max=restarts_max)),
            replica_of.get(name),
            is_primary_only=name in (primary_only or ()),
            is_carrier=name == node,
            drain_limit_ns=(drains_ns or {}).get(name, DRAIN_LIMIT_NS),
        )
        for name in system
    }
    return Director(
        "world",
        found,
        role=role,
        random=lambda: 0.0,
        stuck_after_ns=dict.fromkeys(system, STUCK_AFTER_NS),
        node=node,
        is_in_cluster=primary_only is not None,
    )


#: Steps of one world: several times what the longest test takes.
STEPS_MAX = 2_000


class World:
    """Obeys effects, and holds the director to its promises while it does."""

    def __init__(
        self, director: Director, system: System = SYSTEM, driven_by_backplane: frozenset[str] = frozenset()
    ) -> None:
        self.director, self.system = director, dict(system)
        #: Which configuration holds.
        self.configured = 0
        #: By which policies of restart it differs from what the director has.
        self.policies: dict[str, RestartPolicy] = {}
        self.driven_by_backplane = driven_by_backplane
        self.homes: dict[str, list[str]] = {}
        for backplane, components in system.items():
            for name in components:
                self.homes.setdefault(name, []).append(backplane)
        self.depends_on = {name: needs for components in system.values() for name, needs in components.items()}
        self.now_ns = SECOND_NS
        self.processes: dict[str, LivingProcess] = {}
        self.ended: effects.End | None = None
        self.is_up = False
        self.problems: tuple[str, ...] = ()
        self.said: list[str] = []
        self.version = 0
        #: Begun moves, in order: (component, state).
        self.moves: list[tuple[str, ModuleState]] = []
        #: Begun drains, in order.
        self.drains: list[str] = []
        #: Who waits for the end of an order, and until when.
        self.waiting: dict[Caller, int] = {}
        self.answers: dict[Caller, effects.ReplyToCaller | effects.Refuse] = {}
        self._last_pid = 100
        self._steps_left = STEPS_MAX

    @property
    def is_going_down(self) -> bool:
        """Ordered, or because it could not come up."""
        return self.director.mode in ("stopping", "down")

    def states(self) -> dict[str, ModuleState]:
        """Of the components whose processes live."""
        return {name: state for process in self.processes.values() for name, state in process.states.items()}

    def tell(self, event: events.Event) -> list[effects.Effect]:
        """One event, and all that follows from it at once."""
        queue, done = [event], []
        while queue:
            event = queue.pop(0)
            awaited = {name: child.departure.spawns_after for name, child in self.director.children.items()}
            said = self.director.handle(event, self.now_ns)
            self._see_cuts(awaited)
            for effect in said:
                done.append(effect)
                queue += self.obey(effect)
        overdue = [caller for caller, ends_ns in self.waiting.items() if ends_ns < self.now_ns]
        assert not overdue or not isinstance(event, events.TimePassed), "every order ends by its limit"
        return done

    def obey(self, effect: effects.Effect) -> list[events.Event]:
        """Returns what happens at once."""
        assert self.ended is None, "nothing happens after the end"
        match effect:
            case effects.Spawn(name, generation):
                assert name not in self.processes, "a backplane has at most one process"
                assert not self.is_going_down, "nothing starts in a system that goes down"
                self._last_pid += 1
                self.processes[name] = LivingProcess(generation, self._last_pid)
                return [events.Spawned(name, generation, self._last_pid)]
            case effects.Move(name, generation, component, state):
                self._obey_move(name, self._process(name, generation), component, ModuleState(state))
            case effects.Drain(name, generation):
                process = self._process(name, generation)
                self._check_drain(name, process)
                process.is_draining = True
                self.drains.append(name)
            case effects.Stop(name, generation):
                process = self._process(name, generation)
                assert not process.moving
                assert not process.is_draining or process.is_cut
                assert all(state in (ModuleState.START, ModuleState.DOWN) for state in process.states.values())
                process.is_stopping = True
            case effects.Kill(name, generation):
                self._process(name, generation).is_killed = True
            case effects.TakeStacks(name, generation, _):
                process = self._process(name, generation)
                assert process.is_registered and not process.is_killed
                assert not self.is_going_down, "who goes has limits of its own"
                process.are_stacks_awaited = True
            case effects.ClearSlot(name):
                assert name not in self.processes, "the slot of a living process is its own"
            case effects.SendDirectory(directory):
                assert directory.version > self.version, "an old directory must not look new"
                self.version = directory.version
                for name, place in directory.backplanes.items():
                    process = self.processes.get(name)
                    is_there = process is not None and process.generation == place.generation
                    assert not place.is_up or is_there, "nobody is sent to a process that is dead"
            case effects.Accept(caller):
                self.processes[caller.peer.decode()].is_registered = True
            case effects.ReplyToCaller(caller) | effects.Refuse(caller):
                if caller.peer == b"client":
                    assert self.waiting.pop(caller, None) is not None, "an order ends once"
                    self.answers[caller] = effect
            case effects.Say(text):
                self.said.append(text)
            case effects.AnnounceUp(problems):
                if not problems:
                    self._check_whole()
                self.is_up, self.problems = True, problems
            case effects.End():
                assert not self.processes, "nothing is left behind"
                assert not self.waiting, "nobody waits for a system that is gone"
                self.ended = effect
        return []

    def _check_whole(self) -> None:
        """Everything is where it is to be, of what is not ordered elsewhere or has ended as it was meant to."""
        movement = self.director.movement
        if movement.wanted or (movement.role, movement.ceiling) != (ModuleState.PRIMARY, ModuleState.PRIMARY):
            return
        for name, homes in self.homes.items():
            for home in homes:
                if self.director.children[home].process.phase is not Phase.ENDED:
                    assert self.processes[home].states.get(name) is ModuleState.PRIMARY, f"{name} is not up"

    def _process(self, name: str, generation: int) -> LivingProcess:
        process = self.processes[name]
        assert process.generation == generation
        return process

    def _obey_move(self, home: str, process: LivingProcess, component: str, to: ModuleState) -> None:
        assert process.is_registered
        assert not process.is_killed
        assert component not in process.moving, "one hook of a component at a time"
        assert not process.is_draining or process.is_cut, "nothing moves before it has finished what it had"
        assert to in MOVES[process.states[component]]
        if HEIGHT[to] > HEIGHT[process.states[component]]:
            self._check_rise(home, component, to)
        else:
            self._check_fall(home, component, to)
        process.moving[component] = to
        self.moves.append((component, to))

    def _check_rise(self, home: str, component: str, to: ModuleState) -> None:
        assert not self.is_going_down
        for name in self.depends_on[component]:
            homes = self._homes_for(home, component, name)
            if not homes or any(self.director.children[other].process.phase is Phase.ENDED for other in homes):
                continue
            assert max(self._height(other, name, min) for other in homes) >= HEIGHT[to], (
                f"{component} came before {name}"
            )

    def _check_drain(self, backplane: str, process: LivingProcess) -> None:
        assert process.is_registered
        assert not (process.is_killed or process.is_draining or process.has_drained), "one drain a process"
        assert not process.moving
        place = self.director.directory.backplanes[backplane]
        assert place.is_up, "who has not heard of it is still served"
        assert place.is_draining, "the directory says so first"
        for name, other in self.processes.items():
            if name == backplane or not (self.is_going_down or self.director.children[name].departure.is_leaving):
                continue
            if backplane in self._homes_needed(name) and not self._needs(backplane, name) and not other.is_killed:
                assert not any(HEIGHT[state] for state in other.states.values()), f"{name} still needs {backplane}"

    def _see_cuts(self, awaited: Mapping[str, frozenset[str]]) -> None:
        """Of whom the director does not want to know any more how far he has come. `awaited`: who was to be gone before each
        is started, until now (one that has just died may have been ordered to start at once).
        """
        dead = {name: child for name, child in self.director.children.items() if name not in self.processes}
        back = [name for name, child in dead.items() if child.process.phase in (Phase.WAITING, Phase.STARTING)]
        waited_for = {other for name in back for other in (*awaited.get(name, ()), *dead[name].departure.spawns_after)}
        for name, process in self.processes.items():
            if (
                process.is_draining
                and not process.is_cut
                and self.director.children[name].drain.phase is not DrainPhase.RUNNING
            ):
                assert name in waited_for, f"{name} may finish what it has"
                process.is_cut = True

    def _needs(self, backplane: str, other: str) -> bool:
        """Whether one of its components depends on one of the other's, at however many removes."""
        ahead, found = [backplane], {backplane}
        while ahead:
            needs = self._homes_needed(ahead.pop())
            ahead += needs - found
            found |= needs
        return other in found

    def _homes_needed(self, backplane: str) -> set[str]:
        """Others that have what its components depend on."""
        needs = {need for own in self.system.get(backplane, {}) for need in self.depends_on[own]}
        return {home for need in needs if backplane not in self.homes[need] for home in self.homes[need]}

    def _check_fall(self, home: str, component: str, to: ModuleState) -> None:
        for name, needs in self.depends_on.items():
            for other in self.homes[name] if component in needs else ():
                places = self._homes_for(other, name, component)
                if home not in places or (component in self.driven_by_backplane and other != home):
                    continue
                departure, others = self.director.children[home].departure, self.director.children[other].departure
                if departure.is_ordered and not others.is_leaving:
                    continue  # it will be back in a moment: they stay
                highest = self._height(other, name, max)
                others = [self._height(place, component, min) for place in places if place != home]
                assert highest <= HEIGHT[to] or max(others, default=-1) >= highest, f"{name} still needs {component}"

    def _homes_for(self, home: str, component: str, needed: str) -> list[str]:
        """Where `component` finds what it needs: at home, if that is there."""
        if home in self.homes[needed]:
            return [home]
        return [] if component in self.driven_by_backplane else self.homes[needed]

    def _height(self, home: str, component: str, end: Callable[[int, int], int]) -> int:
        """The lower (`min`) or the upper end (`max`) of where it is."""
        process = self.processes.get(home)
        if process is None or not process.states or process.is_killed:
            return -1
        state = process.states[component]
        return end(HEIGHT[state], HEIGHT[process.moving.get(component, state)])

    # What processes do

    def register(self, name: str) -> None:
        """It has constructed its components."""
        process = self.processes[name]
        components = tuple(
            ComponentEntry(
                component,
                depends_on=needs,
                driven_by="backplane" if component in self.driven_by_backplane else "system",
            )
            for component, needs in self.system[name].items()
        )
        process.states = dict.fromkeys(self.system[name], ModuleState.START)
        registration = Registration(name, process.generation, process.pid, f"/run/{name}.sock", components)
        self.tell(events.Registered(registration, Caller(name.encode(), 1)))

    def finish_hook(self, name: str, component: str, *, is_well: bool = True) -> None:
        """A hook has ended."""
        process = self.processes[name]
        to = process.moving.pop(component)
        if is_well:
            process.states[component] = to
            self.tell(events.Moved(name, process.generation, component, to.value))
        else:
            if to is ModuleState.DOWN:
                process.states[component] = to
            self.tell(events.MoveFailed(name, process.generation, component, to.value, "it raised"))

    def finish_draining(self, name: str, **left: object) -> list[effects.Effect]:
        """It has nothing left, or says what."""
        process = self.processes[name]
        process.is_draining, process.has_drained = False, True
        return self.tell(events.Drained(name, process.generation, **left))  # type: ignore[arg-type]

    def die(self, name: str, code: int) -> list[effects.Effect]:
        """A process has ended."""
        process = self.processes.pop(name)
        return self.tell(events.Exited(name, process.generation, code, "its last line"))

    def order_down(self, *, is_final: bool = False) -> None:
        """A signal."""
        self.tell(events.DownOrdered("SIGTERM", is_final=is_final))

    def order_move(self, to: ModuleState, component: str | None = None, *, limit_ns: int = 60 * SECOND_NS) -> Caller:
        """A client; its answer will be in `answers`."""
        caller = Caller(b"client", len(self.waiting) + len(self.answers) + 1)
        self.waiting[caller] = self.now_ns + limit_ns
        self.tell(events.MoveOrdered(caller, to, component, limit_ns))
        return caller

    def look(self, *, silent: Collection[str] = ()) -> list[effects.Effect]:
        """At all; these say nothing, the others beat, and have nothing to do."""
        alive = BoardSlot(1, 1, self.now_ns, 0, 0, 0, 0, 0, 0, 0, 0, None)
        return self.tell(
            events.Looked({name: events.Sight(None if name in silent else alive) for name in self.processes})
        )

    def order_restart(
        self,
        *names: str,
        is_now: bool = False,
        is_rolling: bool = False,
        is_forced: bool = False,
        limit_ns: int = 60 * SECOND_NS,
    ) -> Caller:
        """A client; its answer will be in `answers`."""
        caller = Caller(b"client", len(self.waiting) + len(self.answers) + 1)
        self.waiting[caller] = self.now_ns + limit_ns
        self.tell(events.RestartOrdered(caller, names, limit_ns, is_now, is_rolling, is_forced))
        return caller

    def reconfigure(self, *restarted: str, **backplanes: Mapping[str, tuple[str, ...]] | None) -> None:
        """Another configuration: these start again, and `name={component: needs}` is new or has others; None: removed."""
        self.configured += 1
        old = self._config(self.configured - 1, restarted)
        for name, components in backplanes.items():
            for component in self.system.pop(name, {}):
                self.homes[component].remove(name)
                if not self.homes[component]:
                    del self.depends_on[component]
            if components is not None:
                self.system[name] = components
                self.depends_on |= components
                for component in components:
                    self.homes.setdefault(component, []).append(name)
        new = self._config(self.configured, restarted)
        self.tell(events.Reconfigured(old, new, plan(old, new)))

    def _config(self, number: int, restarted: Collection[str]) -> Config:
        found = {
            name: BackplaneConfig(
                components=tuple(f"world:{component}" for component in components),
                settings={"Any": {"number": number}} if name in restarted else {},
                restart=self._policy_of(name),
            )
            for name, components in self.system.items()
        }
        system = SystemConfig("world", start_limit_ns=Duration(START_LIMIT_NS), stop_limit_ns=Duration(STOP_LIMIT_NS))
        alike: dict[str, tuple[str, ...]] = {}
        for name, child in self.director.children.items():
            if child.settings.replica_of is not None and name in found:
                alike[child.settings.replica_of] = (*alike.get(child.settings.replica_of, ()), name)
        return Config("world.toml", system, found, "/", "/run", replicas=alike)

    def _policy_of(self, name: str) -> RestartPolicy:
        child = self.director.children.get(name)
        return self.policies.get(name) or (policy() if child is None else child.settings.policy)

    def pass_time(self) -> bool:
        """To the instant that the director waits for. False: it waits for none."""
        wakes_at_ns = self.director.wakes_at_ns()
        if wakes_at_ns is None:
            return False
        self.now_ns = max(self.now_ns, wakes_at_ns)
        self._count_step()
        self.tell(events.TimePassed())
        return True

    def do_what_is_asked(self) -> None:
        """Well-behaved processes, until nothing more is asked of them."""
        while self.ended is None and (step := self._next_step()) is not None:
            self._count_step()
            step()

    def _count_step(self) -> None:
        self._steps_left -= 1
        assert self._steps_left > 0, "the director asks, or waits, without end"

    def _next_step(self) -> Callable[[], object] | None:
        for name, process in self.processes.items():
            if process.is_killed:
                return lambda name=name: self.die(name, -9)  # type: ignore[misc]
            if process.is_stopping:
                return lambda name=name: self.die(name, 0)  # type: ignore[misc]
            if not process.is_registered:
                return lambda name=name: self.register(name)  # type: ignore[misc]
            if process.is_draining:
                return lambda name=name: self.finish_draining(name)  # type: ignore[misc]
            for component in process.moving:
                return lambda name=name, component=component: self.finish_hook(name, component)  # type: ignore[misc]
        return None


def up_world(
    system: System = SYSTEM,
    policies: Mapping[str, RestartPolicy] | None = None,
    driven_by_backplane: frozenset[str] = frozenset(),
    primary_only: Collection[str] | None = None,
) -> World:
    """A world that has come up."""
    director = make_director(system=system, policies=policies, primary_only=primary_only)
    world = World(director, system, driven_by_backplane)
    world.tell(events.UpOrdered())
    world.do_what_is_asked()
    assert world.is_up
    assert not world.problems
    return world
