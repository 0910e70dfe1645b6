"""The director in every order of events that hypothesis can think of, against a world that obeys its effects.

The world here is the slow, obvious twin: it knows which processes live and which hooks run, and checks each effect
against that. What a real supervisor does wrong only on a bad day, it does here within a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appbackplane.runtime.objects.module_state import MOVES, ModuleState
from appbackplane.supervisor import effects, events
from appbackplane.supervisor.child import Phase
from appbackplane.supervisor.config import Duration, RestartPolicy
from appbackplane.supervisor.director import Director
from appbackplane.supervisor.effects import Caller
from appbackplane.transport.directory import ComponentEntry, Registration

SECOND_NS = 1_000_000_000
#: backplane -> component -> what it depends on. Two of them share a process, and one chain crosses all three.
SYSTEM: dict[str, dict[str, tuple[str, ...]]] = {
    "first": {"base": ()},
    "second": {"middle": ("base",), "side": ()},
    "third": {"top": ("middle", "side")},
}
DEPENDS_ON = {name: needs for components in SYSTEM.values() for name, needs in components.items()}
SERVING = (ModuleState.PRIMARY, ModuleState.SECONDARY)


@dataclass
class LivingProcess:
    """One process of the world."""

    generation: int
    pid: int
    is_registered: bool = False
    is_stopping: bool = False
    is_killed: bool = False
    states: dict[str, ModuleState] = field(default_factory=dict)
    moving: dict[str, ModuleState] = field(default_factory=dict)


def make_director(restarts_max: int = 3) -> Director:
    """Of `SYSTEM`."""
    policy = RestartPolicy(max=restarts_max, within_ns=Duration(60 * SECOND_NS))
    return Director(
        "world",
        dict.fromkeys(SYSTEM, policy),
        role=ModuleState.PRIMARY,
        start_limit_ns=30 * SECOND_NS,
        stop_limit_ns=10 * SECOND_NS,
        random=lambda: 0.0,
    )


class World:
    """Obeys effects, and holds the director to its promises while it does."""

    def __init__(self, director: Director) -> None:
        self.director = director
        self.now_ns = SECOND_NS
        self.processes: dict[str, LivingProcess] = {}
        self.ended: effects.End | None = None
        self.is_up = False
        self.said: list[str] = []
        self.version = 0
        self._last_pid = 100

    @property
    def is_going_down(self) -> bool:
        """Ordered, or because it could not come up."""
        return self.director.mode in ("stopping", "down")

    def tell(self, event: events.Event) -> list[effects.Effect]:
        """One event, and all that follows from it at once."""
        queue, done = [event], []
        while queue:
            event = queue.pop(0)
            for effect in self.director.handle(event, self.now_ns):
                done.append(effect)
                queue += self.obey(effect)
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
                self._obey_move(self._process(name, generation), component, ModuleState(state))
            case effects.Stop(name, generation):
                process = self._process(name, generation)
                assert not process.moving
                assert all(state in (ModuleState.START, ModuleState.DOWN) for state in process.states.values())
                process.is_stopping = True
            case effects.Kill(name, generation):
                self._process(name, generation).is_killed = True
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
            case effects.Say(text):
                self.said.append(text)
            case effects.AnnounceUp(problems) if problems:
                self.is_up = True
            case effects.AnnounceUp():
                states = {n: s for p in self.processes.values() for n, s in p.states.items()}
                assert states == dict.fromkeys(DEPENDS_ON, ModuleState.PRIMARY)
                self.is_up = True
            case effects.End():
                assert not self.processes, "nothing is left behind"
                self.ended = effect
        return []

    def _process(self, name: str, generation: int) -> LivingProcess:
        process = self.processes[name]
        assert process.generation == generation
        return process

    def _obey_move(self, process: LivingProcess, component: str, to: ModuleState) -> None:
        assert process.is_registered
        assert not process.is_killed
        assert component not in process.moving, "one hook of a component at a time"
        assert to in MOVES[process.states[component]]
        states = {n: s for p in self.processes.values() for n, s in p.states.items()}
        moving = {n: s for p in self.processes.values() for n, s in p.moving.items()}
        if to is ModuleState.DOWN:
            assert self.is_going_down
            dependants = [name for name, needs in DEPENDS_ON.items() if component in needs]
            for name in dependants:
                at_rest = states.get(name, ModuleState.DOWN) in (ModuleState.START, ModuleState.DOWN)
                is_killed = any(p.is_killed for p in self.processes.values() if name in p.states)
                assert is_killed or (at_rest and name not in moving), f"{name} still needs {component}"
        else:
            for name in DEPENDS_ON[component]:
                reached = SERVING if to in SERVING else (*SERVING, ModuleState.INITIALIZING)
                assert states.get(name) in reached, f"{component} came before {name}"
        process.moving[component] = to

    # What processes do

    def register(self, name: str) -> None:
        """It has constructed its components."""
        process = self.processes[name]
        components = tuple(ComponentEntry(c, depends_on=needs) for c, needs in SYSTEM[name].items())
        process.states = dict.fromkeys(SYSTEM[name], ModuleState.START)
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

    def die(self, name: str, code: int) -> list[effects.Effect]:
        """A process has ended."""
        process = self.processes.pop(name)
        return self.tell(events.Exited(name, process.generation, code, "its last line"))

    def order_down(self, *, is_final: bool = False) -> None:
        """A signal."""
        self.tell(events.DownOrdered("SIGTERM", is_final=is_final))

    def pass_time(self) -> bool:
        """To the instant that the director waits for. False: it waits for none."""
        wakes_at_ns = self.director.wakes_at_ns()
        if wakes_at_ns is None:
            return False
        self.now_ns = max(self.now_ns, wakes_at_ns)
        self.tell(events.TimePassed())
        return True

    def do_what_is_asked(self) -> None:
        """Well-behaved processes, until nothing more is asked of them."""
        while self.ended is None and (step := self._next_step()) is not None:
            step()

    def _next_step(self):  # type: ignore[no-untyped-def]
        for name, process in self.processes.items():
            if process.is_killed:
                return lambda name=name: self.die(name, -9)
            if process.is_stopping:
                return lambda name=name: self.die(name, 0)
            if not process.is_registered:
                return lambda name=name: self.register(name)
            for component in process.moving:
                return lambda name=name, component=component: self.finish_hook(name, component)
        return None


class AnyOrder(RuleBasedStateMachine):
    """Everything that may happen, in any order."""

    @initialize(restarts_max=st.integers(0, 3))
    def begin(self, restarts_max: int) -> None:
        self.world = World(make_director(restarts_max))
        self.world.tell(events.UpOrdered())

    @precondition(lambda self: self.world.ended is not None)
    @rule(restarts_max=st.integers(0, 3))
    def another_begins(self, restarts_max: int) -> None:
        self.begin(restarts_max)

    def _living(self, data: st.DataObject, *, fits) -> str | None:  # type: ignore[no-untyped-def]
        names = sorted(name for name, process in self.world.processes.items() if fits(process))
        return data.draw(st.sampled_from(names)) if names else None

    @precondition(lambda self: self.world.ended is None)
    @rule(data=st.data())
    def a_process_registers(self, data: st.DataObject) -> None:
        name = self._living(data, fits=lambda p: not p.is_registered and not p.is_killed and not p.states)
        if name is not None:
            self.world.register(name)

    @precondition(lambda self: self.world.ended is None)
    @rule(data=st.data(), is_well=st.sampled_from([True, True, True, True, False]))
    def a_hook_ends(self, data: st.DataObject, is_well: bool) -> None:
        name = self._living(data, fits=lambda p: p.moving)
        if name is not None:
            component = data.draw(st.sampled_from(sorted(self.world.processes[name].moving)))
            self.world.finish_hook(name, component, is_well=is_well)

    @precondition(lambda self: self.world.ended is None)
    @rule()
    def all_do_what_is_asked(self) -> None:
        """Else few runs would ever come up, and what follows from there would be seen too seldom."""
        self.world.do_what_is_asked()

    @precondition(lambda self: self.world.ended is None)
    @rule(data=st.data(), code=st.sampled_from([0, 1, -9, -11]))
    def a_process_dies(self, data: st.DataObject, code: int) -> None:
        name = self._living(data, fits=lambda _: True)
        if name is not None:
            self.world.die(name, code)

    @precondition(lambda self: self.world.ended is None)
    @rule(data=st.data())
    def a_control_link_breaks(self, data: st.DataObject) -> None:
        name = self._living(data, fits=lambda p: p.is_registered)
        if name is not None:
            self.world.tell(events.LinkLost(name, self.world.processes[name].generation))

    @precondition(lambda self: self.world.ended is None)
    @rule(ns=st.integers(0, 40 * SECOND_NS))
    def time_passes(self, ns: int) -> None:
        processes = self.world.processes
        while name := next((name for name, process in processes.items() if process.is_killed), None):
            self.world.die(name, -9)  # SIGKILL takes no time; what survives it has a test of its own
        self.world.now_ns += ns
        if self.world.ended is None:
            self.world.tell(events.TimePassed())

    @precondition(lambda self: self.world.ended is None)
    @rule(is_final=st.booleans())
    def it_is_ordered_down(self, is_final: bool) -> None:
        self.world.order_down(is_final=is_final)

    @precondition(lambda self: self.world.ended is None)
    @rule(name=st.sampled_from(sorted(SYSTEM)), generation=st.integers(0, 2))
    def old_news_comes_late(self, name: str, generation: int) -> None:
        """Of a generation that is not there: it must change nothing."""
        process = self.world.processes.get(name)
        if process is None or process.generation != generation:
            for event in (
                events.Exited(name, generation, 1),
                events.Moved(name, generation, "base", "primary"),
                events.LinkLost(name, generation),
            ):
                assert not [e for e in self.world.tell(event) if not isinstance(e, effects.Spawn)]

    @invariant()
    def the_director_knows_who_lives(self) -> None:
        for name, child in self.world.director.children.items():
            assert child.is_living == (name in self.world.processes)
            if child.phase in (Phase.STARTING, Phase.STOPPING):
                assert child.deadline_ns is not None, "every wait has an end"

    def teardown(self) -> None:
        """Whatever has happened: ordered down, it comes down, and at no later time than its limits allow."""
        if not hasattr(self, "world") or self.world.ended is not None:
            return
        self.world.order_down()
        begun_ns = self.world.now_ns
        self.world.do_what_is_asked()
        for _ in range(100):
            self.world.do_what_is_asked()
            if self.world.ended is not None:
                break
            assert self.world.pass_time(), "it waits for something that has no end"
        assert self.world.ended is not None
        assert self.world.now_ns - begun_ns <= 60 * SECOND_NS


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def up_world() -> World:
    """A world that has come up."""
    world = World(make_director())
    world.tell(events.UpOrdered())
    world.do_what_is_asked()
    assert world.is_up
    return world


def test_ordered_down_it_stops_in_reverse_order() -> None:
    """A component that loses what it depends on before its own last hook cannot put its work in order."""
    world, downs = up_world(), []
    obey_move = world._obey_move

    def note(process: LivingProcess, component: str, to: ModuleState) -> None:
        downs.append(component)
        obey_move(process, component, to)

    world._obey_move = note  # type: ignore[method-assign]
    world.order_down()
    world.do_what_is_asked()
    assert world.ended == effects.End(0, "SIGTERM")
    assert downs.index("top") < downs.index("middle") < downs.index("base")
    assert downs.index("top") < downs.index("side")


def test_a_death_is_told_to_everybody_at_once() -> None:
    """Whoever holds a call there learns it from the directory; the slot would tell of urgent work for ever."""
    world = up_world()
    done = world.die("second", -9)
    directories = [effect.directory for effect in done if isinstance(effect, effects.SendDirectory)]
    assert [directory.backplanes["second"].is_up for directory in directories] == [False]
    assert effects.ClearSlot("second") in done
    assert effects.Spawn("second", 2) in done


def test_a_restarted_backplane_comes_back_by_itself() -> None:
    """One for one: those beside it are left alone."""
    world = up_world()
    world.die("first", -11)
    world.do_what_is_asked()
    assert {name: process.generation for name, process in world.processes.items()} == {
        "first": 2,
        "second": 1,
        "third": 1,
    }
    assert world.processes["first"].states == {"base": ModuleState.PRIMARY}


def test_a_backplane_that_keeps_dying_is_given_up_and_the_others_serve() -> None:
    """A crash loop helps nobody; what is given up says so, and why."""
    world = up_world()
    for _ in range(4):
        world.die("first", -11)
        while "first" not in world.processes and world.pass_time():
            pass
        world.do_what_is_asked()
    child = world.director.children["first"]
    assert child.phase is Phase.FAILED
    assert child.reason == "killed by signal 11: its last line; given up: 3 restarts within 60 s were not enough"
    assert world.director.mode == "up"
    assert set(world.processes) == {"second", "third"}


def test_what_never_registers_is_killed_and_ends_the_start() -> None:
    """Else `up` would wait for ever for an import that hangs."""
    world = World(make_director())
    world.tell(events.UpOrdered())
    world.register("first")
    world.register("third")
    assert world.pass_time()
    world.do_what_is_asked()
    assert world.ended == effects.End(1, "backplane 'second': did not register within 30 s")


def test_a_process_that_ignores_stop_is_killed() -> None:
    """Nothing may be left behind, least of all by whoever does not listen."""
    world = up_world()
    world.order_down()
    while any(process.moving for process in world.processes.values()):
        for name, process in list(world.processes.items()):
            for component in list(process.moving):
                world.finish_hook(name, component)
    assert all(process.is_stopping for process in world.processes.values())
    assert world.pass_time()
    assert all(process.is_killed for process in world.processes.values())
    world.do_what_is_asked()
    assert world.ended == effects.End(1, "SIGTERM")


def test_a_process_that_survives_sigkill_does_not_keep_the_supervisor() -> None:
    """Stuck in the kernel: it is named, and the rest of the machine goes on."""
    world = up_world()
    world.order_down(is_final=True)
    processes, world.processes = world.processes, {}
    assert all(process.is_killed for process in processes.values())
    assert world.pass_time()
    assert world.ended is not None
    assert world.ended.exit_code == 1
    assert sum("survives SIGKILL" in text for text in world.said) == 3


def test_a_registration_of_another_process_is_refused() -> None:
    """A process left by a killed supervisor may reach our socket; taken for ours, its routes would lead nowhere."""
    world = World(make_director())
    world.tell(events.UpOrdered())
    stranger = Registration("first", 1, 1, "/run/first.sock", ())
    done = world.tell(events.Registered(stranger, Caller(b"first", 1)))
    assert [type(effect) for effect in done] == [effects.Refuse]


def test_a_stuck_hook_on_its_way_up_does_not_delay_going_down() -> None:
    """While starting a hook may take a minute; one who wants to go home does not wait for it."""
    world = World(make_director())
    world.tell(events.UpOrdered())
    for name in SYSTEM:
        world.register(name)
    assert world.processes["first"].moving == {"base": ModuleState.INITIALIZING}
    begun_ns = world.now_ns
    world.order_down()
    world.pass_time()
    world.do_what_is_asked()
    while world.ended is None:
        assert world.pass_time()
        world.do_what_is_asked()
    assert world.now_ns - begun_ns <= 10 * SECOND_NS


def test_who_waits_to_be_restarted_is_not_started_in_a_system_that_goes_down() -> None:
    """It would come up behind the back of everybody who stops, and be left behind or killed."""
    world = up_world()
    for _ in range(2):
        world.die("first", -9)
        if "first" in world.processes:
            world.register("first")
    assert "first" not in world.processes, "the second death in a row is answered later"
    world.order_down()
    while world.pass_time():
        pass
    world.do_what_is_asked()
    assert world.ended is not None
    assert world.director.children["first"].generation == 2
