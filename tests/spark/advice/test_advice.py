"""From records to a patch: what is wrong is found, the patch does what it says, and where nothing is wrong nothing is said."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from appbackplane.spark.advice import Advice, Item, advise
from appbackplane.spark.replay import Load, ReplaySetting, predict, simulate
from tests.spark.advice.recorded import COSTS, bursts, load_of_rows, write
from tests.spark.made import EPOCH_NS, names_of, words_of, write_actions

MS = 1_000_000
BLOCKED = bursts(12, 500, (0, 1, 30, 10, 0))
COMPUTING = bursts(12, 1000, (0, 3, 20, 4, 4))
URGENT_FIRST = bursts(8, 900, (0, 1, 100, 5, 0), (1, 5, 20, 5, 0))
#: The trouble, and whom it hits.
BAD: dict[str, tuple[Load, ReplaySetting, tuple[int, int]]] = {
    "threads": (BLOCKED, ReplaySetting(), (0, 1)),
    "cpu_limit": (COMPUTING, ReplaySetting(cpu_limit=20), (0, 3)),
    "quotas": (URGENT_FIRST, ReplaySetting(quotas=(0,), preempt=False, tick_ns=250 * MS), (1, 5)),
}


@pytest.mark.parametrize("key", BAD)
def test_what_is_wrong_is_found_and_the_patch_does_what_it_says(key: str, tmp_path: Path) -> None:
    """One line, of the key that is at fault, and the load under the patched setting waits as long as was predicted."""
    load, setting, whom = BAD[key]
    write(tmp_path, "desk", load, setting)
    advice = advise(tmp_path)
    assert [item.key for item in advice.items] == [key]
    item = advice.items[0]
    assert abs(item.error) < 0.1
    assert item.predicted < item.now * 0.6
    patched = setting.with_(**{key: tuple(item.new) if isinstance(item.new, list | tuple) else item.new})
    truth = predict(load, simulate(load, patched, COSTS), patched).waits[whom]
    assert item.predicted == pytest.approx(truth.mean / 1e6, rel=0.15)


@pytest.mark.parametrize("key", BAD)
def test_a_patched_system_needs_no_other_patch_of_the_same_key(key: str, tmp_path: Path) -> None:
    """Advice that is followed and given again would never end."""
    load, setting, _ = BAD[key]
    write(tmp_path / "before", "desk", load, setting)
    item = advise(tmp_path / "before").items[0]
    write(tmp_path / "after", "desk", load, setting.with_(**{key: item.new}))
    assert [item.key for item in advise(tmp_path / "after").items if item.key == key] == []


@pytest.mark.parametrize(
    ("load", "setting"),
    [
        (bursts(50, 100, (0, 1, 3, 2, 1), (1, 4, 3, 5, 0)), ReplaySetting()),
        (bursts(50, 100, (0, 1, 5, 5, 0)), ReplaySetting(threads=8)),
        (bursts(50, 200, (0, 1, 2, 1, 1)), ReplaySetting(cpu_limit=30)),
        (bursts(20, 500, (0, 0, 50, 0.1, 0.1), (1, 7, 50, 0.1, 0.1)), ReplaySetting(quotas=(0,))),
    ],
    ids=["quiet", "threads enough", "limit enough", "unlimited quotas that starve nobody"],
)
def test_no_advice_where_nothing_is_wrong(load: Load, setting: ReplaySetting, tmp_path: Path) -> None:
    """Who is told something each time does not listen any more."""
    write(tmp_path, "desk", load, setting)
    assert advise(tmp_path) == Advice()


def test_what_no_setting_would_help_is_said_and_not_patched(tmp_path: Path) -> None:
    """One object does all of it, one after the other (law 1): more threads would be a promise that nobody keeps."""
    write(tmp_path, "desk", bursts(12, 500, (0, 1, 30, 10, 0), objects=1), ReplaySetting())
    advice = advise(tmp_path)
    assert advice.items == ()
    assert advice.patch == ""
    assert "no change of its settings would help" in advice.notes[0]
    assert "part0.work0 (priority 1)" in advice.notes[0]


def test_who_computes_all_the_time_is_not_given_threads(tmp_path: Path) -> None:
    """The interpreter is one."""
    write(tmp_path, "desk", bursts(12, 500, (0, 1, 30, 10, 10)), ReplaySetting())
    assert advise(tmp_path).items == ()


def test_an_event_loop_is_not_given_a_second_thread(tmp_path: Path) -> None:
    """threads = 1 and preempt = false: its code was written for one action at a time in the whole backplane."""
    write(tmp_path, "desk", BLOCKED, ReplaySetting(preempt=False))
    assert advise(tmp_path).items == ()


def test_what_cannot_be_reproduced_is_not_judged(tmp_path: Path) -> None:
    """Waits that come from elsewhere, a machine that stood still: a prediction would be a guess."""
    count = 100
    start = EPOCH_NS + np.arange(count) * 100 * MS
    run = np.full(count, 5 * MS)
    words = words_of(count, {"start": start, "wait": np.full(count, 80 * MS), "run": run, "cpu": run, "took": run})
    write_actions(tmp_path, "desk", 1, words, names_of(8, 8))
    advice = advise(tmp_path)
    assert advice.items == ()
    assert "no simulation reproduces the records" in advice.notes[0]


def test_two_troubles_of_one_backplane_are_two_lines_of_one_table(tmp_path: Path) -> None:
    """And each figure is predicted with both, since both will be applied."""
    load = bursts(10, 2000, (0, 1, 30, 30, 4), (1, 5, 20, 10, 0))
    write(tmp_path, "desk", load, ReplaySetting(cpu_limit=10))
    advice = advise(tmp_path)
    assert {item.key for item in advice.items} == {"cpu_limit", "threads"}
    patch = tomllib.loads(advice.patch)
    assert set(patch["backplane"]["desk"]) == {"cpu_limit", "threads"}
    setting = ReplaySetting(**patch["backplane"]["desk"])
    truth = predict(load, simulate(load, setting, COSTS), setting)
    for item in advice.items:
        whom = (0, 1) if "work0" in item.figure else (1, 5)
        assert item.predicted == pytest.approx(truth.waits[whom].mean / 1e6, rel=0.25, abs=3)


def test_each_backplane_is_asked_by_itself(tmp_path: Path) -> None:
    """One that is well says nothing beside one that is not; and one may be asked alone."""
    write(tmp_path, "sick", BLOCKED, ReplaySetting())
    write(tmp_path, "well", BLOCKED, ReplaySetting(threads=32))
    assert [item.target for item in advise(tmp_path).items] == ["backplane.sick"]
    assert advise(tmp_path, backplanes=["well"]) == Advice()


def test_the_patch_is_toml_with_its_evidence(tmp_path: Path) -> None:
    """A line that says why it is there, from what to what, and how far the simulation may be trusted."""
    write(tmp_path, "desk", BLOCKED, ReplaySetting())
    advice = advise(tmp_path)
    item = advice.items[0]
    assert tomllib.loads(advice.patch) == {"backplane": {"desk": {"threads": item.new}}}
    assert "# While work waited" in advice.patch
    assert "# Predicted: mean wait of part0.work0 (priority 1) " in advice.patch
    assert "# was 1" in advice.patch
    assert max(map(len, advice.patch.splitlines())) < 140
    assert json.loads(json.dumps(advice.as_dict()))["items"][0]["key"] == "threads"


def test_no_name_gets_out_of_its_comment() -> None:
    """A route may be called anything, and the patch is put into the file that says what runs."""
    name = "shop.buy\nmodules = ['evil']\r\x07"
    item = Item("backplane.a", "threads", 1, 2, f"While {name} waited.", f"mean wait of {name}", 10.0, 1.0, 10.0)
    assert tomllib.loads(Advice((item,)).patch) == {"backplane": {"a": {"threads": 2}}}


def test_values_are_written_as_toml_reads_them() -> None:
    """Whatever a rule proposes."""

    def patched(key: str, new: object, old: object = None) -> object:
        item = Item("backplane.a", key, old, new, "Because.", "mean wait of b", 10.0, 1.0, 10.0)
        return tomllib.loads(Advice((item,)).patch)["backplane"]["a"][key]

    assert patched("quotas", (0, 12, 6)) == [0, 12, 6]
    assert patched("cpu_limit", 40) == 40
    assert patched("preempt", False, True) is False
    assert patched("lanes", {1: 2}) == {"1": 2}


def test_deadlines_that_are_missed_are_a_harm_of_their_own(tmp_path: Path) -> None:
    """Who is refused after 100 ms has not waited long, and got nothing."""
    blocked = bursts(12, 500, (0, 1, 30, 10, 0))
    rows = zip(
        blocked.arrival, blocked.operation, blocked.object, blocked.priority, blocked.run, blocked.cpu, strict=True
    )
    write(tmp_path, "desk", load_of_rows(rows, deadline_ms=60), ReplaySetting())
    advice = advise(tmp_path)
    assert [item.key for item in advice.items] == ["threads"]
    assert advice.items[0].data["late"] > 100
    assert advice.items[0].data["late_predicted"] == 0


def test_what_replicas_need_is_said_once_of_their_table(tmp_path: Path) -> None:
    """`[backplane.desk-1]` is no table of a TOML that says `replicas = 2`."""
    write(tmp_path, "desk-1", BLOCKED, ReplaySetting())
    write(tmp_path, "desk-2", bursts(12, 500, (0, 1, 36, 10, 0)), ReplaySetting())
    advice = advise(tmp_path)
    assert [(item.target, item.key) for item in advice.items] == [("backplane.desk", "threads")]
    assert "Seen of desk-2" in advice.items[0].evidence


def test_backplanes_that_are_only_called_like_replicas_keep_their_tables(tmp_path: Path) -> None:
    """One is missing, or was allowed something else."""
    write(tmp_path / "a", "desk-1", BLOCKED, ReplaySetting())
    write(tmp_path / "a", "desk-3", BLOCKED, ReplaySetting())
    assert {item.target for item in advise(tmp_path / "a").items} == {"backplane.desk-1", "backplane.desk-3"}
    write(tmp_path / "b", "desk-1", BLOCKED, ReplaySetting())
    write(tmp_path / "b", "desk-2", BLOCKED, ReplaySetting(threads=2))
    assert {item.target for item in advise(tmp_path / "b").items} == {"backplane.desk-1", "backplane.desk-2"}
