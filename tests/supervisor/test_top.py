"""top, once: for a pipe, for a program, and for who is in a hurry."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.transport import connect
from appbackplane.transport.errors import InvalidArgument
from tests.waiting import wait_until

from .conftest import RunningSystem


def run(*words: str) -> Result:
    """A command, as typed; there is no terminal."""
    return CliRunner().invoke(main, [str(word) for word in words])


def looked_at(system: RunningSystem) -> list[dict[str, Any]]:
    """All backplanes as programs see them. `top` waits 40 ms for figures, in which a busy machine may not answer."""

    def look() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(run("top", "-s", str(system.toml), "--json").stdout)["backplanes"]
        return found if all(one["operations"] for one in found) else []

    return wait_until(look, "a backplane never tells its figures in time")


def test_without_a_terminal_it_looks_once(kept: RunningSystem) -> None:
    """In a pipe or a log nobody presses q."""
    shown = run("top", str(kept.toml)).stdout.splitlines()
    assert shown[0].startswith(" demo  up")
    assert [line.split()[0:3:2] for line in shown[4:6]] == [["query", "primary"], ["index", "primary"]]
    assert not any("\x1b" in line for line in shown)
    assert run("top", "-s", str(kept.toml), "--once").stdout.splitlines()[3] == shown[3]


def test_programs_get_all_figures_and_those_agree_with_status(kept: RunningSystem) -> None:
    """Two commands that disagree are worse than one."""
    with connect(kept.run_dir) as client:
        for _ in range(20):
            client.call("index.echo", text="x")
        # An answer leaves before its action is booked.
        wait_until(lambda: client.call("backplane.index.statistics")["operations"]["index.echo"]["count"] == 20)
    query, index = looked_at(kept)
    operations = {one["name"]: one for one in index["operations"]}
    told = json.loads(run("status", "-s", str(kept.toml), "--stats", "--json").stdout)["backplanes"]
    accounts = told[1]["statistics"]["operations"]
    assert {name: one["count"] for name, one in operations.items()} == {
        name: account["count"] for name, account in accounts.items()
    }
    assert operations["index.echo"]["count"] == 20
    assert (query["name"], query["age_s"], query["roles"]) == ("query", None, ["primary"])
    assert query["health"] in ("idle", "busy"), "it has nothing to do, or has just been asked"
    assert index["rate"] == 0.0, "of the last 80 ms, in which nothing was called"


def test_one_backplane_can_be_asked_for(kept: RunningSystem) -> None:
    """With its operations; a name that is none is an error with those there are."""
    told = json.loads(run("top", "-s", str(kept.toml), "--json", "--backplane", "index").stdout)
    assert [one["name"] for one in told["backplanes"]] == ["index"]
    assert "OPERATION" in run("top", "-s", str(kept.toml), "--backplane", "index").stdout
    wrong = run("top", "-s", str(kept.toml), "--backplane", "indx")
    assert (wrong.exit_code, wrong.stderr) == (
        1, "appbackplane: no backplane 'indx' in 'demo' (did you mean 'index'?)\n"
    )  # fmt: skip


def test_who_is_asked_in_a_hurry_has_left_nothing_unanswered(kept: RunningSystem) -> None:
    """A live view gives backplanes 40 ms; one that is merely slow would be told to everybody as one that says nothing."""
    pid = kept.backplane("index")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        hurried = kept.ask("supervisor.status", {"buckets": True, "limit": 0.02})["backplanes"][1]
        assert hurried["statistics"] is None and hurried["health"] != "unknown"
        patient = kept.ask("supervisor.status", {"statistics": True})["backplanes"][1]
        assert (patient["statistics"], patient["health"]) == (None, "unknown")
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("limit", [0, -1, 60, "soon"])
def test_no_more_time_is_given_than_the_supervisor_has(kept: RunningSystem, limit: object) -> None:
    """A question that waits for ever would keep its place for ever."""
    with pytest.raises(InvalidArgument, match="expected seconds, above 0 and up to"):
        kept.ask("supervisor.status", {"statistics": True, "limit": limit})


def test_wrong_words_are_refused(kept: RunningSystem) -> None:
    """Before anything is asked."""
    assert run("top", "--sort", "colour").exit_code == 2
    assert run("top", "--interval", "0").exit_code == 2
