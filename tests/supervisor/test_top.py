"""top, once: for a pipe, for a program, and for who is in a hurry."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.direction.health import SILENT_NS
from appbackplane.transport import connect
from appbackplane.transport.errors import InvalidArgument
from tests.waiting import wait_until

from .conftest import LIMIT_S, RunningSystem


def run(*words: str) -> Result:
    """A command, as typed; there is no terminal."""
    return CliRunner().invoke(main, [str(word) for word in words])


def told(*words: str) -> list[Any]:
    """The backplanes that `top` or `status` tells of, once each has answered in the little time that it is given."""
    found: list[Any] = []

    def have_answered() -> bool:
        found[:] = json.loads(run(*words, "--json").stdout)["backplanes"]
        is_told = (each.get("age_s") is None and each.get("rate", 0.0) is not None for each in found)
        return all(is_told) and all(each.get("statistics", True) for each in found)

    wait_until(have_answered, lambda: found)
    return found


def test_without_a_terminal_it_looks_once(kept: RunningSystem) -> None:
    """In a pipe or a log nobody presses q."""
    shown = run("top", str(kept.toml)).stdout.splitlines()
    assert shown[0].startswith(" demo  up")
    assert [line.split()[0:3:2] for line in shown[4:6]] == [["query", "primary"], ["index", "primary"]]
    assert not any("\x1b" in line for line in shown)
    assert run("top", "-s", str(kept.toml), "--once").stdout.splitlines()[3] == shown[3]


def test_programs_get_all_figures_and_those_agree_with_status(kept: RunningSystem) -> None:
    """Two commands that disagree are worse than one."""
    with connect(kept.run_dir, timeout=LIMIT_S) as client:
        for _ in range(20):
            client.call("index.echo", text="x", timeout=LIMIT_S)
        # An answer leaves before its action is booked.
        statistics = "backplane.index.statistics"
        wait_until(lambda: client.call(statistics, timeout=LIMIT_S)["operations"]["index.echo"]["count"] == 20)
    (query, index) = told("top", "-s", str(kept.toml))
    operations = {one["name"]: one for one in index["operations"]}
    accounts = told("status", "-s", str(kept.toml), "--stats")[1]["statistics"]["operations"]
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
        has_beaten = hurried["board"]["heartbeat_age"] * 1e9 <= SILENT_NS
        assert hurried["statistics"] is None and (hurried["health"] != "unknown") is has_beaten
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
