"""Mashups in a virtual backplane: rules hear things, call them as their principal, and say what they have done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import Component, DeclarationError, FailedPrecondition, NotFound, current, operation, pause
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things import Thing, action, event, prop
from appbackplane.runtime.things.mashups import Cause, Mashup, thing, things, when
from appbackplane.runtime.things.mashups.deciding import HOPS_MAX
from appbackplane.runtime.things.mashups.hops import hops_of, trace_after

HALL = "urn:appbackplane:house:hall"


class Lamp(Thing):
    """A lamp that reports movements."""

    def __init__(self) -> None:
        self.level = 7
        self.seen: list[tuple[Any, ...]] = []

    @prop(observable=True)
    def brightness(self) -> int:
        return self.level

    @brightness.write
    def set_brightness(self, value: int) -> None:
        self.level = value

    @prop
    def serial(self) -> str:
        return "A-7"

    @action
    async def fade(self, to: int, seconds: float = 1.0) -> int:
        self.seen.append(("fade", to, current().principal))
        await pause(seconds)
        self.level = to
        return to

    @action
    def refuse(self) -> None:
        raise FailedPrecondition("it is locked")

    moved = event(dict[str, str | int])
    off = event()

    @operation()
    def move(self, level: int, id: str | None = None) -> None:
        self.moved.emit({"level": level} if id is None else {"level": level, "id": id})

    @operation()
    def switch(self) -> None:
        self.off.emit()


class House(Component):
    def setup(self) -> None:
        for key in ("hall", "attic"):
            self.add(Lamp(), key=key)


class Evening(Mashup):
    """Lights follow people."""

    run_as = "rule:evening"
    hall, attic = thing("house", "hall"), thing("house", "attic")

    def __init__(self, folder: Path | None = None) -> None:
        self.journal_folder = None if folder is None else str(folder)
        self.causes: list[Cause] = []

    @when(hall.moved, mode="restart", priority=1)
    async def light(self, event: Cause) -> None:
        await self.attic.fade(to=event.data["level"])
        await pause(60)
        await self.attic.write("brightness", 0)

    @when(hall.change("brightness"), if_=lambda event: event.data < 50)
    async def note(self, event: Cause) -> None:
        self.causes.append(event)

    @when(things("urn:appbackplane:house:*").off, debounce=2.0, mode="queued")
    async def fail(self, event: Cause) -> None:
        await self.hall.invoke("refuse")

    @when(attic.moved, mode="queued")
    async def slow(self, event: Cause) -> None:
        await self.hall.fade(to=1, seconds=10)


class Home(Component):
    """Holds the mashup."""

    def __init__(self, mashup: Mashup) -> None:
        self.mashup = mashup

    def setup(self) -> None:
        self.add(self.mashup, key="evening")


class Place:
    """A house and a mashup in one backplane."""

    def __init__(self, mashup: Mashup | None = None) -> None:
        self.mashup = mashup or Evening()
        self.house = House()
        self.backplane = VirtualBackplane(self.house, Home(self.mashup))
        self.backplane.advance(1.0)

    def lamp(self, key: str) -> Lamp:
        found = next(each for each in self.house.objects if each.key == key)
        assert isinstance(found, Lamp)
        return found

    def call(self, lamp: str, route: str, **arguments: Any) -> None:
        self.backplane.call(f"house.{route}", key=lamp, **arguments).result()

    def ask(self, operation: str, **arguments: Any) -> Any:
        return self.backplane.call(f"home.{operation}", key="evening", **arguments).result()

    def outcomes(self, rule: str) -> list[tuple[str, str]]:
        """Outcomes and errors of its runs, the newest first."""
        return [(line["outcome"], line["error"]) for line in self.ask("runs", rule=rule)]


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_rule_runs_as_its_principal(place: Place) -> None:
    """So that access rules hold for it, and not for whoever has caused the event."""
    place.call("hall", "move", level=50)
    place.backplane.advance(1.0)
    assert place.lamp("attic").seen == [("fade", 50, "rule:evening")] and place.lamp("attic").level == 50
    assert place.outcomes("light") == [("running", "")]
    place.backplane.advance(60.0)
    assert place.lamp("attic").level == 0
    [line] = place.ask("runs", rule="light")
    assert (line["outcome"], line["cause"]["thing"]) == ("completed", HALL)
    assert line["steps"] == ["house.fade attic", "pause 60", "house.set_brightness attic"]
    assert line["ended"] - line["started"] == 61.0


def test_restart_stops_the_running_one(place: Place) -> None:
    """At its await, and what it awaits is cancelled: the lamp never reaches the first level."""
    place.call("hall", "move", level=50)
    place.backplane.advance(0.5)
    place.call("hall", "move", level=60)
    place.backplane.advance(0.7)
    assert place.lamp("attic").level == 7, "the first fade would have ended by now"
    place.backplane.advance(0.3)
    assert place.lamp("attic").level == 60
    place.backplane.advance(10.0)
    place.call("hall", "move", level=70)
    place.backplane.run_until_idle()
    assert place.outcomes("light") == [("running", ""), *[("stopped", "a later trigger restarted it")] * 2]


def test_a_change_is_heard_once_and_with_the_value_before(place: Place) -> None:
    """The first value is asked for at the start, so that the first change counts; the condition decides which do."""
    for level in (7, 40, 40, 80, 30):
        place.call("hall", "set_brightness", value=level)
    place.backplane.run_until_idle()
    assert [(each.previous, each.data) for each in place.mashup.__dict__["causes"]] == [(7, 40), (80, 30)]


def test_a_pattern_and_a_debounce(place: Place) -> None:
    """Many things start one rule, when there has been silence; an error of a thing ends the run, with its words."""
    for lamp in ("hall", "attic", "hall"):
        place.call(lamp, "switch")
        place.backplane.advance(1.5)
    assert place.outcomes("fail") == []
    place.backplane.advance(1.0)
    assert place.outcomes("fail") == [("failed", "FailedPrecondition: it is locked")]
    [status] = [each for each in place.ask("rules") if each["name"] == "fail"]
    assert status["skipped"] == {"debounce: a later trigger replaced it": 2}


class Rude(Mashup):
    """A rule changes what it gets."""

    hall = thing("house", "hall")

    def __init__(self) -> None:
        self.levels: list[Any] = []

    @when(hall.moved)
    async def first(self, event: Cause) -> None:
        event.data["level"] = 99

    @when(hall.moved)
    async def second(self, event: Cause) -> None:
        self.levels.append(event.data["level"])


def test_rules_do_not_share_an_event() -> None:
    """As objects do not share a list by accident."""
    mashup = Rude()
    place = Place(mashup)
    place.call("hall", "move", level=1)
    place.backplane.run_until_idle()
    assert mashup.levels == [1]


class Everywhere(Mashup):
    @when(things("urn:appbackplane:house:*").change("brightness"), mode="parallel")
    async def note(self, event: Cause) -> None: ...

    @when(things("urn:*").moved, priority=8)
    async def never(self, event: Cause) -> None: ...


def test_the_first_value_of_a_pattern_is_no_change(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody knows the value before. A value that is published again, for a new gateway, is none either."""
    place = Place(Everywhere())
    for level in (5, 5, 6):
        for lamp in ("hall", "attic"):
            place.call(lamp, "set_brightness", value=level)
            place.call(lamp, "notify_all")
    place.backplane.run_until_idle()
    assert [(line["cause"]["previous"], line["cause"]["data"]) for line in place.ask("runs", rule="note")] == [
        (5, 6)
    ] * 2
    assert [line for line in caplog.records if line.exc_info] == []


