"""Rules in TOML: they compile to what `@when` makes, and each mistake is one sentence; the journal that they share."""

from __future__ import annotations

import errno
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import Component, InvalidArgument, current
from appbackplane.runtime.testing import VirtualBackplane
from appbackplane.runtime.things import Thing, action, event, prop
from appbackplane.runtime.things.mashups import Cause, Rules
from appbackplane.runtime.things.mashups import journal as journal_module
from appbackplane.runtime.things.mashups.journal import Journal, JournalError
from appbackplane.runtime.things.mashups.rule import key_of
from appbackplane.runtime.things.mashups.run_log import (
    KeysTaken,
    RunBegun,
    RunEnded,
    RunLog,
    RunRecord,
    RunStep,
    RunTaken,
    TriggerSkipped,
)
from appbackplane.runtime.things.mashups.toml_rules import filled, rule_of

CAUSE = Cause("urn:lamp", "event", "moved", {"level": 80, "where": ["hall", "attic"], "id": "a"}, previous=7, key="a")
GOOD: dict[str, Any] = {
    "when": {"thing": "house/hall", "event": "moved"}, "do": {"thing": "house/hall", "action": "fade"}
}  # fmt: skip


class Blind(Thing):
    def __init__(self) -> None:
        self.part, self.moves = 0, list[tuple[Any, ...]]()

    @prop(observable=True)
    def open_part(self) -> int:
        return self.part

    @open_part.write
    def set_open_part(self, value: int) -> None:
        self.part = value

    @action
    def move(self, to: int, text: str = "") -> None:
        self.moves.append((to, text, current().principal))

    @action
    def pull(self, level: int) -> None:
        self.pulled.emit({"level": level})

    pulled = event(dict[str, int])


class Windows(Component):
    def setup(self) -> None:
        self.add(Blind(), key="left")
        self.add(Blind(), key="right")


def windows(toml: str) -> tuple[VirtualBackplane, Blind, Blind]:
    """A backplane with the rules, which have been checked, and the left and the right blind."""
    house = Windows()
    backplane = VirtualBackplane(house, Rules(tomllib.loads(toml)))
    backplane.advance(1.0)
    left, right = house.objects
    assert isinstance(left, Blind) and isinstance(right, Blind)
    return backplane, left, right


def test_a_rule_in_toml_does_what_it_says() -> None:
    """Steps in order, with input from the event, as its principal."""
    backplane, left, right = windows("""
        [follow]
        when = [{ thing = "windows/left", event = "pulled" }]
        if = { field = "data.level", op = ">", value = 10 }
        do = [
            { thing = "windows/right", write = "open_part", value = "$data.level" },
            { pause = 2 },
            { thing = "windows/right", action = "move", input = { to = 3, text = "$name" }, timeout = 60 },
        ]
        mode = "queued"
        run_as = "rule:follow"
        [night]
        when = { thing = "windows/left", event = "pulled" }
        if = [{ thing = "windows/right", property = "open_part", op = "<", value = 10 }]
        do = { thing = "windows/left", action = "move", input = { to = 100 } }
        [mirror]
        when = { thing = "windows/right", property = "open_part" }
        do = { thing = "windows/left", action = "move", input = { to = "$data", text = "$$5" } }
    """)
    backplane.call("windows.pull", key="left", level=5).result()
    backplane.call("windows.pull", key="left", level=50).result()
    backplane.advance(1.9)
    assert (right.part, right.moves, left.moves) == (50, [], [(100, "", None), (50, "$5", None)])
    backplane.call("windows.pull", key="left", level=5).result()
    backplane.run_until_idle()
    assert len(left.moves) == 2
    [line, _, _] = backplane.call("rules.runs", rule="night").result()
    assert (line["outcome"], line["error"]) == ("skipped", "open_part of windows/right is 50, not < 10")
    backplane.advance(0.1)
    assert right.moves == [(3, "pulled", "rule:follow")]
    [line] = backplane.call("rules.runs", rule="follow").result()
    assert line["outcome"] == "completed"
    said = backplane.call("rules.dry_run", rule="follow", event={"data": {"level": 9}}).result()
    assert not said["would_run"] and [step.get("pause", step.get("input")) for step in said["steps"]] == [
        {"value": 9}, 2.0, {"to": 3, "text": "pulled"},
    ]  # fmt: skip


