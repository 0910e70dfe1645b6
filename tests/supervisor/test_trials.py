"""A restart is tried aside first: code that cannot be constructed is refused, and the process that serves goes on.

Real processes, whose module is written anew while they run.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import main
from appbackplane.transport import connect
from tests.waiting import wait_until

from .conftest import LIMIT_S, MODULE, RunningSystem

Start = Callable[..., RunningSystem]
DONE, FAILED = 0, 1


def run(*words: str) -> Result:
    """A command, as typed."""
    return CliRunner().invoke(main, list(words))


def refusal(result: Result) -> list[str]:
    """Why it was refused."""
    assert (result.exit_code, result.stdout) == (FAILED, ""), result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith("waiting for ")]
    return [line.removeprefix("appbackplane: ") for line in lines]


@pytest.fixture
def up(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningSystem]]:
    """Starts a system whose commands are typed in this folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APPBACKPLANE_SYSTEM", raising=False)
    systems: list[RunningSystem] = []

    def begin(system: str = "", index: str = "") -> RunningSystem:
        systems.append(start(system, index))
        systems[0].wait_up()
        return systems[0]

    yield begin
    if systems[0].process.poll() is None:
        systems[0].signal(signal.SIGTERM)
        systems[0].wait_down()


def serving(system: RunningSystem) -> dict[str, tuple[int, int]]:
    """Pid and generation of each backplane; the index answers."""
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        pid = client.call("query.ask", timeout=LIMIT_S)
    found = {entry["name"]: (entry["pid"], entry["generation"]) for entry in system.status()["backplanes"]}
    assert found["index"][0] == pid
    return found


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("class Query", "class Query(:", "invalid syntax (demo.py, line "),
        ('raise ValueError("no index here")', "pass\n        raise ValueError('no licence')", "ValueError: no licence"),
        ("class Index", "class Indices", "has no Component 'Index'"),
        ("import os, ", "import os, time; os.kill(os.getpid(), 9)\nimport os, ", "killed by signal 9"),
    ],
)
def test_what_cannot_be_constructed_is_refused(kept: RunningSystem, old: str, new: str, because: str) -> None:
    """A typo, deployed: it was an outage, since the good process was ended before the bad one was looked at."""
    before = serving(kept)
    (kept.toml.parent / "demo.py").write_text(MODULE.replace(old, new))
    (line,) = refusal(run("restart", "query", "index"))
    assert line.startswith("backplane 'query': " if "Query" in old or "import" in old else "backplane 'index': ")
    assert because in line
    assert line.endswith("; nothing was restarted")
    assert serving(kept) == before


def test_a_folder_that_has_gone_is_refused(start: Start, tmp_path: Path) -> None:
    """A deployment that was removed while its processes run: they have imported all they need, and the next would not."""
    system = start()
    system.wait_up()
    before = serving(system)
    elsewhere = tmp_path.rename(tmp_path.with_name("elsewhere"))
    (line,) = refusal(run("restart", "index", "-s", str(elsewhere / "run")))
    elsewhere.rename(tmp_path)
    assert line == (
        f"backplane 'index': component 'demo:Index': No module named 'demo' (folder {tmp_path} is gone: deploy it "
        "again there); nothing was restarted"
    )
    assert serving(system) == before


def test_who_is_taken_along_is_tried_too(up: Callable[..., RunningSystem]) -> None:
    """The strategy of the index takes the query along, and its new code is as good as none."""
    system = up("", 'restart = { strategy = "rest_for_one" }')
    before = serving(system)
    (system.toml.parent / "demo.py").write_text(MODULE.replace("class Query", "class Queries"))
    (line,) = refusal(run("restart", "index"))
    assert line.startswith("backplane 'query': ")
    assert serving(system) == before