def test_a_priority_that_the_backplane_does_not_have_is_told() -> None:
    """Before anything is scheduled with it."""
    place = Place(Everywhere())
    place.call("hall", "move", level=1)
    place.backplane.run_until_idle()
    place.ask("enable", rule="never")
    place.call("hall", "move", level=1)
    place.backplane.run_until_idle()
    assert place.outcomes("never") == [("refused", "priority = 8: this backplane has 0 to 7")] * 2


def test_a_key_counts_once(place: Place) -> None:
    """The second event with it is counted. It has no line: a device that repeats itself must not fill the log."""
    for _ in range(2):
        place.call("attic", "move", level=1, id="a")
    place.call("attic", "move", level=1, id="b")
    place.backplane.advance(30.0)
    assert [(line["cause"]["key"], line["outcome"]) for line in place.ask("runs", rule="slow")] == [
        ("b", "completed"), ("a", "completed"),
    ]  # fmt: skip
    [status] = [each for each in place.ask("rules") if each["name"] == "slow"]
    assert status["skipped"] == {"an event with this key has started the rule before": 1}


def test_a_skipped_event_with_a_key_has_a_line(place: Place) -> None:
    """Somebody may ask where it has gone."""
    place.ask("disable", rule="slow")
    place.call("attic", "move", level=1, id="a")
    place.backplane.run_until_idle()
    assert place.outcomes("slow") == [("skipped", "the rule is disabled")]


