"""Decisions about triggers: by mode, debounce, cooldown, hops and keys, under a clock that is a number."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime.things.mashups import deciding
from appbackplane.runtime.things.mashups.deciding import (
    COOLING,
    DEBOUNCED,
    DISABLED,
    DONE_ALREADY,
    HOP_LIMIT,
    HOPS_MAX,
    QUEUE_FULL,
    RUNNING,
    TOO_MANY,
    QueueRun,
    RuleEffect,
    RuleState,
    SkipTrigger,
    StartRun,
    StopRun,
    WakeAt,
)
from appbackplane.runtime.things.mashups.rule import MODES, Cause, RulePolicy
from tests.models.mashup_model import RuleModel

CAUSE = Cause("urn:lamp", "event", "moved")


class Written:
    """A rule whose starts are written down, as the runner does it."""

    def __init__(self, mode: str = "single", debounce_ns: int = 0, cooldown_ns: int = 0) -> None:
        self.keys: set[str | None] = set()
        self.state = RuleState(RulePolicy(mode, debounce_ns, cooldown_ns), lambda cause: cause.key in self.keys)

    def trigger(self, number: int, now_ns: int = 0, *, key: str | None = None, hops: int = 0) -> list[RuleEffect]:
        return self.written(self.state.trigger(number, replace(CAUSE, key=key, hops=hops), now_ns))

    def written(self, effects: list[RuleEffect]) -> list[RuleEffect]:
        for each in effects:
            if isinstance(each, StartRun | QueueRun):
                self.keys.add(each.cause.key)
        return effects


def reasons(effects: list[RuleEffect]) -> list[tuple[int, str]]:
    """The skipped triggers of effects that are nothing else."""
    assert all(isinstance(each, SkipTrigger) for each in effects)
    return [(each.number, each.reason) for each in effects if isinstance(each, SkipTrigger)]


def test_single_skips_while_it_runs() -> None:
    """Or a door that opens twice would greet twice at a time."""
    rule = Written("single")
    assert rule.trigger(1) == [StartRun(1, CAUSE)]
    assert reasons(rule.trigger(2)) == [(2, RUNNING)]
    assert rule.state.ended(1) == []
    assert rule.trigger(3) == [StartRun(3, CAUSE)]


def test_queued_runs_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order; and a queue that is full says so."""
    monkeypatch.setattr(deciding, "QUEUED_MAX", 2)
    rule = Written("queued")
    assert rule.trigger(1) == [StartRun(1, CAUSE)]
    assert rule.trigger(2) == [QueueRun(2, CAUSE)] and rule.trigger(3) == [QueueRun(3, CAUSE)]
    assert reasons(rule.trigger(4)) == [(4, QUEUE_FULL)]
    assert rule.state.ended(1) == [StartRun(2, CAUSE, is_new=False)]
    assert rule.trigger(5) == [QueueRun(5, CAUSE)]
    assert rule.state.ended(3) == [], "what was never written down waits no more"
    assert rule.state.ended(2) == [StartRun(5, CAUSE, is_new=False)]


def test_restart_stops_what_runs() -> None:
    """The newest trigger counts. The end of a stopped run is nobody's business any more."""
    rule = Written("restart")
    rule.trigger(1)
    assert rule.trigger(2) == [StopRun(1), StartRun(2, CAUSE)]
    assert rule.state.ended(1) == [] and rule.state.running_count == 1


