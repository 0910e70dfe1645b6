"""The command line: exit codes, one clear line an error, JSON for programs."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner, Result

from appbackplane.supervisor.commands import down, main, show, status
from appbackplane.supervisor.commands.cli import VERBS
from appbackplane.supervisor.commands.words import arguments
from appbackplane.supervisor.processes.run_dir import RunDir, holder, running_pid
from appbackplane.transport import connect
from appbackplane.transport.errors import InternalError
from tests.waiting import EVERY_S, Limit, wait_until

from .conftest import LIMIT_S, MODULE, TOML, RunningSystem

DONE, FAILED, WRONG = 0, 1, 2


def run(*words: str) -> Result:
    """A command, as typed."""
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a system in it; nothing of the user's own. What a failed test left running is killed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "xdg"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("APPBACKPLANE_SYSTEM", raising=False)
    (tmp_path / "demo.py").write_text(MODULE)
    (tmp_path / "demo.toml").write_text(TOML.format(system="", index=""))
    yield tmp_path
    pid = running_pid(tmp_path / "run")
    if pid is not None:
        os.kill(pid, signal.SIGKILL)


def test_a_table_is_shown_a_row_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`call hub.handlers` of nine handlers is read at a glance, and is JSON as before."""
    rows = [{"handler": "note", "data": ["room: Room"]}, {"handler": "report", "data": []}]
    show.result(rows)
    said = capsys.readouterr().out
    assert said.splitlines()[1] == '  {"handler": "note", "data": ["room: Room"]},'
    assert json.loads(said) == rows


def test_json_for_programs_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """It has no word for what is no number, which `json.dumps` writes all the same; null is what others make of it."""
    value = {"mean": math.nan, "limits": [-math.inf, 2.5, math.inf], "key": b"a", "said": "NaN"}
    show.as_json(value)
    said = capsys.readouterr().out
    assert said == '{"mean": null, "limits": [null, 2.5, null], "key": "a", "said": "NaN"}\n'


def test_one_is_said_of_one() -> None:
    """Nobody has 1 backplanes."""
    assert [show.counted(count, "line") for count in (0, 1, 2_000)] == ["0 lines", "1 line", "2,000 lines"]