def test_what_does_not_fit_the_others_is_refused(kept: RunningSystem) -> None:
    """It was constructed, registered, and killed again and again, because the others did not fit to it."""
    before = serving(kept)
    changed = MODULE.replace("class Index(Component):", 'class Index(Component):\n    depends_on = ("query",)\n')
    (kept.toml.parent / "demo.py").write_text(changed)
    (line,) = refusal(run("restart", "index"))
    assert line == "components depend on each other in a cycle: query -> index -> query; nothing was restarted"
    assert serving(kept) == before


def test_what_is_not_constructed_in_time_is_refused(up: Callable[..., RunningSystem]) -> None:
    """`start_limit` holds for a trial as it does for a start; and nothing of it is left (the fixture looks)."""
    system = up('start_limit = "30s"', 'start_limit = "29s"')
    before = serving(system)
    system.toml.write_text(
        system.toml.read_text().replace("29s", "1s")
    )  # it is up: a busy machine may take longer for that
    assert run("reload").exit_code == DONE
    assert serving(system) == before
    (system.toml.parent / "demo.py").write_text(MODULE + "\nthreading.Event().wait()\n")
    (line,) = refusal(run("restart", "index"))
    assert line == "backplane 'index': not constructed within its start_limit; nothing was restarted"
    (line,) = refusal(run("restart", "index", "--timeout", "0.2"))
    assert line == "backplane 'index': not constructed in the time given; nothing was restarted"
    assert serving(system) == before


def test_down_ends_a_trial(up: Callable[..., RunningSystem], tmp_path: Path) -> None:
    """It is nobody's affair any more; what it has started would outlive the system."""
    system = up()
    sleeper = "\nopen('trial', 'w').write(str(os.getpid()))\nthreading.Event().wait()\n"
    (tmp_path / "demo.py").write_text(MODULE + sleeper)
    ends: list[Result] = []
    restarting = threading.Thread(target=lambda: ends.append(run("restart", "index")))
    restarting.start()
    wait_until(lambda: (tmp_path / "trial").exists() and (tmp_path / "trial").read_text())
    system.pids.add(int((tmp_path / "trial").read_text()))
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    restarting.join(LIMIT_S)
    (line,) = refusal(ends[0])
    assert "going down" in line or "has been removed" in line


def test_now_is_not_tried(up: Callable[..., RunningSystem], tmp_path: Path) -> None:
    """Who orders that wants the present process to end, whatever comes after; so it is the way around a trial."""
    system = up("", "restart = { max = 0 }")
    (tmp_path / "demo.py").write_text(MODULE.replace("class Index", "class Indices"))
    (line,) = refusal(run("restart", "--now", "index"))
    assert "has no Component 'Index'" in line
    assert system.backplane("index")["state"] == "failed"


def test_replicas_are_tried_once_and_then_all_restarted(up: Callable[..., RunningSystem], tmp_path: Path) -> None:
    """They are alike: sixteen imports would say no more than one."""
    system = up("", "replicas = 3")
    (tmp_path / "demo.py").write_text(MODULE + "\nopen('imported', 'a').write('x')\n")
    assert run("restart", "index").exit_code == DONE
    assert (tmp_path / "imported").read_text() == "xxxx", "one trial, and three that serve"
    assert {entry["generation"] for entry in system.status()["backplanes"] if entry["name"] != "query"} == {2}


def test_a_component_that_starts_a_thread_is_checked_and_restarted(up: Callable[..., RunningSystem]) -> None:
    """Its process never ended after it had described itself: `check` failed, and a restart was refused, after start_limit."""
    system = up()
    before = serving(system)
    constructor = '    def __init__(self, fails: str = "") -> None:\n'
    with_thread = f"{constructor}        threading.Thread(target=threading.Event().wait).start()\n"
    (system.toml.parent / "demo.py").write_text(MODULE.replace(constructor, with_thread))
    assert run("check", str(system.toml)).exit_code == DONE
    assert run("restart", "index").exit_code == DONE
    assert serving(system)["index"] != before["index"]
