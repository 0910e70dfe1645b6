"""Health: who is well, however it looks, is left alone; who hangs is replaced in time. A false alarm kills work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.execution.urgency.board import BoardSlot
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.supervisor.direction.child.child import Child
from appbackplane.supervisor.direction.child.process import Phase
from appbackplane.supervisor.direction.effects import Effect, Say, TakeStacks
from appbackplane.supervisor.direction.events import Looked, Sight, Wrote
from appbackplane.supervisor.direction.health import (
    SILENT_NS,
    STACKS_LIMIT_NS,
    STACKS_QUIET_NS,
    STUCK_AFTER_NS,
    HealthWatch,
)

from ..world import child_settings

SECOND_NS = 1_000_000_000
BEAT_NS = SECOND_NS // 4
HOUR_S, DAY_S = 3600.0, 86_400.0
#: Where monotonic time happens to be.
START_NS = 7 * 10**15


def slot(
    *,
    heartbeat_ns: int = START_NS,
    running_since_ns: int = 0,
    queued_count: int = 0,
    cpu_ns: int = 0,
    ready_count: int = 0,
    progress_ns: int = 0,
) -> BoardSlot:
    """What a backplane says of itself."""
    return BoardSlot(
        1, 1, heartbeat_ns, 0, queued_count, 0, running_since_ns, cpu_ns, 0, 0, 0, None, ready_count, progress_ns
    )


def living(phase: Phase = Phase.UP) -> Child:
    """One that is up."""
    child = Child("query", child_settings())
    child.spawn(START_NS)
    child.process.enter(phase, START_NS)
    return child


def replace_process(child: Child) -> None:
    """Its next generation is up."""
    child.spawn(START_NS)
    child.process.enter(Phase.UP, START_NS)


@dataclass
class Play:
    """A backplane that does as it is told, a supervisor that looks, and a clock."""

    stuck_after_ns: int = STUCK_AFTER_NS
    now_ns: int = START_NS
    #: What it does.
    beats: bool = True
    gets_on: bool = True
    ready_count: int = 0
    cpu_percent: int = 0
    #: What the kernel does to it.
    limit_percent: int | None = None
    is_stopped: bool = False
    is_traced: bool = False
    is_up: bool = True

    def __post_init__(self) -> None:
        self.child = living()
        self.begin()
        self.slot = slot()
        self.effects: list[Effect] = []
        self.killed: list[str] = []

    def begin(self) -> None:
        """The supervisor."""
        self.watch = HealthWatch({"query": self.child}, {"query": self.stuck_after_ns})

    def live(self, seconds: float, *, is_watched: bool = True) -> None:
        """So much time passes; nobody looks unless `is_watched`, and nobody looks after a kill."""
        end_ns = self.now_ns + round(seconds * SECOND_NS)
        while self.now_ns < end_ns and not self.killed:
            self.now_ns = min(end_ns, self.now_ns + (self.watch.look_every_ns if is_watched else end_ns))
            if self.beats:
                heartbeat_ns = self.now_ns // BEAT_NS * BEAT_NS
                passed_ns = heartbeat_ns - self.slot.heartbeat_ns
                self.slot = self.slot._replace(
                    heartbeat_ns=heartbeat_ns,
                    progress_ns=heartbeat_ns if self.gets_on else self.slot.progress_ns,
                    ready_count=self.ready_count,
                    queued_count=self.ready_count,
                    cpu_ns=self.slot.cpu_ns + passed_ns * self.cpu_percent // 100,
                )
            if is_watched:
                self.look()

    def look(self) -> None:
        """One look, and what follows."""
        seen = self.watch.suspects()
        sight = Sight(
            self.slot,
            self.limit_percent,
            is_stopped=self.is_stopped and "query" in seen,
            is_traced=self.is_traced and "query" in seen,
        )
        self.effects += self.watch.take(Looked({"query": sight}), self.now_ns, is_judging=self.is_up)
        self.killed += [reason for _, reason in self.watch.due(self.now_ns, is_judging=self.is_up)]

    @property
    def is_replaced(self) -> bool:
        return bool(self.effects or self.killed)

    @property
    def word(self) -> str:
        return self.watch.of(self.child, self.slot, self.now_ns).value


# Who is left alone

LEFT_ALONE: dict[str, Callable[[Play], None]] = {
    "has nothing to do": lambda play: play.__dict__.update(gets_on=False),
    "works": lambda play: play.__dict__.update(ready_count=1000, cpu_percent=100),
    "runs one action for a day, and nobody waits": lambda play: play.__dict__.update(gets_on=False, cpu_percent=100),
    "waits for replies, or for its tick": lambda play: play.__dict__.update(gets_on=False, cpu_percent=5),
    "goes up or down": lambda play: play.child.process.enter(Phase.STOPPING, START_NS),
    "goes down with another": lambda play: play.child.departure.begin(frozenset()),
    "runs a hook whose time is not over": lambda play: play.child.components.begin_move(
        "query", ModuleState.PRIMARY, 1
    ),
    "runs its last hook": lambda play: play.child.components.begin_move("query", ModuleState.DOWN, None),
    "belongs to a system that is not up": lambda play: setattr(play, "is_up", False),
    "has a debugger at it": lambda play: setattr(play, "is_traced", True),
    "may be stuck for ever": lambda play: setattr(play, "stuck_after_ns", 0),
}
#: These are left alone, whatever else is true of them.
WHATEVER_IT_DOES = list(LEFT_ALONE)[4:]


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_who_is_well_is_left_alone(case: str) -> None:
    """For a day, while nobody touches it."""
    play = Play()
    LEFT_ALONE[case](play)
    play.begin()
    play.live(DAY_S / 4)
    assert not play.is_replaced


@pytest.mark.parametrize("case", WHATEVER_IT_DOES)
@pytest.mark.parametrize("beats", [True, False], ids=["wedged", "silent"])
def test_others_set_the_limits_of_those(case: str, beats: bool) -> None:
    """A limit of a hook is `start_limit`, of an end `stop_limit`; whoever debugs has no limit."""
    play = Play()
    LEFT_ALONE[case](play)
    play.begin()
    play.live(1)
    play.beats, play.gets_on, play.ready_count, play.is_stopped = beats, False, 3, not beats
    play.live(HOUR_S)
    assert not play.is_replaced


def test_a_hook_whose_time_is_over_is_no_excuse_any_more() -> None:
    """It has been shown as failed; from then on its backplane is judged as any other, and from the start."""
    play = Play(gets_on=False, ready_count=1)
    play.child.components.begin_move("query", ModuleState.PRIMARY, 1)
    play.live(120)
    play.child.components.give_up_hook("query", "it has not ended", 1)
    play.live(58)
    assert not play.is_replaced
    play.live(5)
    assert play.is_replaced


@pytest.mark.parametrize("limit_percent", [1, 10, 50, 150])
def test_who_is_kept_at_its_limit_is_given_time(limit_percent: int) -> None:
    """Law 5. What takes 30 s of a core takes 50 min at 1 %, and has not hung for any of them."""
    play = Play(gets_on=False, ready_count=9, cpu_percent=limit_percent, limit_percent=limit_percent)
    play.live(60 * 100 / max(100, limit_percent) * 100 / min(100, limit_percent) * 0.95)
    assert not play.is_replaced


def test_who_turns_in_circles_within_its_limit_is_found_all_the_same() -> None:
    """After `stuck_after` of its own time."""
    play = Play(gets_on=False, ready_count=9, cpu_percent=10, limit_percent=10)
    play.live(620)
    assert play.is_replaced


def test_who_uses_nothing_of_its_limit_is_not_slow_but_stuck() -> None:
    """A lock costs no CPU."""
    play = Play(gets_on=False, ready_count=9, cpu_percent=1, limit_percent=10)
    play.live(63)
    assert play.is_replaced


def test_a_second_of_sigstop_is_nothing() -> None:
    """And ten of them in a row are nothing either: each heartbeat in between is a sign of life."""
    play = Play(ready_count=1)
    for _ in range(100):
        play.beats = False
        play.live(50)
        play.beats = True
        play.live(1)
    assert not play.is_replaced


@pytest.mark.parametrize("beats", [True, False], ids=["which worked on", "which was frozen, too"])
def test_a_supervisor_that_was_stopped_finds_nobody_overdue(beats: bool) -> None:
    """SIGSTOP, a closed lid: what it did not see, it does not judge. Who really hangs is found later."""
    play = Play(ready_count=1)
    play.live(5)
    play.beats, play.gets_on = beats, False
    play.live(HOUR_S, is_watched=False)
    play.look()
    play.live(0.3, is_watched=False)
    play.look()
    assert not play.is_replaced
    play.beats = True
    play.live(20)
    assert not play.is_replaced
    play.live(60)
    assert play.is_replaced


def test_what_was_ready_need_not_be_ready_all_the_time() -> None:
    """Callers that wait for 30 s and give up, one after the other: with a gap between them, nobody would ever be replaced."""
    play = Play(gets_on=False)
    for _ in range(4):
        play.ready_count = 1
        play.live(19)
        play.ready_count = 0
        play.live(5)
    assert play.is_replaced
    patient = Play(gets_on=False)
    for _ in range(100):
        patient.ready_count, patient.gets_on = 1, False
        patient.live(50)
        patient.gets_on = True
        patient.live(1)
    assert not patient.is_replaced


# Who is replaced


@pytest.mark.parametrize("stuck_after_s", [1, 5, 60, 3600])
@pytest.mark.parametrize("beats", [True, False], ids=["wedged", "silent"])
def test_who_hangs_is_replaced_in_time(stuck_after_s: int, beats: bool) -> None:
    """Not before, and a tenth later at most, or two looks; with its stacks first."""
    play = Play(stuck_after_ns=stuck_after_s * SECOND_NS, ready_count=12)
    play.live(10)
    play.beats, play.gets_on = beats, False
    play.live(stuck_after_s - BEAT_NS / SECOND_NS - play.watch.look_every_ns / SECOND_NS)
    assert not play.is_replaced
    play.live(stuck_after_s * 0.1 + 2.5)
    said, asked = play.effects
    assert asked.by_force is not beats, "where the sentinel answers, nothing is done behind its back"
    assert isinstance(said, Say) and isinstance(asked, TakeStacks)
    assert (
        "wedged: work is ready (12 actions queued), nothing begun or finished for "
        if beats
        else "unknown: no heartbeat"
    ) in said.text
    play.live(STACKS_LIMIT_NS / SECOND_NS + 1)
    assert len(play.killed) == 1


def test_stacks_are_waited_for_until_they_are_written() -> None:
    """As long as lines come, and no longer than the limit."""
    for count, waits_ns in (
        (0, STACKS_LIMIT_NS),
        (3, 3 * STACKS_QUIET_NS // 2 + STACKS_QUIET_NS),
        (99, STACKS_LIMIT_NS),
    ):
        play = Play(gets_on=False, ready_count=1)
        while not play.effects:
            play.live(1)
        asked_ns = play.now_ns
        assert play.watch.awaits_stacks("query")
        play.watch.take(Wrote("query", 0), asked_ns, is_judging=True)  # of a dead one
        for number in range(count):
            now_ns = asked_ns + (number + 1) * STACKS_QUIET_NS // 2
            if now_ns <= (play.watch.wakes_at_ns() or 0):
                play.watch.take(Wrote("query", 1), now_ns, is_judging=True)
        wakes_ns = play.watch.wakes_at_ns()
        assert wakes_ns == asked_ns + waits_ns
        assert play.watch.due(wakes_ns - 1, is_judging=True) == []
        [(child, reason)] = play.watch.due(wakes_ns, is_judging=True)
        assert child is play.child
        assert reason.endswith("stacks are in the log" if count else "it did not write its stacks within 1 s")
        assert play.watch.due(wakes_ns, is_judging=True) == [], "once"


def test_of_one_that_is_stopped_no_stacks_are_expected() -> None:
    """It cannot write any; and who has stopped it for a minute has not meant a second."""
    play = Play(beats=False, is_stopped=True)
    play.live(63)
    assert play.effects == []
    assert play.killed[0].startswith("unknown: no heartbeat for 6")
    assert play.killed[0].endswith("it is stopped (SIGSTOP), so it could not write its stacks")


def test_who_dies_or_goes_meanwhile_is_not_killed() -> None:
    """The number of the process may be somebody else's by then."""
    for change in (lambda c: c.process.enter(Phase.STOPPING, 0), replace_process):
        play = Play(gets_on=False, ready_count=1)
        while not play.effects:
            play.live(1)
        change(play.child)
        play.live(30)
        assert play.killed == []
        assert play.watch.wakes_at_ns() is None