@pytest.mark.parametrize(("columns", "is_drawn"), [("80", False), ("120", True)])
def test_names_and_figures_are_not_cut_for_a_narrow_terminal(
    columns: str, is_drawn: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status --stats` in 80 columns would call every operation "hub.…"."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show.table(["OPERATION", *(f"COLUMN {n}" for n in range(7))], [["hub.device_changed", *["2.83 ms"] * 7]])
    said = capsys.readouterr().out
    assert "hub.device_changed" in said and said.count("2.83 ms") == 7
    assert ("\N{BOX DRAWINGS LIGHT HORIZONTAL}" in said) is is_drawn


@pytest.mark.parametrize(
    ("columns", "headings"), [("60", "NAME DOES"), ("70", "NAME CPU DOES"), ("200", "NAME OS CPU DOES")]
)
def test_a_narrow_terminal_shows_less_and_breaks_no_word(
    columns: str, headings: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `top` does. In a pipe nothing is left out."""
    head = ["NAME", "OS", "CPU", "DOES"]
    row = ["index.of_all_that_is_there", "warranted", "12.5 s", "says what there is, in a sentence of some length"]
    show.table(head, [row], less=("OS", "CPU"))
    assert capsys.readouterr().out.splitlines()[1] == "  ".join(row)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show.table(head, [row], less=("OS", "CPU"))
    said = click.unstyle(capsys.readouterr().out)
    assert said.split("\n")[1].split() == headings.split()
    assert max(map(len, said.splitlines())) <= int(columns)
    words = [word for name, cell in zip(head, row, strict=True) if name in headings for word in cell.split()]
    assert sorted(said.split()[len(headings.split()) + 1 :]) == sorted(words)


def error_of(result: Result, code: int) -> str:
    """The one line on standard error."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    # What takes over a second says what it waits for; an error is one line all the same.
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("waiting for ")]
    assert line.startswith("appbackplane: ")
    return line.removeprefix("appbackplane: ")


def test_every_verb_is_a_file_with_help(folder: Path) -> None:
    """A verb that is listed and cannot be imported fails in front of a user."""
    listed = run("--help").stdout
    for verb in VERBS:
        assert verb in listed
        assert run(verb, "--help").exit_code == DONE


@pytest.mark.parametrize("verb", ["status", "routes", "peers", "down", "call index.pid", "listen t", "publish t"])
def test_a_system_that_does_not_run_is_said_at_once(folder: Path, verb: str) -> None:
    """With where it was looked for, and what to do."""
    said = error_of(run(*verb.split(), "-s", "nobody"), FAILED)
    assert "system 'nobody' is not running" in said
    assert "appbackplane up" in said


@pytest.mark.parametrize("verb", ["status", "routes", "peers", "down", "call index.pid", "listen t", "publish t"])
def test_the_system_of_this_folder_is_named_by_its_toml(folder: Path, verb: str) -> None:
    """What to do is said so that it can be typed as it stands."""
    said = error_of(run(*verb.split()), FAILED)
    assert said.endswith("(start it: appbackplane up demo.toml)")


WRONG_USAGE = {
    "an argument without a value": ("call index.echo text -s demo", "'text': arguments are given as key=value"),
    "an argument twice": ("call index.echo text=1 text=2 -s demo", "'text' is given twice"),
    "a name that is none": ("status -s ./.toml/..x.toml", "no such file"),
    "a file that is not there": ("up nothing.toml", "nothing.toml: cannot be read"),
    "a priority out of bounds": ("call index.echo --priority -1", "Invalid value for '--priority'"),
    "an option that is none": ("status --colour", "No such option"),
}


def test_down_waits_for_a_system_that_is_just_starting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was "not running", and came up a moment after the person had turned away."""
    locked = RunDir(folder / "run", "demo")
    looks = iter([None, None, None, os.getpid()])
    monkeypatch.setattr(down, "STARTING_S", 0.0)
    monkeypatch.setattr(down, "running_pid", lambda _run_dir: next(looks))
    assert "not running" in error_of(run("down"), FAILED)
    assert list(looks) == [], "it was looked for until it listened"
    locked.close()


def test_down_right_behind_up_leaves_nothing(folder: Path, start: Callable[..., RunningSystem]) -> None:
    """From the lock on it is known that a supervisor comes."""
    system = start()
    wait_until(lambda: holder(folder / "run"), "nobody locks the run directory")
    assert run("down").exit_code == DONE
    assert system.wait_down() == 0


@pytest.mark.parametrize("case", WRONG_USAGE)
def test_wrong_usage_is_one_line_and_exit_code_2(folder: Path, case: str) -> None:
    """A script must tell its own mistake from a system that fails."""
    words, said = WRONG_USAGE[case]
    assert said in error_of(run(*words.split()), WRONG)


def test_without_a_system_the_person_is_asked_which(folder: Path) -> None:
    """Guessing among several would take down the wrong one."""
    (folder / "demo.toml").unlink()
    assert "which system?" in error_of(run("down"), WRONG)


BROKEN_TOMLS = {
    "syntax": (b'[system]\nname = "demo\n', "demo.toml: not TOML", "line 2"),
    "a mistyped table": (b'[sytem]\nname = "demo"\n', "demo.toml: ", "system"),
    "no backplane": (b'[system]\nname = "demo"\n', "demo.toml: ", "[backplane.main]"),
    "binary": (b"\xff\xfe\0", "demo.toml: cannot be read: not UTF-8", "position 0"),
}


@pytest.mark.parametrize("case", BROKEN_TOMLS)
@pytest.mark.parametrize("verb", ["up", "check"])
def test_the_one_toml_here_is_read_although_it_is_broken(folder: Path, verb: str, case: str) -> None:
    """`which system?` would send the person to look for a file that lies before them."""
    content, *said = BROKEN_TOMLS[case]
    (folder / "demo.toml").write_bytes(content)
    result = run(verb)
    assert result.exit_code == WRONG
    assert all(part in result.stderr for part in said), result.stderr
    assert "which system?" not in result.stderr


@pytest.mark.parametrize("case", ["syntax", "a mistyped table", "binary"])
def test_a_broken_toml_here_is_named_and_no_other_system_is_taken(folder: Path, case: str) -> None:
    """`down` in the folder of one system would take down another, the only one that runs."""
    (folder / "demo.toml").write_bytes(BROKEN_TOMLS[case][0])
    assert "demo.toml: " in error_of(run("status"), WRONG)


def test_without_any_toml_up_names_the_command_that_makes_one(folder: Path) -> None:
    """A TOML of another program is none of ours, and the project file is none either."""
    (folder / "demo.toml").unlink()
    (folder / "ruff.toml").write_text("line-length = 100\n")
    (folder / "pyproject.toml").write_text("not TOML")
    assert "appbackplane new NAME" in error_of(run("up"), WRONG)


def test_of_several_tomls_none_is_taken_and_all_are_named(folder: Path) -> None:
    """Whoever is asked which one has to know which ones there are."""
    (folder / "other.toml").write_text(TOML.format(system="", index=""))
    assert "demo.toml, other.toml" in error_of(run("check"), WRONG)


def test_every_problem_of_a_toml_is_a_line(folder: Path) -> None:
    """And nothing is started."""
    (folder / "demo.toml").write_text("[system]\nnme = 1\n")
    result = run("up", "demo.toml")
    assert result.exit_code == WRONG
    assert all(line.startswith(f"appbackplane: {folder}/demo.toml: ") for line in result.stderr.splitlines())
    assert "did you mean 'name'?" in result.stderr


def test_a_bug_is_a_line_and_its_traceback_only_under_debug(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback tells a user nothing; without one, nobody could mend it."""
    monkeypatch.setattr("appbackplane.supervisor.commands.status.find", lambda system: 1 / 0)
    assert "internal error: ZeroDivisionError" in error_of(run("status"), FAILED)
    assert "Traceback" in run("status", "--debug").stderr


def test_debug_shows_each_traceback_once(kept: RunningSystem) -> None:
    """Of an error that was raised again with a hint, both were shown, and the person compared them."""
    said = run("call", "index.echo", "text=x", "--timeout", "0.000001", "--debug").stderr
    assert said.count("Traceback") == 1 and "--timeout allows more" in said
    assert run("call", "index.ecko", "--debug").stderr.count("Traceback") == 1


def test_debug_says_where_a_remote_traceback_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It travels only if the system was brought up with --debug; without a word the person believes that there is none."""
    error = InternalError("index.echo: ValueError: no luck")

    def fail(_system: str | None) -> NoReturn:
        raise error

    monkeypatch.setattr("appbackplane.supervisor.commands.status.find", fail)
    assert "no remote traceback: see the log (appbackplane logs)" in run("status", "--debug").stderr
    error.trace = "raise ValueError"
    said = run("status", "--debug").stderr
    assert "remote traceback:\nraise ValueError\n" in said and "no remote traceback" not in said
    error.trace = "raise ValueError(\x1b[2J)"
    assert "raise ValueError(\\x1b[2J)" in run("status", "--debug").stderr, "it would steer the terminal"


def test_status_tells_people_and_programs_the_same(kept: RunningSystem) -> None:
    """Columns for the eye, one JSON document for the rest."""
    shown = run("status").stdout.splitlines()
    assert shown[0].startswith(f"system 'demo': up, pid {kept.process.pid}")
    assert shown[1].split()[:3] == ["BACKPLANE", "STATE", "PID"]
    assert {line.split()[0]: line.split()[-1] for line in shown[2:]} == {
        "query": "query=primary",
        "index": "index=primary",
    }
    told = json.loads(run("status", "--json", "-s", str(kept.run_dir)).stdout)
    assert [backplane["name"] for backplane in told["backplanes"]] == ["query", "index"]


def test_statistics_show_what_operations_did(kept: RunningSystem) -> None:
    """How often, and how long. An answer leaves before its action is booked."""

    def count() -> int:
        shown = run("status", "--stats").stdout.splitlines()
        return next((int(line.split()[1]) for line in shown if line.startswith("index.echo")), 0)

    run("call", "index.echo", "text=x")
    before = wait_until(count)
    run("call", "index.echo", "text=x")
    wait_until(lambda: count() > before, count)


def test_routes_lists_what_can_be_called(kept: RunningSystem) -> None:
    """With its signature, which is what one needs to call it."""
    entries = {entry["route"]: entry for entry in json.loads(run("routes", "--json").stdout)}
    assert set(entries) == {"index.pid", "index.echo", "query.ask"}
    assert entries["index.echo"]["signature"] == "(text: str) -> str"
    assert entries["index.pid"]["is_up"] is True
    assert "The process that serves." in run("routes").stdout


def test_call_prints_the_result(kept: RunningSystem) -> None:
    """As it is for people, as JSON for programs."""
    assert run("call", "index.echo", "text=two words").stdout == "two words\n"
    assert run("call", "index.echo", "text=x", "--json").stdout == '"x"\n'
    assert int(run("call", "query.ask", "--timeout", "30", "--priority", "0").stdout) in kept.pids


def test_a_call_that_fails_is_a_line(kept: RunningSystem) -> None:
    """With what was meant, or what was expected."""
    assert "did you mean 'index.echo'?" in error_of(run("call", "index.ecko"), FAILED)
    assert "text" in error_of(run("call", "index.echo", "text=1"), FAILED)
    late = error_of(run("call", "index.echo", "text=x", "--timeout", "0.000001"), FAILED)
    assert "--timeout allows more; `appbackplane why index.echo` shows meanwhile what the call waits for" in late


def test_publish_says_when_nobody_hears(kept: RunningSystem) -> None:
    """A mistyped topic looks like one that works."""
    result = run("publish", "nothing", "x=1")
    assert (result.exit_code, result.stderr) == (DONE, "topic 'nothing' has no subscribers\n")
    assert json.loads(run("publish", "nothing", "--json").stdout) == {"topic": "nothing", "backplanes": 0}


def test_listen_prints_so_many_messages(folder: Path, start: Callable[..., RunningSystem]) -> None:
    """And ends; a shell loop counts on it."""
    beat = "\n    from appbackplane.runtime import every\n    @every(0.01)\n    def beat(self) -> None:\n"
    system = start(module=MODULE + beat + '        self.publish("beats.one", n=1)\n')
    system.wait_up()
    result = run("listen", "beats.*", "--count", "2", "--json")
    assert [json.loads(line)["topic"] for line in result.stdout.splitlines()] == ["beats.one"] * 2
    assert run("down").exit_code == DONE
    assert system.wait_down() == 0


def test_down_returns_when_nothing_is_left(folder: Path, start: Callable[..., RunningSystem]) -> None:
    """Whoever starts it again in the next line must not find the old one."""
    system = start()
    system.wait_up()
    result = run("down")
    assert (result.exit_code, result.stdout) == (DONE, "system 'demo' is down\n")
    assert not system.run_dir.exists()
    assert system.wait_down() == 0


HOLDS = """
from pathlib import Path
from appbackplane.runtime import Component, operation

class Index(Component):
    @operation()
    def hold(self, until: str) -> None:
        Path(until).read_text()

class Query(Component):
    pass
"""


def test_status_names_what_hangs(
    folder: Path, start: Callable[..., RunningSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a backplane is busy is known before; what with is the question."""
    monkeypatch.setattr(status, "LONG_S", 0.3)
    system = start(module=HOLDS)
    system.wait_up()
    assert "has run for" not in run("status").stdout
    with connect(folder / "run", timeout=LIMIT_S) as client:
        os.mkfifo(folder / "now")  # to read it waits for a writer
        held = client.submit("index.hold", until=str(folder / "now"), timeout=LIMIT_S)
        limit = Limit()
        while "has run for" not in (said := run("status").stdout):
            limit.check(said, pause_s=EVERY_S)
        (folder / "now").write_text("")
        held.result()
    line = next(line for line in said.splitlines() if "has run for" in line)
    assert re.fullmatch(r"index: index\.hold on index/index has run for .* \(appbackplane why index\.hold\)", line)
    system.signal(signal.SIGTERM)
    system.wait_down()


def test_why_without_a_name_is_about_what_has_been_outstanding_longest(
    folder: Path, start: Callable[..., RunningSystem]
) -> None:
    """Who asks why all is slow does not know a name yet. What runs counts, too, and the help says so."""
    assert "Default: what has been outstanding longest" in " ".join(run("why", "--help").stdout.split())
    system = start(module=HOLDS)
    system.wait_up()
    wait_until(lambda: run("why").stdout == "nothing is outstanding\n")
    with connect(folder / "run", timeout=LIMIT_S) as client:
        os.mkfifo(folder / "now")  # to read it waits for a writer
        held = client.submit("index.hold", until=str(folder / "now"), timeout=LIMIT_S)
        wait_until(lambda: "it runs" in run("why").stdout, lambda: run("why").stdout)
        (folder / "now").write_text("")
        held.result()
    system.signal(signal.SIGTERM)
    system.wait_down()


def test_status_names_a_timer_that_fails_each_time(folder: Path, start: Callable[..., RunningSystem]) -> None:
    """All was well, as far as anybody could see."""
    beat = "    @every(0.01)\n    def beat(self) -> None:\n        raise ValueError\n"
    fails = f"class Index(Component):\n    from appbackplane.runtime import every\n{beat}"
    system = start(module=MODULE.replace("class Index(Component):", fails))
    system.wait_up()
    wait_until(lambda: "index.beat has failed" in run("status").stdout, lambda: run("status").stdout)
    line = next(line for line in run("status").stdout.splitlines() if "has failed" in line)
    assert re.fullmatch(
        r"index: index\.beat has failed \d+ times in a row \(appbackplane logs --backplane index\)", line
    )
    system.signal(signal.SIGTERM)
    system.wait_down()


def test_detached_it_returns_once_the_system_is_up(folder: Path) -> None:
    """The next line of a script may call it."""
    result = run("up", "--detach", "--json")
    assert result.exit_code == DONE, result.output
    answer = json.loads(result.stdout)
    with connect(folder / "run", timeout=LIMIT_S) as client:
        assert client.call("index.echo", text="x", timeout=LIMIT_S) == "x"
    assert "already running, pid" in error_of(run("up", "--detach"), FAILED)
    assert os.getsid(answer["pid"]) != os.getsid(0), "the end of this terminal is not its end"
    assert run("down").exit_code == DONE
    assert not (folder / "run").exists()
    assert Path(answer["log"]) == folder / "run.log"
    assert run("logs", "--lines", "1", "--json").exit_code == DONE


def test_a_system_is_found_from_another_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cron and sudo change XDG_RUNTIME_DIR: `down` said "not running", and `up` blamed the log folder."""
    toml = folder / "demo.toml"
    toml.write_text(TOML.format(system="", index="").replace('run_dir = "run"', ""))
    place = folder / "xdg" / "appbackplane" / "demo"
    assert run("up", "--detach").exit_code == DONE
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "another"))
        assert json.loads(run("status", "-s", "demo", "--json").stdout)["state"] == "up"
        assert [each["run_dir"] for each in json.loads(run("list", "--json").stdout)] == [str(place)]
        for words in (("up",), ("up", "--detach")):
            said = error_of(run(*words), FAILED)
            assert f"already running, pid {running_pid(place)} (run directory {place}, since 20" in said
            assert f", started from {toml})" in said
        assert run("down").exit_code == DONE
    finally:
        if (pid := running_pid(place)) is not None:
            os.kill(pid, signal.SIGKILL)


def test_detached_it_returns_with_the_reason_why_not(folder: Path) -> None:
    """And nothing runs then."""
    settings = '[backplane.index.settings.Index]\nfails = "constructor"'
    (folder / "demo.toml").write_text(TOML.format(system="", index=settings))
    assert "no index here" in error_of(run("up", "--detach"), FAILED)
    assert not (folder / "run").exists()


def test_check_says_in_which_order_it_would_come_up(folder: Path) -> None:
    """Nothing is started."""
    told = json.loads(run("check", "--json").stdout)
    assert told == {"system": "demo", "order": ["index", "query"], "warnings": [], "backplanes": 2, "routes": 3}
    assert not (folder / "run").exists()


BROKEN = {
    "a class that is not there": ("demo:Index", "demo:Indx", "Indx"),
    "a module that is not there": ("demo:Index", "dmeo:Index", "No module named 'dmeo'"),
    "a dependency that is not there": ('[backplane.index]\ncomponents = ["demo:Index"]', "", "depends on 'index'"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_check_says_what_would_not_come_up(folder: Path, case: str) -> None:
    """Before anything is started, and with where it is."""
    found, broken, said = BROKEN[case]
    path = folder / "demo.toml"
    path.write_text(path.read_text().replace(found, broken))
    assert said in error_of(run("check"), WRONG)


def test_what_a_component_raises_is_told_by_check_and_by_up_with_its_place(folder: Path) -> None:
    """One line, the first of it; and under --debug the traceback that leads there, not the one of the command."""
    (folder / "mine.py").write_text(
        "from appbackplane.runtime import Component\nclass A(Component):\n"
        "    def setup(self):\n        raise RuntimeError('no database\\nat all')"
    )
    (folder / "demo.toml").write_text(
        '[system]\nname = "demo"\nrun_dir = "run"\n[backplane.main]\ncomponents = ["mine:A"]\n'
    )
    said = "component 'mine:A': setup failed: RuntimeError: no database ... (mine.py:4)"
    assert error_of(run("check"), WRONG).endswith(said)
    assert said in error_of(run("up", "--detach"), FAILED)
    traced = run("check", "--debug").stderr
    assert traced.count("Traceback") == 1
    assert f'{folder}/mine.py", line 4, in setup' in traced and "commands/check.py" not in traced
    assert traced.splitlines()[-1].endswith(said)


def test_a_toml_may_begin_with_a_byte_order_mark(folder: Path) -> None:
    """Editors write one that nobody sees; the TOML in this folder is found, and read, all the same."""
    path = folder / "demo.toml"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert "comes up as index, query" in run("check").stdout
    assert "system 'demo' is not running" in error_of(run("status"), FAILED)


def test_check_finds_calls_that_would_wait_for_themselves(folder: Path) -> None:
    """A -> B -> A, while nobody waits yet."""
    path = folder / "demo.py"
    path.write_text(path.read_text().replace("@operation(priority=2)", '@operation(calls=("query.ask",))'))
    said = error_of(run("check"), WRONG)
    assert "query.ask -> index.pid -> query.ask" in said


def test_output_that_nobody_reads_is_no_error(kept: RunningSystem) -> None:
    """`appbackplane routes | head` is how people look."""
    words = [sys.executable, "-m", "appbackplane.supervisor", "routes", "-s", str(kept.run_dir)]
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    result = subprocess.run(words, stdout=write_fd, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
    os.close(write_fd)
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("x=20", 20), ("x=text", "text"), ("x=[1,2]", [1, 2]), ('x="20"', "20"), ("x=", ""), ("x=a=b", "a=b"),
        ("x=NaN", "NaN"), ("x=true", True), ("x=null", None), ('x={"a": 1}', {"a": 1}), ("x={a", "{a"),
    ],
)  # fmt: skip
def test_a_word_is_json_where_it_can_be(word: str, value: object) -> None:
    """The callee's annotations judge; the shell has only text."""
    assert arguments([word]) == {"x": value}


@pytest.mark.parametrize("word", ["x", "=1", "1x=1", "a b=1"])
def test_a_word_that_is_no_argument_is_refused(word: str) -> None:
    """It would be sent under a name that nobody has."""
    with pytest.raises(click.UsageError):
        arguments([word])
