"""The director in every order of events that hypothesis can think of, against a world that obeys its effects (world.py)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction import effects, events, standing_by
from appbackplane.supervisor.direction.child.drain import DrainPhase
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.supervisor.direction.effects import Caller
from appbackplane.transport.directory import Registration
from tests.profiles import examples

from ..world import REPLICATED, SECOND_NS, SYSTEM, LivingProcess, System, World, make_director, policy, up_world


#: Those of one small system, and whatever else can be drawn: components that depend only on those before them.
@st.composite
def systems(draw: st.DrawFn) -> System:
    """Up to four backplanes, up to eight components."""
    backplanes: dict[str, dict[str, tuple[str, ...]]] = {}
    names: list[str] = []
    for number in range(draw(st.integers(1, 8))):
        needs = draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        home = draw(st.sampled_from(["b0", "b1", "b2", "b3"]))
        names.append(f"c{number}")
        backplanes.setdefault(home, {})[names[-1]] = tuple(needs)
    return backplanes


SYSTEMS = st.one_of(st.just(SYSTEM), st.just(REPLICATED), systems())
POLICIES = st.builds(
    policy,
    max=st.integers(0, 3),
    strategy=st.sampled_from(["one_for_one", "rest_for_one", "one_for_all"]),
    type=st.sampled_from(["permanent", "permanent", "permanent", "transient", "temporary"]),
    on_give_up=st.sampled_from(["secondary", "secondary", "down", "shutdown"]),
)


class AnyOrder(RuleBasedStateMachine):
    """Everything that may happen, in any order."""

    @initialize(data=st.data(), system=SYSTEMS)
    def begin(self, data: st.DataObject, system: System) -> None:
        policies = {name: data.draw(POLICIES) for name in system}
        components = [name for components in system.values() for name in components]
        driven = data.draw(st.frozensets(st.sampled_from(components)))
        primary_only = (
            data.draw(st.none() | st.frozensets(st.sampled_from(sorted(system)))) if system != REPLICATED else None
        )
        director = make_director(system=system, policies=policies, primary_only=primary_only)
        self.is_in_cluster = primary_only is not None
        self.world = World(director, system, driven)
        self.world.tell(events.UpOrdered())

    @precondition(lambda self: self.world.ended is not None)
    @rule(data=st.data(), system=SYSTEMS)
    def another_begins(self, data: st.DataObject, system: System) -> None:
        self.begin(data, system)

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
    @rule(data=st.data(), seconds=st.integers(1, 8), writes=st.booleans())
    def somebody_says_nothing(self, data: st.DataObject, seconds: int, writes: bool) -> None:
        """And writes its stacks when it is asked to, or does not."""
        name = self._living(data, fits=lambda p: p.is_registered and not p.is_killed)
        for _ in range(seconds):
            self.time_passes(SECOND_NS)
            if self.world.ended is not None:
                return
            self.world.look(silent=() if name is None else {name})
            process = self.world.processes.get(name or "")
            if writes and process is not None and process.are_stacks_awaited:
                self.world.tell(events.Wrote(name or "", process.generation))

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
    @rule(
        data=st.data(),
        to=st.sampled_from([ModuleState.PRIMARY, ModuleState.SECONDARY, ModuleState.DOWN]),
        limit_ns=st.integers(SECOND_NS, 60 * SECOND_NS),
    )
    def a_client_moves_something(self, data: st.DataObject, to: ModuleState, limit_ns: int) -> None:
        component = data.draw(st.sampled_from([None, *sorted(self.world.homes), "nobody"]))
        if len(self.world.waiting) < 5:
            self.world.order_move(to, component, limit_ns=limit_ns)

    @precondition(lambda self: self.world.ended is None)
    @rule(data=st.data(), is_now=st.booleans(), limit_ns=st.integers(SECOND_NS, 60 * SECOND_NS))
    def a_client_restarts_something(self, data: st.DataObject, is_now: bool, limit_ns: int) -> None:
        names = data.draw(st.lists(st.sampled_from([*sorted(self.world.system), "nobody"]), min_size=1, max_size=3))
        if len(self.world.waiting) < 5:
            self.world.order_restart(*names, is_now=is_now, limit_ns=limit_ns)

    @precondition(lambda self: any(process.is_draining for process in self.world.processes.values()))
    @rule(data=st.data(), refused_count=st.integers(0, 2), running=st.sampled_from([(), ("base.work",)]))
    def one_has_drained(self, data: st.DataObject, refused_count: int, running: tuple[str, ...]) -> None:
        draining = sorted(name for name, process in self.world.processes.items() if process.is_draining)
        name = data.draw(st.sampled_from(draining))
        self.world.finish_draining(name, refused_count=refused_count, running=running)

    @precondition(lambda self: self.world.ended is None)
    @rule(data=st.data(), generation=st.integers(0, 2))
    def old_news_comes_late(self, data: st.DataObject, generation: int) -> None:
        """Of a generation that is not there: it must change nothing."""
        name = data.draw(st.sampled_from(sorted(self.world.system)))
        process = self.world.processes.get(name)
        if process is None or process.generation != generation:
            for event in (
                events.Exited(name, generation, 1),
                events.Moved(name, generation, "base", "primary"),
                events.LinkLost(name, generation),
                events.Wrote(name, generation),
                events.Drained(name, generation, error="late"),
            ):
                assert not [e for e in self.world.tell(event) if not isinstance(e, effects.Spawn)]

    @precondition(lambda self: self.world.ended is None and self.world.director.mode == "up")
    @rule(data=st.data())
    def the_configuration_changes(self, data: st.DataObject) -> None:
        """Some start again; one that nobody needs goes, or one comes."""
        world = self.world
        if any(child.departure.is_leaving or child.departure.is_removed for child in world.director.children.values()):
            return  # refused: try again when that is done (control/reconfiguring.py)
        names = sorted(world.system)
        needed = {home for needs in world.depends_on.values() for name in needs for home in world.homes[name]}
        goes = data.draw(st.sampled_from([None, *(name for name in names[1:] if name not in needed)]))
        restarted = data.draw(st.lists(st.sampled_from(names), unique=True))
        changes: dict[str, dict[str, tuple[str, ...]] | None] = {} if goes is None else {goes: None}
        if data.draw(st.booleans()):
            comes = data.draw(st.sampled_from([name for name in ("new", "newer") if name not in names] or ["newest"]))
            if comes not in names:
                changes[comes] = {f"of_{comes}": ()}
        world.reconfigure(*(name for name in restarted if name != goes), **changes)

    @precondition(lambda self: self.is_in_cluster and self.world.ended is None and self.world.director.mode == "up")
    @rule()
    def this_node_is_primary(self) -> None:
        """As it may be once nothing here is."""
        if standing_by.is_clear(self.world.director.children):
            self.world.tell(events.Granted(1))

    @precondition(lambda self: self.is_in_cluster and self.world.ended is None)
    @rule(left_ns=st.none() | st.integers(0, 5 * SECOND_NS))
    def it_is_primary_no_more(self, left_ns: int | None) -> None:
        """In its own time, or by a moment at which all that was primary is dead, whatever it does."""
        world = self.world
        gone_by_ns = None if left_ns is None else world.now_ns + left_ns
        world.tell(events.Withdrawn("the lease is over", gone_by_ns))
        if gone_by_ns is None:
            return
        while world.ended is None and world.now_ns < gone_by_ns:
            wakes_ns = world.director.wakes_at_ns()
            is_killed = any(process.is_killed for process in world.processes.values())  # its end wakes the director
            assert wakes_ns is not None or is_killed or standing_by.is_clear(world.director.children)
            world.now_ns = gone_by_ns if wakes_ns is None else min(max(world.now_ns, wakes_ns), gone_by_ns)
            world.tell(events.TimePassed())
        if world.ended is None:
            world.tell(events.TimePassed())
            while name := next((name for name, process in world.processes.items() if process.is_killed), None):
                world.die(name, -9)
        assert world.ended is not None or standing_by.is_clear(world.director.children)

    @invariant()
    def the_director_knows_who_lives(self) -> None:
        for name, child in self.world.director.children.items():
            assert child.process.is_living == (name in self.world.processes)
            if child.process.phase in (Phase.STARTING, Phase.STOPPING):
                assert child.process.deadline_ns is not None, "every wait has an end"
            if child.drain.phase is DrainPhase.RUNNING:
                assert child.process.phase in (Phase.DRAINING, Phase.KILLED)
                assert child.process.deadline_ns is not None or child.process.phase is Phase.KILLED, (
                    "every wait has an end"
                )

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
TestAnyOrder.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)


def test_ordered_down_it_stops_in_reverse_order() -> None:
    """A component that loses what it depends on before its own last hook cannot put its work in order."""
    world, downs = up_world(), []
    obey_move = world._obey_move

    def note(home: str, process: LivingProcess, component: str, to: ModuleState) -> None:
        downs.append(component)
        obey_move(home, process, component, to)

    world._obey_move = note  # type: ignore[method-assign]
    world.order_down()
    world.do_what_is_asked()
    assert world.ended == effects.End(0, "SIGTERM")
    assert downs.index("top") < downs.index("middle") < downs.index("base")
    assert downs.index("top") < downs.index("side")


def test_the_directory_names_those_who_have_never_registered() -> None:
    """Until they have, nobody knows their routes: whoever asks for one is told that, and not that there is none."""
    assert make_director().directory.missing == ("first", "second", "third"), "before anything has begun"
    world = World(make_director())
    world.tell(events.UpOrdered())
    for name, left in (("second", ("first", "third")), ("first", ("third",)), ("third", ())):
        world.register(name)
        assert world.director.directory.missing == left
    world.die("second", -9)
    assert world.director.directory.missing == (), "its routes are known"


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
    assert child.process.phase is Phase.FAILED
    assert (
        child.history.reason == "killed by signal 11: its last line; given up: 3 restarts within 60 s were not enough"
    )
    assert world.director.mode == "up"
    assert set(world.processes) == {"second", "third"}


def test_one_that_hangs_writes_its_stacks_is_killed_and_comes_back() -> None:
    """As any other death: counted, with its reason; those beside it are left alone."""
    world = up_world()
    done: list[effects.Effect] = []
    while not done:
        world.now_ns += SECOND_NS // 2
        done = world.look(silent={"second"})
    assert [effect for effect in done if not isinstance(effect, effects.Say)] == [
        effects.TakeStacks("second", 1, by_force=True)
    ]
    assert not world.processes["second"].is_killed, "first its stacks"
    world.tell(events.Wrote("second", 1))
    assert world.pass_time()
    assert world.processes["second"].is_killed
    world.do_what_is_asked()
    child = world.director.children["second"]
    assert (child.process.generation, child.process.restarts) == (2, 1)
    assert child.history.reason is not None and child.history.reason.startswith("unknown: no heartbeat for 5")
    assert [process.generation for process in world.processes.values()] == [1, 1, 2]
    world.now_ns += SECOND_NS
    assert world.look() == []


def test_one_that_crashes_while_its_stacks_are_read_is_told_of_as_what_it_was() -> None:
    """Reading them by force may do that; "killed by signal 11" alone would send whoever mends it the wrong way."""
    world = up_world()
    while not world.look(silent={"second"}):
        world.now_ns += SECOND_NS // 2
    world.die("second", -11)
    reason = world.director.children["second"].history.reason
    assert reason is not None and reason.startswith("unknown: no heartbeat for 5")
    assert reason.endswith("; killed by signal 11: its last line")


def test_one_that_hangs_while_all_go_down_is_left_to_their_limits() -> None:
    """`stop_limit` is when it is killed; a second judge would only make it unclear why."""
    world = up_world()
    while not world.look(silent={"second"}):
        world.now_ns += SECOND_NS // 2
    world.order_down()
    for _ in range(8):
        world.now_ns += SECOND_NS
        world.tell(events.TimePassed())
        world.look(silent={"second"})
    assert not world.processes["second"].is_killed


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
    while any(process.moving or process.is_draining for process in world.processes.values()):
        for name, process in list(world.processes.items()):
            if process.is_draining:
                world.finish_draining(name)
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
    while world.ended is None and world.pass_time():  # nobody does what it is told: all limits pass
        while name := next((name for name, process in world.processes.items() if process.is_killed), None):
            world.die(name, -9)
    assert world.ended is not None
    assert world.director.children["first"].process.generation == 2