def test_parallel_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storm of events must not fill the memory."""
    monkeypatch.setattr(deciding, "PARALLEL_MAX", 2)
    rule = Written("parallel")
    assert [rule.trigger(number)[0] for number in (1, 2)] == [StartRun(1, CAUSE), StartRun(2, CAUSE)]
    assert reasons(rule.trigger(3)) == [(3, TOO_MANY)]


def test_debounce_waits_for_silence() -> None:
    """A switch that bounces is one switch: the last trigger counts."""
    rule = Written(debounce_ns=100)
    assert rule.trigger(1, 0) == [WakeAt(100)]
    assert rule.trigger(2, 60) == [SkipTrigger(1, CAUSE, DEBOUNCED), WakeAt(160)]
    assert rule.state.wake(100) == [] and rule.state.wake(160) == [StartRun(2, CAUSE)]
    assert rule.state.wake(160) == []


def test_cooldown_counts_from_what_was_taken() -> None:
    """Skipped triggers do not prolong it."""
    rule = Written("parallel", cooldown_ns=100)
    rule.trigger(1, 0)
    assert reasons(rule.trigger(2, 99)) == [(2, COOLING)]
    assert rule.trigger(3, 100) == [StartRun(3, CAUSE)]


def test_a_skipped_trigger_begins_no_cooldown() -> None:
    """Else a rule that ran for long would be deaf after it."""
    rule = Written("single", cooldown_ns=100)
    rule.trigger(1, 0)
    assert reasons(rule.trigger(2, 150)) == [(2, RUNNING)]
    rule.state.ended(1)
    assert isinstance(rule.trigger(3, 160)[0], StartRun)


def test_hops_end() -> None:
    """Two rules that answer each other would do so for ever."""
    rule = Written()
    assert isinstance(rule.trigger(1, hops=HOPS_MAX - 1)[0], StartRun)
    assert reasons(rule.trigger(2, hops=HOPS_MAX)) == [(2, HOP_LIMIT)]


def test_a_key_starts_one_run() -> None:
    """Whether the first is running, waiting, ended, or held back meanwhile."""
    rule = Written("queued")
    rule.trigger(1, key="a")
    rule.trigger(2, key="b")
    assert reasons(rule.trigger(3, key="a") + rule.trigger(4, key="b")) == [(3, DONE_ALREADY), (4, DONE_ALREADY)]
    held = Written(debounce_ns=10)
    held.trigger(1, key="a")
    held.keys.add("a")
    assert reasons(held.state.wake(10)) == [(1, DONE_ALREADY)]


def test_a_skipped_trigger_takes_no_key() -> None:
    """The event may be sent again, and then starts its run."""
    rule = Written("single")
    rule.trigger(1, key="a")
    assert reasons(rule.trigger(2, key="b")) == [(2, RUNNING)]
    rule.state.ended(1)
    assert isinstance(rule.trigger(3, key="b")[0], StartRun)


def test_a_disabled_rule_forgets_what_waits() -> None:
    """What runs goes on."""
    rule = Written("queued")
    rule.trigger(1)
    rule.trigger(2)
    assert reasons(rule.state.disable()) == [(2, DISABLED)]
    assert reasons(rule.trigger(3)) == [(3, DISABLED)] and rule.state.running_count == 1
    held = Written(debounce_ns=10)
    held.trigger(1)
    assert reasons(held.state.disable()) == [(1, DISABLED)] and held.state.wake(10) == []


def test_recovered_triggers_obey_the_mode() -> None:
    """Their keys and their cooldown are their own; nothing is written a second time."""
    rule = Written("queued", cooldown_ns=100)
    rule.keys.add("a")
    first, second = replace(CAUSE, key="a"), replace(CAUSE, key="b")
    assert rule.state.recover(1, first) == [StartRun(1, first, is_new=False)]
    assert rule.state.recover(2, second) == [] and rule.state.queued_count == 1
    assert rule.state.ended(1) == [StartRun(2, second, is_new=False)]


STEP = st.tuples(
    st.sampled_from(["trigger", "trigger", "trigger", "time", "time", "end", "end", "disable", "enable"]),
    st.integers(0, 7),
)


@given(
    mode=st.sampled_from(sorted(MODES)), debounce_ns=st.sampled_from([0, 3]), cooldown_ns=st.sampled_from([0, 5]),
    steps=st.lists(STEP, max_size=60),
)  # fmt: skip
def test_decisions_are_those_of_the_model(
    mode: str, debounce_ns: int, cooldown_ns: int, steps: list[tuple[str, int]]
) -> None:
    """The same triggers run, wait, stop and are skipped, in the same order, whatever comes when."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deciding, "QUEUED_MAX", 2)
        patched.setattr(deciding, "PARALLEL_MAX", 3)
        rule = Written(mode, debounce_ns, cooldown_ns)
        model = RuleModel(mode, debounce_ns, cooldown_ns, HOPS_MAX, queued_max=2, parallel_max=3)
        now_ns, wake_ns, running = 0, None, list[int]()
        for number, (what, how) in enumerate(steps):
            effects: list[RuleEffect] = []
            if what == "trigger":
                key = str(how) if how < 4 else None
                hops = HOPS_MAX if how == 7 else 0
                effects = rule.trigger(number, now_ns, key=key, hops=hops)
                model.trigger(number, key, hops, now_ns)
            elif what == "time":
                now_ns += how
                if wake_ns is not None and now_ns >= wake_ns:
                    effects = rule.written(rule.state.wake(now_ns))
                model.pass_time(now_ns)
            elif what == "end" and running:
                ended = running.pop(how % len(running))
                effects = rule.written(rule.state.ended(ended))
                model.end(ended)
            elif what == "disable":
                effects = rule.state.disable()
                model.disable()
            elif what == "enable":
                rule.state.is_enabled = model.is_enabled = True
            for effect in effects:
                if isinstance(effect, StartRun):
                    running.append(effect.number)
                elif isinstance(effect, StopRun):
                    running.remove(effect.number)
                elif isinstance(effect, WakeAt):
                    wake_ns = effect.at_ns
                elif isinstance(effect, SkipTrigger):
                    skipped = next(each for each in model.history if each.number == effect.number)
                    assert skipped.state == "skipped", effect
            assert sorted(running) == [each.number for each in model.those("running")]
            assert rule.state.running_count == len(running)
            assert rule.state.queued_count == len(model.those("waiting"))