def test_a_wrong_rule_is_told_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    """One line for each, in the log and in the run log."""
    when = 'when = { thing = "windows/left", event = "pulled" }'
    move = 'do = { thing = "windows/left", action = "move", input'
    backplane, left, _ = windows(f"""
        good = {{ {when}, {move} = {{ to = 1 }} }} }}
        typo = {{ whn = 3 }}
        mode = {{ {when}, do = {{ pause = 1 }}, mode = "twice" }}
        away = {{ when = {{ thing = "windows/top", event = "pulled" }}, do = {{ pause = 1 }} }}
        dumb = {{ when = {{ thing = "windows/left", event = "pushed" }}, do = {{ pause = 1 }} }}
        lame = {{ {when}, do = {{ thing = "windows/left", action = "mov" }} }}
        mute = {{ {when}, {move} = {{}} }} }}
        much = {{ {when}, {move} = {{ to = 1, by = 2 }} }} }}
        nowt = {{ {when}, if = {{ thing = "windows/left", property = "wet", op = "==", value = 1 }}, do = {{ pause = 1 }} }}
        none = {{ when = {{ thing = "doors", event = "pulled" }}, do = {{ pause = 1 }} }}
    """)
    backplane.call("windows.pull", key="left", level=5).result()
    backplane.advance(3.0)
    lines = backplane.call("rules.runs").result()
    told = {line["rule"]: line["error"] for line in lines}
    assert len(told) == len(lines) == 10 and caplog.text.count("is not run") == 9
    assert left.moves == [(1, "", None)] and told.pop("good") == ""
    for rule, words in {
        "typo": "no option 'whn' (did you mean 'when'?)",
        "mode": "mode = 'twice': expected one of single",
        "away": "there is no thing windows/top",
        "dumb": "windows/left has no event 'pushed' (did you mean 'pulled'?)",
        "lame": "windows/left has no action 'mov' (did you mean 'move'?)",
        "mute": "windows/left: action 'move' needs the parameter 'to'",
        "much": "windows/left: action 'move' has no parameter 'by'",
        "nowt": "windows/left has no property 'wet'",
        "none": "there is no thing doors",
    }.items():
        assert words in told[rule], rule
    refused = {each["name"] for each in backplane.call("rules.rules").result() if each["refused"]}
    assert refused == set(told)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (7, "rule r = 7: expected a table"),
        ({"when": []}, "at least one trigger"),
        ({"do": []}, "1 to 100 steps"),
        ({"when": {"thing": "house/hall"}}, "one thing and one event or property"),
        ({"when": {"thing": "house/", "event": "a"}}, "expected COMPONENT/KEY"),
        ({"when": {"thing": 3, "event": "a"}}, "rule r: when: thing = 3: expected text"),
        ({"when": {"thing": "house", "event": "a", "every": 3}}, "no option 'every'"),
        ({"if": {"field": "data"}}, "if = {'field': 'data'}: expected"),
        ({"if": {"field": "date.x", "op": "==", "value": 1}}, "'date' is no part of an event"),
        ({"if": {"field": "data", "op": "=", "value": 1}}, "op = '=': expected one of =="),
        ({"do": {"thing": "house"}}, "expected { thing ="),
        ({"do": {"thing": "house", "action": "a", "value": 3}}, "expected { thing ="),
        ({"do": {"thing": "house", "action": "a", "input": 3}}, "input = 3: expected a table"),
        ({"do": {"thing": "house", "action": "a", "input": {"to": ["$dat"]}}}, "'dat' is no part of an event"),
        ({"do": {"pause": "2 s"}}, "pause = '2 s': expected seconds"),
        ({"do": {"thing": "house", "action": "a", "timeout": -1}}, "timeout = -1: expected seconds"),
        ({"run_as": 7}, "run_as = 7: expected the name of a principal"),
        ({"debounce": "1 s"}, "debounce = '1 s': expected seconds"),
    ],
)
def test_each_mistake_is_one_sentence(change: Any, words: str) -> None:
    """Which names the rule and the remedy."""
    with pytest.raises(ValueError, match="rule r") as failed:
        rule_of("r", GOOD | change if isinstance(change, dict) else change)
    assert words in str(failed.value) and "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("path", "op", "value", "does_hold"),
    [
        ("data.level", ">", 79, True), ("data.level", ">", 80, False), ("data.level", "in", [80], True),
        ("data.where.1", "==", "attic", True), ("previous", "<=", 7, True), ("key", "!=", "a", False),
        ("data.level", "<", "text", False), ("data.colour", "==", 1, False), ("data.where.9", "==", 1, False),
    ],
)  # fmt: skip
def test_conditions_compare_a_part_of_the_event(path: str, op: str, value: Any, does_hold: bool) -> None:
    """What cannot be compared does not hold, and harms nothing."""
    spec = rule_of("r", GOOD | {"if": [{"field": path, "op": op, "value": value}]})
    assert spec.condition is not None and spec.condition(CAUSE) is does_hold