def test_a_dry_run_calls_nothing(place: Place) -> None:
    """It lists the calls with their input, and says where it cannot know more."""
    said = place.ask("dry_run", rule="light", event={"data": {"level": 3}})
    assert said == {
        "would_run": True, "reason": "", "ends_early": "",
        "steps": [
            {"route": "house.fade", "key": "attic", "input": {"to": 3}}, {"pause": 60.0},
            {"route": "house.brightness", "key": "attic", "input": {"value": 0}},
        ],
    }  # fmt: skip
    assert place.ask("dry_run", rule="note", event={"data": 90})["reason"] == "its condition does not hold"
    assert "KeyError" in place.ask("dry_run", rule="light", event={"data": {}})["ends_early"]
    assert place.lamp("attic").seen == [] and place.ask("runs") == []
    assert isinstance(place.backplane.call("home.dry_run", key="evening", rule="lite").exception(), NotFound)


def test_rules_are_run_and_disabled_by_hand(place: Place) -> None:
    """As actions of the thing that a mashup is; its event tells each end."""
    assert place.ask("run", rule="note", event={"data": 90}) == "its condition does not hold"
    assert place.ask("run", rule="note", event={"data": 9, "previous": 8}) == ""
    place.backplane.run_until_idle()
    assert place.outcomes("note") == [("completed", "")]
    place.ask("disable", rule="note")
    assert place.ask("run", rule="note", event={"data": 9}) == "the rule is disabled"
    place.ask("enable", rule="note")
    assert place.ask("run", rule="note", event={"data": 9}) == ""
    described = place.ask("describe")
    assert {"run", "runs", "dry_run", "enable", "disable"} <= set(described["actions"])
    assert set(described["events"]) == {"ran"} and set(described["properties"]) == {"rules"}


class Loop(Mashup):
    """Two rules that answer each other."""

    hall, attic = thing("house", "hall"), thing("house", "attic")

    @when(hall.change("brightness"))
    async def up(self, event: Cause) -> None:
        await self.attic.write("brightness", event.data)

    @when(attic.change("brightness"))
    async def down(self, event: Cause) -> None:
        await self.hall.write("brightness", event.data + 1)


def test_a_loop_ends() -> None:
    """The number of runs travels with the calls and the notifications, so it is known whatever lies between."""
    place = Place(Loop())
    place.call("hall", "set_brightness", value=20)
    place.backplane.run_until_idle()
    lines = place.ask("runs")
    assert [line["outcome"] for line in lines].count("completed") == HOPS_MAX
    assert [line["error"].partition(":")[0] for line in lines if line["outcome"] == "skipped"] == ["hop limit"]
    place.call("hall", "set_brightness", value=50)
    place.backplane.run_until_idle()
    assert [line["outcome"] for line in place.ask("runs")].count("completed") == 2 * HOPS_MAX, "it is over, not broken"


def test_hops_are_part_of_a_trace() -> None:
    """Which others pass on as it is; any other trace counts as no hop, and its sampling is kept."""
    other = f"00-{'a' * 32}-{'b' * 16}-01"
    trace = trace_after(3, other, "0123456789abcdef" * 3)
    assert len(trace) == len(other) and trace.endswith("-01") and hops_of(trace) == 3
    assert hops_of(other) == hops_of(None) == hops_of("") == 0
    assert hops_of(trace_after(4_000, None, "f" * 38)) == 255


class Strange(Mashup):
    """Names what is not there."""

    lamp, nobody = thing("house", "hall"), thing("garage")

    @when(lamp.exploded)
    async def first(self, event: Cause) -> None: ...

    @when(lamp.change("serial"))
    async def second(self, event: Cause) -> None: ...


class Fine(Mashup):
    lamp, cellar = thing("house", "hall"), thing("house", "cellar")

    @when(lamp.exploded)
    async def first(self, event: Cause) -> None: ...

    @when(lamp.off)
    async def second(self, event: Cause) -> None: ...


