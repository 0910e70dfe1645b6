"""The demonstration, as `scripts/run` starts it: real processes, real files, and figures that are kept.

`XDG_RUNTIME_DIR` gives each test a run directory of its own.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from codesearch.tree import source_files

from appbackplane.transport import Client, connect
from appbackplane.transport.errors import BackplaneError
from tests.figures import IS_LONG
from tests.waiting import EVERY_S, LIMIT_S, Limit

LIVE = Path(__file__).resolve().parents[2] / "examples" / "codesearch" / "live.py"
SYSTEM = [sys.executable, "-m", "appbackplane.supervisor"]
#: More than twice what the demonstration gives its system to come up, or to go down (codesearch/running.py).
UP_S_MAX = LIMIT_S + 30.0
PACKAGES = (
    "asyncio", "concurrent", "ctypes", "email", "encodings", "html", "http", "importlib", "json", "logging",
    "multiprocessing", "sqlite3", "unittest", "urllib", "wsgiref", "xml", "xmlrpc",
)  # fmt: skip
#: How often a worker is killed.
KILLS = 3 if IS_LONG else 1
#: A second as it is shown: its number, how many searches were answered in it, and files a second.
SECOND = re.compile(
    r"^ *(\d+) s \| urgent p50 +[\d.]+ ms, p99 +[\d.]+ ms \((\d+) searches.*?\) \| bulk +(\d+) files/s, +[\d.]+ MB/s",
    re.MULTILINE,
)
#: What `start` started in this test.
started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def run_dirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of its own for run directories, with a path short enough for sockets."""
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored (`pytest &`), it would be so in children
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        yield Path(folder)
        for process in started:  # of a test that has failed
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=UP_S_MAX)
        started.clear()
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def tree(stdlib: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some packages of the standard library: a sixth of it, and enough that all workers have work at once."""
    folder: Path = tmp_path_factory.mktemp("tree")
    for name in PACKAGES:
        shutil.copytree(stdlib / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "test", "tests"))
    return folder


def start(*arguments: str) -> subprocess.Popen[str]:
    """The demonstration, not on a terminal."""
    command = [sys.executable, str(LIVE), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    started.append(process)
    return process


def wait_for_client() -> Client:
    """A client, once the system is up."""
    limit = Limit(UP_S_MAX)
    while True:
        try:
            client = connect("codesearch")
        except BackplaneError:
            limit.check("it does not come up", pause_s=EVERY_S)
        else:
            wait_until(client, "index.progress", bool)
            return client


def wait_until(client: Client, route: str, is_so: Any, **arguments: Any) -> Any:
    """Ask until the answer is as expected; what fails meanwhile (a restart) is asked again."""
    limit = Limit(UP_S_MAX)
    while True:
        try:
            answer = client.call(route, timeout=5.0, **arguments)
        except BackplaneError as error:
            answer = error
        else:
            if is_so(answer):
                return answer
        limit.check(f"{route} still says {answer!r}", pause_s=EVERY_S)


def system_of(tree: Path, folder: Path) -> Path:
    """The system of the example, which reads this tree from the start."""
    (folder / "codesearch").symlink_to(LIVE.with_name("codesearch"))
    path = folder / "codesearch.toml"
    settings = "[backplane.index.settings.Index.policy]"
    path.write_text(
        LIVE.with_name(path.name)
        .read_text()
        .replace(settings, f'[backplane.index.settings.Index]\nroot = "{tree}"\n{settings}')
    )
    return path


def wait_until_busy(client: Client) -> None:
    """Until three requests are executed at once; a round that was too quick to be seen is followed by another."""

    def is_busy(progress: dict[str, Any]) -> bool:
        if progress["is_idle"]:
            client.call("index.rebuild", timeout=UP_S_MAX)
        return sum(progress["executing"]) >= 3

    wait_until(client, "index.progress", is_busy)


def assert_nothing_left(live: subprocess.Popen[str], run_dirs: Path) -> None:
    """No process of its, and no socket."""
    left = [
        " ".join(p.cmdline()) for p in psutil.process_iter() if p.pid != live.pid and str(run_dirs) in _runtime_dir(p)
    ]
    assert left == [], "processes outlive the demonstration"
    assert not list(run_dirs.rglob("*.sock"))


def _runtime_dir(process: psutil.Process) -> str:
    try:
        is_ours = process.pid != os.getpid()
        return process.environ().get("XDG_RUNTIME_DIR", "") if is_ours else ""
    except psutil.Error:
        return ""


def test_a_bounded_run_shows_both_sides_and_ends_well(run_dirs: Path) -> None:
    """What a newcomer runs first: `scripts/run --for 5`. A second that is not shown, or a search that is not in the sum, and
    the figures prove nothing. How much was done in each second says as much of the machine: none of it is asserted.
    """
    live = start("--for", "2")
    out, err = live.communicate(timeout=UP_S_MAX + 30)
    assert live.returncode == 0, out + err
    assert [int(number) for number, *_ in SECOND.findall(out)] == [1, 2], out
    summary = re.search(
        r"^urgent: (\d+) searches.*, p50 ([\d.]+) ms, p99 ([\d.]+) ms, slowest ([\d.]+) ms$", out, re.MULTILINE
    )
    assert summary, out
    assert int(summary[1]) >= sum(int(count) for _, count, _ in SECOND.findall(out)), out
    assert float(summary[2]) <= float(summary[3]) <= float(summary[4]), out
    assert re.search(r"^bulk: +\d+ files, [\d.]+ MB in \d+ s", out, re.MULTILINE), out
    assert "Traceback" not in err, err
    assert "ERROR" not in err, err
    assert "WARNING" not in re.sub("(?m)^.*(slow|late) action.*$", "", err), "it begins or ends with a warning"
    assert_nothing_left(live, run_dirs)


def test_another_tree_is_indexed_and_found(run_dirs: Path, tmp_path: Path) -> None:
    """`--root`, searches that are answered while it is read again and again, and Ctrl-C: in order, with a summary."""
    (tmp_path / "only.py").write_text("def a_name_that_is_nowhere_else():\n    pass\n")
    live = start("--root", str(tmp_path))
    try:
        client = wait_for_client()
        hits = wait_until(client, "query.symbol", bool, name="a_name_that_is_nowhere_else")
        assert hits[0]["file"] == str(tmp_path.resolve() / "only.py")
        assert client.call("index.progress")["root"] == str(tmp_path.resolve())
        client.close()
        assert live.stdout is not None
        limit, searches, files = Limit(UP_S_MAX), 0, 0
        while not searches or not files:  # in one second, not one after the other
            second = live.stdout.readline()
            limit.check(second)
            told = SECOND.match(second)
            assert told, second
            searches, files = int(told[2]), int(told[3])
    finally:
        live.send_signal(signal.SIGINT)
        out, err = live.communicate(timeout=UP_S_MAX)
    assert live.returncode == 0, out + err
    assert "urgent: " in out
    assert_nothing_left(live, run_dirs)


def test_an_index_whose_process_is_killed_comes_back(run_dirs: Path, tree: Path) -> None:
    """The index lives in one process: when that dies it is read again by itself, and searches work again."""
    live = start("--root", str(tree))
    try:
        client = wait_for_client()
        before = wait_until(client, "query.statistics", lambda answer: answer["entries"] > 10_000)
        status = client.call("supervisor.status", statistics=False)
        (query,) = (place for place in status["backplanes"] if place["name"] == "query")
        os.kill(query["pid"], signal.SIGKILL)
        after = wait_until(client, "query.statistics", lambda answer: answer["entries"] > 10_000)
        while after["epoch"] == before["epoch"]:
            after = wait_until(client, "query.statistics", lambda answer: answer["entries"] > 10_000)
        assert client.call("query.symbol", name="gather") or wait_until(client, "query.symbol", bool, name="gather")
        assert client.call("index.progress")["failed"] == 0
        client.close()
    finally:
        live.send_signal(signal.SIGINT)
        out, err = live.communicate(timeout=UP_S_MAX)
    assert live.returncode == 0, out + err
    assert_nothing_left(live, run_dirs)


def test_a_worker_that_is_killed_costs_nothing_but_time(run_dirs: Path, tree: Path) -> None:
    """What it had is worked on by another: no file is left out, none is told to have failed, and none is there twice."""
    files_count = sum(len(folder) for folder in source_files(tree))

    def is_through(progress: dict[str, Any]) -> bool:
        """Whether a whole round is behind it: one that lost its feeder is followed by another at once."""
        return bool(progress["is_idle"] and progress["round_files_done"] == progress["round_files"] == files_count)

    system = subprocess.Popen([*SYSTEM, "up", str(system_of(tree, run_dirs))], process_group=0)
    started.append(system)
    client = wait_for_client()
    for _ in range(KILLS):
        wait_until_busy(client)
        status = client.call("supervisor.status", statistics=False)
        workers = [each["pid"] for each in status["backplanes"] if each["replica_of"] == "worker"]
        os.kill(max(workers, key=lambda pid: psutil.Process(pid).cpu_times().user), signal.SIGKILL)
        after = wait_until(client, "index.progress", is_through)
        assert (after["failed"], client.call("index.failures")) == (0, [])
        entries = client.call("query.statistics")["entries"]
        client.call("index.rebuild", timeout=UP_S_MAX)
    wait_until(client, "index.progress", is_through)
    assert client.call("query.statistics")["entries"] == entries
    client.close()
    system.terminate()
    assert system.wait(UP_S_MAX) == 0
    assert_nothing_left(system, run_dirs)


def test_a_tree_is_indexed_with_a_bar(run_dirs: Path, tmp_path: Path) -> None:
    """`python index.py`: lines where there is no terminal; exit code 1 and the names where a file could not be read."""
    for n in range(30):
        (tmp_path / f"{n}.py").write_text(f"def name_{n}(): pass\n" * (n * 100 + 1))
    command = [sys.executable, str(LIVE.with_name("index.py")), "--root", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=UP_S_MAX, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert re.fullmatch(r"100 % \|.* files \|.* MB/s \| \d of 5 workers \(.*\), \d+ wait \| 0 failed", lines[-2]), lines
    assert re.fullmatch(r"\d+ files, [\d.]+ MB in [\d.]+ s: .* files/s, .* MB/s, 0 failed", lines[-1]), lines
    (tmp_path / "data.py").write_bytes(b"x" * 3_000_000)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=UP_S_MAX, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"not indexed: {tmp_path}/data.py: larger than 2,097,152 bytes\n"
    left = [p.pid for p in psutil.process_iter() if str(run_dirs) in _runtime_dir(p)]
    assert left == [], "what it started, it takes down"
    wrong = subprocess.run([*command[:-1], "/no/such"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, "no such folder" in wrong.stderr) == (2, True)


def test_a_system_that_cannot_come_up_says_why(run_dirs: Path) -> None:
    """Exit code 1, the reason in words, and no traceback."""
    run_dirs.chmod(0o777)  # sockets in a folder that is open to all are refused
    folder = run_dirs / "appbackplane" / "codesearch"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    live = start("--for", "1")
    out, err = live.communicate(timeout=UP_S_MAX)
    assert live.returncode == 1, out + err
    assert "is open to others" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(("--for", "0"), "expected a number of seconds above 0"), (("--root", "/no/such"), "no such folder")],
)
def test_wrong_usage_is_told_before_anything_starts(arguments: tuple[str, ...], problem: str) -> None:
    """Exit code 2, as everywhere."""
    ended = subprocess.run([sys.executable, str(LIVE), *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert problem in ended.stderr


def test_a_second_one_is_refused(run_dirs: Path, tmp_path: Path) -> None:
    """Two demonstrations would measure each other; the second must not take down the first."""
    live = start("--root", str(tmp_path))
    try:
        client = wait_for_client()
        second = start("--for", "1")
        _, err = second.communicate(timeout=UP_S_MAX)
        assert second.returncode == 1
        assert "runs already" in err
        assert client.call("index.progress")["files"] >= 0
        client.close()
    finally:
        live.send_signal(signal.SIGINT)
        live.communicate(timeout=UP_S_MAX)