def test_input_is_filled_from_the_event() -> None:
    """At any depth; what the event does not have ends the run, with the reason."""
    assert filled({"a": ["$data.where.0", "$$x", "x$"], "b": "$thing"}, CAUSE) == {
        "a": ["hall", "$x", "x$"],
        "b": "urn:lamp",
    }
    with pytest.raises(InvalidArgument, match=r"'\$data\.colour': the event moved of urn:lamp has no such part"):
        filled("$data.colour", CAUSE)


def test_keys_are_text_or_whole_numbers() -> None:
    assert [key_of("id", "event", data) for data in ({"id": 7}, {"id": "a"}, {"id": True}, {"id": None}, {}, [], 7)] == [
        "7", "a", None, None, None, None, None,
    ]  # fmt: skip
    assert key_of("id", "property", {"id": 7}) is None and key_of("tag", "event", {"id": 7, "tag": "x"}) == "x"


RECORDS: list[RunRecord] = [
    RunTaken(1, "light", CAUSE, 10.0),
    RunBegun(1, 11.0),
    RunStep(1, "house.fade hall"),
    RunEnded(1, "completed", "", 12.0),
    TriggerSkipped(2, "light", CAUSE, "cooldown", 13.0),
    RunTaken(3, "light", Cause("urn:lamp", "event", "moved", key="b"), 14.0),
    RunBegun(3, 15.0),
    RunTaken(4, "light", Cause("urn:lamp", "event", "moved"), 16.0),
]


def log_of(records: list[RunRecord]) -> RunLog:
    log = RunLog()
    for record in records:
        log.apply(record)
    return log


def test_a_rewritten_journal_says_the_same(tmp_path: Path) -> None:
    """The lines, their order, the keys, and which runs have no end."""
    journal = Journal(tmp_path / "new" / "a.journal")
    for record in RECORDS:
        journal.append(record)
    log = log_of(journal.read())
    assert [*log.lines()] == [*log_of(RECORDS).lines()]
    journal.rewrite(log.records())
    journal.append(RunEnded(3, "failed", "why", 17.0))
    journal.close()
    again = Journal(tmp_path / "new" / "a.journal")
    read = log_of(again.read())
    log.apply(RunEnded(3, "failed", "why", 17.0))
    assert [*read.lines()] == [*log.lines()] and [*read.open] == [4] and read.last == 4
    assert [*read.lines("dark")] == [] and read.is_taken("light", CAUSE) and not read.is_taken("dark", CAUSE)
    again.close()