def test_a_new_generation_begins_with_fresh_clocks() -> None:
    """Or it would be killed for what the last one has done."""
    play = Play(gets_on=False, ready_count=1)
    play.live(50)
    replace_process(play.child)
    play.live(50)
    assert not play.is_replaced


# What it is called


def test_no_answer_means_unknown_and_not_dead() -> None:
    """Whoever takes silence for death restarts what works hard."""
    watch, child = HealthWatch({}, {}), living()
    assert watch.of(child, None, START_NS) == "unknown"
    assert watch.of(child, slot(heartbeat_ns=0), START_NS) == "unknown"
    assert watch.of(child, slot(heartbeat_ns=START_NS - SILENT_NS - 1), START_NS) == "unknown"
    assert watch.of(child, slot(heartbeat_ns=START_NS - SILENT_NS), START_NS) == "idle"


def test_who_has_left_a_question_unanswered_and_has_not_beaten_since_says_nothing() -> None:
    """A figure that is missing and a health that says "busy" would contradict each other."""
    watch, child = HealthWatch({}, {}), living()
    assert watch.of(child, slot(heartbeat_ns=START_NS - 2, queued_count=1), START_NS, START_NS - 1) == "unknown"
    assert watch.of(child, slot(heartbeat_ns=START_NS, queued_count=1), START_NS, START_NS - 1) == "busy"


