"""Bad input, a table: each verb in each situation. One clear line, the right exit code, and never a traceback.

Over the real command line (cli_server.py): processes, users, descriptors and systems are what they are in a terminal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from appbackplane.supervisor.commands import cli
from appbackplane.supervisor.commands.cli import VERBS
from appbackplane.supervisor.processes.run_dir import running_pid

from .bad_input import DONE, FAILED, SITUATIONS, TYPED, WITHOUT_SYSTEM, WORDS, WRONG, Said
from .conftest import LIMIT_S, MODULE, TOML

HERE = Path(__file__).parent
STRANGER = 65534
BEAT = """
    from appbackplane.runtime import every
    @every(0.02)
    def beat(self) -> None:
        self.publish("beats.one", n=1)
"""
FILES = {
    "broken.toml": b"[system",
    "bytes.toml": b"\xff\xfe[system]",
    "nul.toml": b'[system]\nname = "nul"\nrun_dir = "a\\u0000b"\n[backplane.a]\ncomponents = ["demo:Index"]\n',
}


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    code: int
    out: str
    err: str


class Shell:
    """Types commands in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
        self.environment |= {
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "HOME": str(folder),
        }
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "cli_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *words: str, stdout: str = "kept", uid: int | None = None) -> Ended:
        """One command, to its end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        typed = {"words": words, "folder": str(self.folder), "environment": self.environment, "stdout": stdout}
        self._process.stdin.write(json.dumps(typed | {"uid": uid, "limit_s": 2 * LIMIT_S}) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """No more."""
        self._process.communicate(timeout=LIMIT_S)


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """In a folder where all systems of the table are; anybody may look into it, and nobody else change it."""
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    (folder / "demo.py").write_text(MODULE + BEAT)
    for name in ("demo", "stale", "foreign", "open"):
        toml = TOML.format(system="", index="").replace('"demo"', f'"{name}"').replace('run_dir = "run"\n', "")
        (folder / f"{name}.toml").write_text(toml)
    (folder / "demo.toml").chmod(0o600)
    for file, data in FILES.items():
        (folder / file).write_bytes(data)
    (folder / "folder.toml").mkdir()
    (folder / "demo_files").mkdir()
    (folder / "demo_files" / "one").touch()
    (folder / "appbackplane").mkdir()
    (folder / "appbackplane" / "open").mkdir()
    (folder / "appbackplane" / "open").chmod(0o755)  # whatever the umask
    shell = Shell(folder)
    try:
        for name in ("stale", "demo"):
            started = shell.run("up", f"{name}.toml", "--detach", "--json")
            assert started.code == DONE, started
            if name == "stale":
                os.kill(json.loads(started.out)["pid"], signal.SIGKILL)
        yield shell
        assert shell.run("down", "-s", "demo").code == DONE
    finally:
        shell.close()
        for run_dir in (folder / "appbackplane").iterdir():
            if run_dir.name != "foreign" and (pid := running_pid(run_dir)) is not None:
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def foreign(shell: Shell) -> Iterator[None]:
    """Another user's process listens where a system of ours would be."""
    run_dir = shell.folder / "appbackplane" / "foreign"
    run_dir.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run_dir / "supervisor.sock"))
        os.chown(run_dir, STRANGER, STRANGER)
        os.seteuid(STRANGER)  # whoever calls listen() is whom the kernel names
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        yield


def is_private(path: Path) -> bool:
    """Whether it lies below a folder that other users cannot enter, as one made by `mktemp -d`."""
    return not all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents)


def assert_said(ended: Ended, said: Said, verb: str) -> None:
    """The exit code, and one line; nothing on standard output beside it."""
    assert ended.code == said.code, ended
    assert "Traceback" not in ended.err
    assert "internal error" not in ended.err
    # What takes over a second says what it waits for; on a busy machine, anything may.
    lines = [line for line in ended.err.splitlines() if not line.startswith("waiting for ")]
    if said.line:
        (line,) = lines
        assert line.startswith("appbackplane: ")
        assert re.search(said.line, line), line
        assert not re.search("[^ -~]", line)
        assert len(line) < 1_700
        assert ended.out == ""
    else:
        assert not [line for line in lines if line.startswith("appbackplane: ")], lines