def test_what_is_not_there_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line for each rule, in both logs; it says what is meant instead."""
    place = Place(Strange())
    place.backplane.advance(5.0)
    told = {line["rule"]: (line["outcome"], line["error"]) for line in place.ask("runs")}
    assert len(place.ask("runs")) == 2 == len([line for line in caplog.messages if "is not run" in line])
    assert told["first"] == ("refused", "house/hall has no event 'exploded'")
    assert told["second"][1] == ("house/hall: property 'serial' is not observable, so its changes are not published")
    fine = Place(Fine())
    assert "there is no thing house/cellar" in fine.outcomes("second")[0][1]
    fine.house.add(Lamp(), key="cellar")
    for rule in ("first", "second"):
        fine.ask("enable", rule=rule)
    fine.backplane.advance(1.0)
    fine.call("hall", "switch")
    fine.backplane.run_until_idle()
    assert [outcome for outcome, _ in fine.outcomes("second")] == ["completed", "refused"]
    assert [each["refused"] for each in fine.ask("rules")] == ["house/hall has no event 'exploded'", ""]


def test_a_client_cannot_say_what_a_thing_says(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """It would start rules, with their rights, without any of its own."""
    body = {"thing": HALL, "process": "x", "kind": "event", "name": "moved", "data": {"level": 9}, "is_known": True}
    place.backplane.publish("things.notifications", **body)
    place.backplane.run_until_idle()
    assert place.ask("runs") == [] and "starts no rule" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "sigle"}, "mode = 'sigle': expected one of single, queued, restart, parallel"),
        ({"debounce": -1}, "debounce = -1: expected seconds"),
        ({"cooldown": True}, "cooldown = True: expected seconds"),
        ({"priority": 1.5}, "priority = 1.5"),
        ({"key": ""}, "key = ''"),
        ({"if_": 3}, "if_ = 3"),
    ],
)
def test_bad_options_are_refused_at_once(options: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words.replace("(", r"\(")):

        @when(thing("house").moved, **options)
        async def rule(self: Any, event: Cause) -> None: ...


def test_bad_declarations_are_refused_at_once() -> None:
    with pytest.raises(DeclarationError, match="expected triggers"):
        when("moved")(lambda: None)  # type: ignore[arg-type, type-var, return-value]
    with pytest.raises(DeclarationError, match="async def"):
        when(thing("house").moved)(lambda event: None)  # type: ignore[arg-type, type-var, return-value]
    with pytest.raises(DeclarationError, match="while a rule waits"):

        class Deaf(Mashup):
            interleaves = False

    with pytest.raises(DeclarationError, match="'look_for_things' belongs to the runtime"):

        class Blind(Mashup):
            async def look_for_things(self) -> None: ...

    with pytest.raises(DeclarationError, match="belongs to the runtime"):

        class Clash(Mashup):
            @when(thing("house").moved)
            async def request(self, event: Cause) -> None: ...  # type: ignore[override]


@contextmanager
def killed(folder: Path) -> Iterator[Place]:
    """A mashup whose process ends behind the block, whatever it is at."""
    place = Place(Evening(folder))
    yield place
    place.mashup._runner.close()


def test_a_new_process_goes_on_where_the_old_one_was_killed(tmp_path: Path) -> None:
    """What had begun is told and not repeated; what waited is run; what had ended is remembered; no key counts twice."""
    with killed(tmp_path) as place:
        for id in ("a", "b", "c"):
            place.call("attic", "move", level=1, id=id)
        place.backplane.advance(11.0)
        assert [outcome for outcome, _ in place.outcomes("slow")] == ["waiting", "running", "completed"]
    with killed(tmp_path) as place:
        for id in ("a", "b", "c"):
            place.call("attic", "move", level=1, id=id)
        place.backplane.advance(20.0)
        lines = {line["cause"]["key"]: line for line in place.ask("runs", rule="slow")}
        assert {key: line["outcome"] for key, line in lines.items()} == {
            "a": "completed", "b": "interrupted", "c": "completed",
        }  # fmt: skip
        assert "during it: house.fade hall. It is not run again" in lines["b"]["error"]
        assert place.lamp("hall").seen == [("fade", 1, "rule:evening")], "c alone"
        before = place.ask("runs")
    with killed(tmp_path) as place:
        assert place.ask("runs") == before


def test_one_process_has_the_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two would both start what they hear. The second goes on when the first is gone."""
    with killed(tmp_path):
        second = Place(Evening(tmp_path))
        second.call("attic", "move", level=1, id="a")
        second.backplane.advance(3.0)
        assert caplog.text.count("another process writes it") == 1
    second.backplane.advance(1.0)
    second.call("attic", "move", level=1, id="a")
    second.backplane.advance(11.0)
    assert second.outcomes("slow") == [("completed", "")]
    second.mashup._runner.close()