def test_busy_is_work_that_runs_or_waits() -> None:
    """Each of them alone."""
    watch, child = HealthWatch({}, {}), living()
    assert watch.of(child, slot(running_since_ns=1), START_NS) == "busy"
    assert watch.of(child, slot(queued_count=1), START_NS) == "busy"


def test_dead_is_known_from_the_process_alone() -> None:
    """Whatever its slot still says."""
    assert HealthWatch({}, {}).of(living(Phase.FAILED), slot(running_since_ns=1), START_NS) == "dead"


def test_a_process_that_a_debugger_has_released_has_time_to_beat_again() -> None:
    """The silence under the debugger does not count. If it did, detaching would get the process killed at the next look."""
    play = Play(stuck_after_ns=4 * SECOND_NS, beats=False, is_traced=True)
    play.live(HOUR_S)
    play.is_traced = False
    play.live(1.9)
    assert not play.is_replaced
    play.live(4)
    assert play.is_replaced


@pytest.mark.parametrize("stuck_after_ns", [0, 5 * SECOND_NS])
def test_wedged_is_shown_also_where_nothing_is_done_about_it(stuck_after_ns: int) -> None:
    """Until it gets on."""
    play = Play(stuck_after_ns=stuck_after_ns, is_traced=True, gets_on=False, ready_count=2)
    play.live((stuck_after_ns or STUCK_AFTER_NS) / SECOND_NS - 2)
    assert play.word == "busy"
    play.live(4)
    assert play.word == "wedged"
    assert not play.is_replaced
    play.gets_on = True
    play.live(1, is_watched=False)
    assert play.word == "busy", "at once, and not only when it was looked at again"