def test_every_verb_is_in_every_situation() -> None:
    """A verb that is not in the table says whatever it says."""
    assert set(TYPED) == set(VERBS)
    for name, situation in SITUATIONS.items():
        assert set(situation.said) == set(VERBS), name
    assert {said.code for situation in SITUATIONS.values() for said in situation.said.values()} == {DONE, FAILED, WRONG}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", SITUATIONS)
def test_in_each_situation_each_verb_says_what_is_wrong(
    shell: Shell, request: pytest.FixtureRequest, name: str, verb: str
) -> None:
    """A person must know what to do, and a script whether it is its own mistake (2) or the system's (1)."""
    situation, said = SITUATIONS[name], SITUATIONS[name].said[verb]
    if (situation.is_stranger or "another user" in name) and os.geteuid() != 0:
        pytest.skip("only root can be another user for a moment")
    if situation.is_stranger and verb == "new" and is_private(Path(cli.__file__)):
        pytest.skip("new reads files of the package, which lie in a folder that others cannot enter")
    if "another user" in name:
        request.getfixturevalue("foreign")
    words = said.words or (*TYPED[verb], *situation.words)
    assert_said(shell.run(*words, stdout=situation.stdout, uid=STRANGER if situation.is_stranger else None), said, verb)


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words.encode("unicode_escape").decode()[:60])
def test_each_wrong_word_is_named(shell: Shell, words: str) -> None:
    """With what was probably meant, where it is nearly right."""
    typed = shlex.split(words)
    of = [] if typed[0] in WITHOUT_SYSTEM else ["-s", "demo"]
    assert_said(shell.run(*typed, *of), WORDS[words], typed[0])


def test_nothing_of_all_this_has_harmed_the_system(shell: Shell) -> None:
    """It was asked to go down with a time that is none, among other things."""
    told = json.loads(shell.run("status", "--json", "-s", "demo").out)
    assert told["state"] == "up"
    assert {backplane["restarts"] for backplane in told["backplanes"]} == {0}


def test_what_a_killed_supervisor_left_does_not_keep_it_from_coming_up(shell: Shell) -> None:
    """By its name alone, and it goes down in order after that."""
    assert asdict(shell.run("up", "stale.toml", "--detach"))["code"] == DONE
    assert shell.run("status", "-s", "stale").code == DONE
    assert shell.run("down", "-s", "stale").code == DONE


def test_the_system_that_is_named_goes_before_that_of_the_environment(shell: Shell) -> None:
    """Who has one in the environment may still look at another, without being told that it is named twice."""
    shell.environment["APPBACKPLANE_SYSTEM"] = "idle"
    try:
        assert shell.run("top", "demo", "--once").code == DONE
        assert shell.run("logs", "demo").code == DONE
        assert shell.run("logs").code == FAILED
    finally:
        del shell.environment["APPBACKPLANE_SYSTEM"]


def test_the_real_program_says_the_same(shell: Shell) -> None:
    """As it is installed, through a shell, with a reader that goes away: what the table takes for granted."""
    program = f"{shlex.quote(sys.executable)} -m appbackplane.supervisor"

    def typed(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            cwd=shell.folder, env=shell.environment, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
        )  # fmt: skip

    head = typed(f"{program} logs -s demo --json | head -1")
    assert (head.returncode, head.stderr, head.stdout.count("\n")) == (DONE, "", 1)
    closed = typed(f"{program} status -s demo >&-")
    assert (closed.returncode, closed.stdout, closed.stderr) == (DONE, "", "")
    wrong = typed(f"{program} status -s $'\\xff'")
    assert wrong.returncode == WRONG
    assert wrong.stderr.startswith("appbackplane: ")
