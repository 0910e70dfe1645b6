"""Logs of real systems: nothing waits for them, nothing is lost without a count, and they are there when all else is gone."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.launching import COMMAND
from tests.waiting import EVERY_S, Limit, wait_until

from .conftest import LIMIT_S, System, Up, ask_until, command, environment, standing, wait_dead

ARCHIVE = """
{log}
[backplane.archive]
components = ["components:Scribe", "components:Gong"]
"""
#: Urgent calls that are served, one after the other, while one operation logs in a loop. On two idle cores there are some
#: hundreds of them in 40,000 lines, with both cores taken there were three; without preemption there is none before its end.
RINGS_MIN = 2
#: Lines that such an operation logs until they were served: still in the log's five files.
LINES_MAX = 250_000


@pytest.fixture
def system(up: Up) -> System:
    """One backplane."""
    return up(ARCHIVE.format(log=""))


@pytest.fixture(scope="module")
def archive(_no_ignored_interrupt: None) -> Iterator[System]:
    """One backplane, for tests that do not mind what else it has logged."""
    with standing(ARCHIVE.format(log="")) as system:
        yield system


def lines_of(folder: Path, *words: str) -> list[dict[str, Any]]:
    """What `logs` says, for programs."""
    told = command(folder, "logs", "demo", "--json", *words)
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.splitlines()]


def wait_lines(folder: Path, count: int, *words: str) -> list[dict[str, Any]]:
    """Until there are so many."""
    limit = Limit()
    while len(found := lines_of(folder, *words)) < count:
        limit.check(found, pause_s=EVERY_S)
    return found


def printed_on(folder: Path) -> list[str]:
    """The streams on which this was printed."""
    return sorted(line["stream"] for line in lines_of(folder) if line["message"] == "printed")


def count_of(folder: Path) -> tuple[int, int]:
    """(lines of the scribe's loop that are there, lines that are said to be missing)."""
    files = sorted((folder / "state" / "appbackplane" / "demo").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    written = [line["message"].split()[1] for line in lines if line["message"].startswith("line ")]
    assert len(written) == len(set(written)), "a line is there twice"
    assert written == sorted(written, key=int)
    return len(written), sum(line.get("lost", 0) for line in lines)


def test_standard_logging_works_unchanged_and_knows_where_it_was_said(system: System) -> None:
    """A component needs nothing of ours to be heard, and who reads finds what it was doing."""
    with system.connect() as client:
        client.call("scribe.say", text="%d of something", level="WARNING")
        client.call("scribe.show", text="printed")
    (said,) = wait_lines(system.folder, 1, "--component", "scribe")
    assert (said["level"], said["logger"], said["message"]) == ("WARNING", "archive.scribe", "%d of something")
    assert (said["object"], said["route"], said["extra"]) == ("archive/scribe", "scribe.say", {"page": 7})
    # What is printed takes another way to the log, two ways in fact.
    wait_until(lambda: printed_on(system.folder) == ["stderr", "stdout"], lambda: printed_on(system.folder))
    assert system.wait_for("WARNING archive.scribe: %d of something page=7").startswith("archive    | ")


def test_a_flood_holds_nobody_up_and_every_line_of_it_is_there_or_counted(system: System) -> None:
    """An operation that logs in a loop must not keep urgent work waiting, and its log must not lie.

    The duration of one call of `logging` is measured by `scripts/bench log_call`.
    """
    with system.connect() as client:
        client.call("gong.ring", timeout=LIMIT_S)
        before = system.backplane("archive")["log"]["lines"]
        flood = client.submit("scribe.flood", least=40_000, most=LINES_MAX, rings=RINGS_MIN, timeout=4 * LIMIT_S)
        while not flood.done():
            client.call("gong.ring", priority=0, timeout=LIMIT_S)
        count, rings = flood.result()
    assert rings >= RINGS_MIN, "urgent calls waited for the operation that logs"
    log = wait_until(lambda: all_counted(system, before + count), "lines are neither written nor counted as lost")
    system.interrupt()
    assert system.wait_down() == 0
    written, lost = count_of(system.folder)
    assert written + lost == count
    assert lost == log["lost"]


def all_counted(system: System, count: int) -> dict[str, Any]:
    """What the status says of the log, once it tells of so many lines; else nothing."""
    log: dict[str, Any] = system.backplane("archive")["log"]
    return log if log["lines"] + log["lost"] >= count else {}


def test_a_supervisor_that_does_not_read_holds_nobody_up_and_what_is_lost_is_counted_exactly(system: System) -> None:
    """The log is the last reason for which work may stop."""
    count = 20_000
    with system.connect() as client:
        client.call("gong.ring", timeout=LIMIT_S)
        os.kill(system.pid, signal.SIGSTOP)
        try:
            client.call("scribe.write", count=count, text="x" * 100, timeout=LIMIT_S)
            client.call("scribe.say", text="the reason", level="ERROR", timeout=LIMIT_S)
        finally:
            os.kill(system.pid, signal.SIGCONT)
        assert [line["message"] for line in wait_lines(system.folder, 1, "--level", "ERROR")] == ["the reason"]
        ask_until(client, "supervisor.status", lambda told: told["backplanes"][0]["log"]["lost"] > 0)
    lost = system.backplane("archive")["log"]["lost"]
    assert f"log: {lost:,} of " in system.command("status").stdout
    system.interrupt()
    assert system.wait_down() == 0
    written, told = count_of(system.folder)
    assert 1_000 < written < count, "it was full, and what was in it is there"
    assert (written + told, told) == (count, lost)


def test_where_no_line_may_be_lost_who_logs_waits_for_the_supervisor(up: Up) -> None:
    """`when_full = "wait"`: a supervisor that stands still for a moment costs time, and no line."""
    system, count = up(ARCHIVE.format(log='log = { ring = "128KiB", when_full = "wait" }')), 20_000
    with system.connect() as client:
        client.call("gong.ring", timeout=LIMIT_S)
        os.kill(system.pid, signal.SIGSTOP)
        try:
            flood = client.submit("scribe.write", count=count, text="x" * 100, timeout=4 * LIMIT_S)
            for _ in range(RINGS_MIN):  # urgent work does not wait with who logs
                client.call("gong.ring", priority=0, timeout=LIMIT_S)
        finally:
            os.kill(system.pid, signal.SIGCONT)
        flood.result()
    system.interrupt()
    assert system.wait_down() == 0
    assert count_of(system.folder) == (count, 0)


def test_what_a_backplane_said_before_it_was_killed_is_there(system: System) -> None:
    """All of it: the last line is the one that somebody needs. And it is in the reason that people are shown."""
    with system.connect() as client:
        client.cast("scribe.die", count=500)
        system.wait_for("up again, generation 2")
    assert count_of(system.folder) == (500, 0)
    assert system.wait_for("killed by signal 9").endswith("killed by signal 9: no ink; starting it again now")
    assert system.backplane("archive")["reason"] == "killed by signal 9: no ink"


def test_what_a_dead_backplane_had_no_room_for_is_told_when_it_is_buried(system: System) -> None:
    """It will never log again, so there is no later occasion."""
    count, pid = 20_000, system.pids()["archive"]
    with system.connect() as client:
        client.call("gong.ring", timeout=LIMIT_S)
        os.kill(system.pid, signal.SIGSTOP)
        try:
            client.cast("scribe.die", count=count)
            wait_dead(pid)
        finally:
            os.kill(system.pid, signal.SIGCONT)
    system.wait_for("up again, generation 2")
    written, lost = count_of(system.folder)
    assert 0 < written < count
    assert written + lost == count
    assert system.backplane("archive")["log"]["lost"] == lost
    assert system.backplane("archive")["reason"] == "killed by signal 9: no ink"


def test_a_supervisor_that_is_killed_leaves_a_log_and_the_next_one_goes_on_with_it(system: System, up: Up) -> None:
    """Who looks why it died has nothing else."""
    with system.connect() as client:
        client.call("scribe.say", text="before")
    wait_lines(system.folder, 1, "--component", "scribe")
    system.process.kill()
    system.process.wait(LIMIT_S)
    assert [line["message"] for line in lines_of(system.folder, "--component", "scribe")] == ["before"]
    again = up(ARCHIVE.format(log=""))
    with again.connect() as client:
        client.call("scribe.say", text="after")
    found = wait_lines(system.folder, 2, "--component", "scribe")
    assert [line["message"] for line in found] == ["before", "after"]


def test_files_take_turns_where_they_are_told_to(up: Up, folder: Path) -> None:
    """No disk is filled; and the log is found by its system's name wherever it lies, also when it is down."""
    system = up(ARCHIVE.format(log='log = { dir = "kept", file_size = "64KiB", files = 2, level = "WARNING" }'))
    with system.connect() as client:
        client.call("scribe.write", count=1_000)
        assert client.call("backplane.archive.log_level") == "WARNING"
        assert client.call("backplane.archive.log_level", level="INFO") == "INFO"
        for _ in range(3):
            client.call("scribe.write", count=400, text="x" * 200, timeout=LIMIT_S)
    system.interrupt()
    assert system.wait_down() == 0
    files = sorted((folder / "kept").glob("*.jsonl"))
    assert len(files) == 2
    assert int(files[0].stem) > 1
    assert all(file.stat().st_size <= (64 << 10) + 1_000 for file in files), "no more than a line above"
    assert lines_of(folder, "--lines", "1")[0]["message"] == "down"


def test_logs_answer_at_once_while_everything_is_saturated(system: System) -> None:
    """They are looked at when something is wrong: nobody waits for an end of what is logged."""
    with system.connect() as client:
        floods = [client.submit("scribe.write", count=100_000, timeout=10 * LIMIT_S) for _ in range(50)]
        wait_lines(system.folder, 100, "--component", "scribe")
        for _ in range(3):
            assert len(lines_of(system.folder, "--lines", "50")) == 50
        assert not floods[-1].done(), "it was saturated to the end"
        for flood in floods:
            flood.cancel()


@contextmanager
def following(folder: Path, *words: str) -> Iterator[tuple[int, int]]:
    """`logs -f`, as a person types it: (pid, the terminal's other end)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [*COMMAND, "logs", "demo", "-f", *words], {**environment(folder), "TERM": "xterm-256color"}
        )
    try:
        yield pid, terminal
    finally:
        os.close(terminal)
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def read_until(terminal: int, text: bytes, said: bytes = b"") -> bytes:
    """What it shows, up to where that is said."""
    limit = Limit()
    while text not in said:
        assert select.select([terminal], [], [], limit.left_s)[0], (text, said[-2_000:])
        said += os.read(terminal, 65_536)
    return said


def ended(pid: int, terminal: int) -> int:
    """Its exit code, whatever it still has to show."""
    limit = Limit()
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        limit.check("it has not ended")
        if select.select([terminal], [], [], EVERY_S)[0]:
            try:
                os.read(terminal, 65_536)
            except OSError:  # nobody has it open any more
                continue
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_following_on_a_terminal_goes_on_across_files_and_restarts_until_ctrl_c(up: Up, folder: Path) -> None:
    """One Ctrl-C, whenever it comes."""
    toml = ARCHIVE.format(log='log = { file_size = "64KiB", files = 50 }')
    system = up(toml)
    with following(folder, "--component", "scribe") as (pid, terminal):
        with system.connect() as client:
            client.call("scribe.say", text="look here", level="ERROR")
            said = read_until(terminal, b"look here")
            assert b"\x1b[31m" in said, "in colour"
            client.call("scribe.write", count=1_000, text="y" * 100, timeout=LIMIT_S)
            said = read_until(terminal, b"line 999 ", said)
            shown = [int(part.split()[0]) for part in said.split(b": \x1b[0mline ")[1:]]
            assert shown == list(range(1_000)), "each line once, in order, across files"
        system.interrupt()
        assert system.wait_down() == 0
        with up(toml).connect() as client:
            client.call("scribe.say", text="here again")
        read_until(terminal, b"here again")
        os.write(terminal, b"\x03")
        assert ended(pid, terminal) == 0


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_ctrl_c_ends_it_also_while_its_terminal_is_stopped(archive: System) -> None:
    """Ctrl-S, or a scrolled-back tmux: it is in the middle of writing what nobody takes."""
    with following(archive.folder) as (pid, terminal), archive.connect() as client:
        client.call("scribe.say", text="look here")
        read_until(terminal, b"look here")
        client.call("scribe.write", count=5_000, text="z" * 100, timeout=LIMIT_S)
        wait_blocked(pid)  # nobody reads the other end: its buffer is full
        os.write(terminal, b"\x03")
        assert ended(pid, terminal) == 0


@pytest.mark.usefixtures("_no_ignored_interrupt")
def test_following_who_has_never_been_heard_says_so_and_waits(archive: System) -> None:
    """It may come up yet; or it was mistyped."""
    with following(archive.folder, "--backplane", "archiv") as (pid, terminal):
        said = read_until(terminal, b"waiting for it")
        assert b"did you mean 'archive'?" in said
        os.write(terminal, b"\x03")
        assert ended(pid, terminal) == 0


#: The number of write(2), on x86-64 and on aarch64.
WRITE = ("1", "64")


def wait_blocked(pid: int) -> None:
    """Until our child waits in a write to its standard output or error, its terminal."""

    def is_blocked() -> bool:
        number, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
        return number in WRITE and arguments[0] in ("0x1", "0x2")

    wait_until(is_blocked, "it does not wait for its terminal")


def test_what_cannot_be_answered_is_said_in_one_line(archive: System) -> None:
    """With what to do; a wrong name is not an empty log."""
    cases = {
        ("logs", "nobody"): (1, "no log of system 'nobody'"),
        ("logs", "demo", "--backplane", "archiv"): (1, "no backplane 'archiv' has logged anything here (did you mean"),
        ("logs", "demo", "--component", "zzz"): (
            1,
            "no component 'zzz' has logged anything here (there are: scribe, gong)",
        ),
        ("logs", "demo", "-s", "demo"): (2, "named twice"),
        ("logs", "demo", "--since", "yesterday"): (2, "--since: expected a time such as"),
        ("logs", "demo", "--level", "LOUD"): (2, "Invalid value for '--level'"),
        ("logs", "demo", "--lines", "-1"): (2, "Invalid value for '--lines'"),
    }
    for words, (code, text) in cases.items():
        told = command(archive.folder, *words)
        assert (told.returncode, told.stdout) == (code, ""), words
        (line,) = told.stderr.splitlines()
        assert line.startswith("appbackplane: ") and text in line


def test_its_output_may_be_cut_off(archive: System) -> None:
    """`appbackplane logs | head`."""
    with archive.connect() as client:
        client.call("scribe.write", count=1_000, text="x" * 200, timeout=LIMIT_S)
    wait_lines(archive.folder, 1_000, "--lines", "100000", "--component", "scribe")
    told = subprocess.run(
        f"{sys.executable} -m appbackplane.supervisor logs demo --lines 100000 | head -1",
        shell=True,
        env=environment(archive.folder),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (len(told.stdout.splitlines()), told.stderr) == (1, "")