# All orders of things

Step = tuple[float, bool, bool, int, bool]
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.1, 0.25, 1.0, 2.0, 7.0, 100.0]),  # how long it lasts
        st.booleans(),  # it beats
        st.booleans(),  # it gets on
        st.integers(0, 2),  # ready
        st.booleans(),  # somebody looks
    ),
    max_size=60,
)


def overdue_s(steps: Iterable[Step], look_s: float) -> tuple[float, float]:
    """Twin: how long it has been silent and stalled at most, as far as it can have been seen: all from the beginning."""
    silent = stalled = silent_max = stalled_max = 0.0
    for lasts, beats, gets_on, ready, _ in steps:
        silent = 0.0 if beats else silent + lasts
        if beats and gets_on:
            stalled = 0.0
        elif ready:
            stalled += lasts + look_s
        silent_max, stalled_max = max(silent_max, silent + 2 * look_s), max(stalled_max, stalled + 2 * look_s)
    return silent_max, stalled_max


@given(steps=STEPS, stuck_after_s=st.sampled_from([1, 3, 10, 60]))
def test_nobody_is_replaced_who_was_not_overdue(steps: list[Step], stuck_after_s: int) -> None:
    """In no order of stops, stalls and looks that fail to come."""
    play = Play(stuck_after_ns=stuck_after_s * SECOND_NS)
    for number, (lasts, beats, gets_on, ready, is_watched) in enumerate(steps):
        play.beats, play.gets_on, play.ready_count = beats, gets_on, ready
        play.live(lasts, is_watched=is_watched)
        if play.effects:
            longest_s = max(overdue_s(steps[: number + 1], play.watch.look_every_ns / SECOND_NS))
            assert longest_s >= stuck_after_s
            return


@given(steps=STEPS, stuck_after_s=st.sampled_from([1, 3, 10, 60]), beats=st.booleans())
def test_whatever_was_before_who_hangs_is_replaced(steps: list[Step], stuck_after_s: int, beats: bool) -> None:
    """Within `stuck_after` and three looks of being watched."""
    play = Play(stuck_after_ns=stuck_after_s * SECOND_NS)
    for lasts, does_beat, gets_on, ready, is_watched in steps:
        play.beats, play.gets_on, play.ready_count = does_beat, gets_on, ready
        play.live(lasts, is_watched=is_watched)
    play.beats, play.gets_on, play.ready_count = beats, False, 1
    play.live(stuck_after_s + 0.5 + 3 * play.watch.look_every_ns / SECOND_NS)
    assert play.effects