def test_a_torn_record_is_cut_off(tmp_path: Path) -> None:
    """Wherever its process was killed while it wrote; what is appended later is read again."""
    path = tmp_path / "a.journal"
    journal = Journal(path)
    for record in RECORDS[:2]:
        journal.append(record)
    whole = path.read_bytes()
    journal.append(RECORDS[2])
    data = path.read_bytes()
    journal.close()
    for end in range(len(whole), len(data)):
        path.write_bytes(data[:end])
        journal = Journal(path)
        assert journal.read() == RECORDS[:2] and path.read_bytes() == whole
        journal.append(RECORDS[2])
        assert journal.read() == RECORDS[:3]
        journal.close()


def test_a_disk_that_is_full_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of the record is there, so a rule that it should start does not."""
    journal = Journal(tmp_path / "a.journal")
    journal.append(RECORDS[0])
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(journal_module.os, "write", lambda file, data: real(file, data[:5]))
        with pytest.raises(JournalError, match="no space"):
            journal.append(RECORDS[1])
        patched.setattr(journal_module.os, "write", _full)
        with pytest.raises(JournalError, match="No space"):
            journal.append(RECORDS[1])
    assert journal.read() == RECORDS[:1]
    journal.close()
    with pytest.raises(JournalError, match="File exists"):
        Journal(tmp_path / "a.journal" / "b.journal")


def _full(_file: int, _data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_no_rule_starts_that_cannot_be_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a kill would let it start again. It is told, and the rule runs when there is space."""
    house = Windows()
    rules = Rules(
        {"r": {"when": {"thing": "windows/left", "event": "pulled"}, "do": {"pause": 1}, "mode": "queued"}},
        journal=str(tmp_path),
    )  # fmt: skip
    backplane = VirtualBackplane(house, rules)
    backplane.advance(1.0)
    for is_full in (True, False, True, False):
        with monkeypatch.context() as patched:
            if is_full:
                patched.setattr(journal_module.os, "write", _full)
            backplane.call("windows.pull", key="left", level=5).result()
            backplane.run_until_idle()
    backplane.advance(3.0)
    lines = backplane.call("rules.runs").result()
    assert sorted((line["outcome"], line["error"]) for line in lines) == [
        ("completed", ""), ("completed", ""), *[("skipped", "the journal could not be written")] * 2,
    ]  # fmt: skip
    rules._mashup._runner.close()


def test_the_log_and_its_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten first."""
    monkeypatch.setattr("appbackplane.runtime.things.mashups.run_log.KEYS_MAX", 2)
    monkeypatch.setattr("appbackplane.runtime.things.mashups.run_log.STEPS_MAX", 1)
    log = log_of([KeysTaken([("light", "urn:lamp", "moved", key) for key in ("x", "a", "b")])])
    assert [log.is_taken("light", Cause("urn:lamp", "event", "moved", key=key)) for key in ("x", "a")] == [False, True]
    large = Cause("urn:camera", "event", "seen", data=b"x" * 5_000)
    [line] = log_of([RunTaken(1, "r", large, 0.0), RunEnded(1, "completed", "", 1.0)]).lines()
    assert line.cause is not None and line.cause.data == "(5,003 bytes)"
    log = log_of([*RECORDS[:3], RunStep(1, "more")])
    assert log.open[1].steps == ["house.fade hall"]
    assert log_of([TriggerSkipped(n, "r", CAUSE, "", 0.0) for n in range(1_001)])._ended[0].number == 1


def test_a_large_journal_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would grow for years."""
    monkeypatch.setattr(journal_module, "BYTES_MAX", 2_000)
    journal = Journal(tmp_path / "a.journal")
    while not journal.is_large:
        journal.append(RECORDS[4])
    journal.rewrite(RECORDS[:1])
    assert not journal.is_large and journal.read() == RECORDS[:1]
    journal.close()
