"""replay: as typed, over recordings of backplanes that never were: what other settings would bring, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from appbackplane.spark.__main__ import main as program
from appbackplane.spark.replay import ReplaySetting
from appbackplane.supervisor.commands import main
from appbackplane.supervisor.commands.replay import changes_of
from tests.waiting import LIMIT_S

from ..advice.recorded import EPOCH_NS, MS, bursts, load_of_rows, write
from ..made import names_of, words_of, write_actions

#: Calls that come to one worker, each 5 ms one, and take 10 ms: twice what it serves.
COUNT = 600
DONE, FAILED, WRONG = 0, 1, 2


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("run")
    rows = [(EPOCH_NS + 5 * MS * number, 0, 8 + number, 1, 10 * MS, 0) for number in range(COUNT)]
    write(folder, "desk", load_of_rows(rows), ReplaySetting())
    # Ten at a time, which are blocked and do not compute; and urgent work of which none is recorded to have waited.
    write(folder, "files", bursts(20, 500, (0, 5, 10, 20, 0), (1, 0, 1, 1, 1)), ReplaySetting())
    return folder


def told(run_dir: Path, backplane: str, changes: dict[str, Any], *more: str) -> Result:
    """What the program prints that the verb becomes."""
    words = ["replay", str(run_dir), "--backplane", backplane, "--changes", json.dumps(changes), *more]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("appbackplane.spark.__main__._end", lambda work, debug=False: work())
        result = CliRunner().invoke(program, words)
    return result


def operations(run_dir: Path, backplane: str, **changes: Any) -> list[dict[str, Any]]:
    result = told(run_dir, backplane, changes, "--json")
    assert result.exit_code == DONE, result.exception
    found: list[dict[str, Any]] = json.loads(result.stdout)["operations"]
    return found


def test_an_aim_refuses_the_half_that_cannot_be_served(run_dir: Path) -> None:
    """And whoever is served has waited for no longer than the aim."""
    [one] = operations(run_dir, "desk", aim_ns=50 * MS)
    assert one["recorded"] == one["replayed"], "the recording was made by the same simulation"
    assert one["recorded"]["p99"] > 1_000 * MS
    assert one["predicted"]["p99"] <= 50 * MS
    assert 0.4 < one["predicted"]["refused"] / COUNT < 0.5


def test_threads_for_work_that_is_blocked(run_dir: Path) -> None:
    """The operation with the longest total wait comes first."""
    first, second = operations(run_dir, "files", threads=10)
    assert first["recorded"]["mean"] > 80 * MS > MS > first["predicted"]["mean"]
    assert (first["priority"], second["priority"]) == (5, 0)


def test_what_a_person_reads(run_dir: Path) -> None:
    """The change by the keys of the TOML, how far to trust it, and recorded, replayed and predicted waits."""
    lines = told(run_dir, "desk", {"aim_ns": 50 * MS, "threads": 1}).stdout.splitlines()
    assert lines[0].startswith(f"desk: {COUNT} actions since 2026-01-01")
    assert lines[0].endswith("with admission.aim = 50 ms (was none), threads = 1 (was 1)")
    assert "within 0%" in lines[1]
    assert lines[4].split("  ")[0] == "OPERATION"
    assert lines[5].split()[:3] == ["part0.work0", "1", str(COUNT)]


def test_only_since(run_dir: Path) -> None:
    """The second ten of twenty bursts."""
    words = ("--json", "--since-ns", str(EPOCH_NS + 10 * 500 * MS))
    assert json.loads(told(run_dir, "files", {"threads": 2}, *words).stdout)["actions"] == 10 * 11


def test_a_window_that_begins_with_a_full_queue_cannot_be_reproduced(run_dir: Path) -> None:
    """The simulation knows nothing of the calls that waited before it."""
    error = told(run_dir, "desk", {"threads": 2}, "--since-ns", str(EPOCH_NS + COUNT * 5 * MS)).exception
    assert "choose a --since at which its queue was empty" in str(error)


@pytest.mark.parametrize(
    ("backplane", "changes", "message"),
    [
        ("dask", {"threads": 2}, "no action of backplane 'dask' is recorded; recorded are those of desk, files"),
        ("desk", {"order": "shares", "shares": [80, 10]}, "expected 100 %"),
    ],
)
def test_what_the_recording_does_not_allow(
    run_dir: Path, backplane: str, changes: dict[str, Any], message: str
) -> None:
    error = told(run_dir, backplane, changes).exception
    assert message in str(error)


def test_a_recording_that_no_simulation_reproduces_predicts_nothing(tmp_path: Path) -> None:
    """Waits that come from elsewhere, as of a machine that stood still."""
    count = 100
    start, run = EPOCH_NS + np.arange(count) * 100 * MS, np.full(count, 5 * MS)
    words = words_of(count, {"start": start, "wait": np.full(count, 80 * MS), "run": run, "cpu": run, "took": run})
    write_actions(tmp_path, "desk", 1, words, names_of(8, 8))
    assert "no simulation reproduces the records" in str(told(tmp_path, "desk", {"threads": 2}).exception)


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["threads=4"], {"threads": 4}),
        (["admission.aim=50ms"], {"aim_ns": 50 * MS}),
        (['admission.aim="50ms"', "tick=0.5"], {"aim_ns": 50 * MS, "tick_ns": 500 * MS}),
        (["order=shares", "shares=[80, 20]"], {"order": "shares", "shares": (80, 20)}),
        (["quotas=[8,2]", "preempt=false"], {"quotas": (8, 2), "preempt": False}),
    ],
)
def test_settings_are_written_as_in_the_toml(words: list[str], changes: dict[str, Any]) -> None:
    """Quotes may be left out, which the shell takes."""
    assert changes_of(words) == changes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["threads"], "'threads' is no setting: expected KEY=VALUE, such as threads=4"),
        (["replicas=3"], "replicas cannot be tried in a replay; what can: threads, quotas, "),
        (["threads=0"], "threads: expected a whole number >= 1, got 0"),
        (["threads=2", "threads=3"], "threads is given twice"),
        (["admission.aim=0s"], "admission.aim: expected a duration above 0"),
        (["quotas=[x]"], "quotas: expected a list"),
        (["shares=[100]"], 'shares: needs order = "shares"'),
    ],
)
def test_a_wrong_setting_is_one_line(words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["replay", "desk", *words, "-s", "/"])
    assert result.exit_code == WRONG
    [line] = result.stderr.splitlines()
    assert message in line


def test_the_verb_is_that_program(run_dir: Path) -> None:
    """In its place, as the same process."""
    words = [sys.executable, "-m", "appbackplane.supervisor", "replay", "desk", "threads=2", "-s", str(run_dir)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ran.returncode, ran.stderr) == (DONE, "")
    assert "threads = 2 (was 1)" in ran.stdout
