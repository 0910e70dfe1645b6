"""A running system is told what its TOML says now: what can be is changed at once, the rest by a restart of those concerned.

Real processes: the plan is the supervisor's, a change is seen by what the process does from then on, and who was not
concerned has the same pid and generation as before.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appbackplane.runtime.execution.workers.poll_leader import RELIEFS_MAX
from appbackplane.supervisor.commands import main
from appbackplane.transport import connect
from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument, NotFound
from tests.waiting import wait_until

from .conftest import LIMIT_S, RunningSystem, is_alive, starting
from .test_limits import wait_for, with_groups

Start = Callable[..., RunningSystem]
DONE, FAILED, WRONG = 0, 1, 2

MODULE = '''
"""Who can be told much while he works."""
import os, pathlib, sys, threading
from appbackplane.runtime import AppObject, Component, operation, pause

HERE = pathlib.Path(__file__).parent

class Clerk(AppObject):
    @operation(priority=1)
    def meet(self, number: int) -> int:
        "Returns once `number` of them are in here at one time, or were let go."
        index = self._component
        with index.gate:
            index.count += 1
            self.publish("index.inside", count=index.count)
            index.gate.notify_all()
            assert index.gate.wait_for(lambda: index.count >= number, 120)
        return threading.get_ident()

class Index(Component):
    def __init__(self, size: int = 1, waits: bool = False) -> None:
        self.size, self.waits, self.count = size, waits, 0
        self.gate = threading.Condition()

    def setup(self) -> None:
        for number in range(8):
            self.add(Clerk(), key=f"clerk-{number}")

    async def on_initializing(self) -> None:
        while self.waits and not (HERE / "go").exists():
            await pause(0.01)

    @operation(priority=0)
    def let_go(self) -> None:
        "Of whoever meets."
        with self.gate:
            self.count = 1000
            self.gate.notify_all()

    @operation(priority=0)
    def forget(self) -> None:
        with self.gate:
            self.count = 0

    @operation()
    def pid(self) -> int:
        return os.getpid()

    @operation()
    def told(self) -> dict:
        "What this process was told."
        return {"size": self.size, "switch": sys.getswitchinterval(), "cgroup": open("/proc/self/cgroup").read()}

class Query(Component):
    depends_on = ("index",)

    @operation()
    async def ask(self) -> int:
        return await self.call("index.pid")

class Extra(Component):
    @operation()
    def pid(self) -> int:
        return os.getpid()

class Broken(Component):
    def __init__(self) -> None:
        raise OSError("no licence")
'''


def run(*words: str) -> Result:
    """A command, as typed."""
    return CliRunner().invoke(main, [str(word) for word in words])


def errors(result: Result) -> list[str]:
    """The lines on standard error, but for those of progress."""
    return [line for line in result.stderr.splitlines() if not line.startswith("waiting for ")]


@pytest.fixture
def up(start: Start) -> RunningSystem:
    """A system that has come up; its TOML is to be changed."""
    system = start(module=MODULE)
    system.wait_up()
    return system


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSystem]:
    """One system for the tests that restart nothing in it."""
    with starting(tmp_path_factory.mktemp("lasting")) as begin:
        system = begin(module=MODULE)
        system.wait_up()
        yield system
        system.signal(signal.SIGTERM)
        assert system.wait_down() == 0


@pytest.fixture
def changed(lasting: RunningSystem) -> Iterator[RunningSystem]:
    """The same. Afterwards it runs as at its start, in the same processes and on as many threads."""
    before, pid = ids(lasting), lasting.backplane("index")["pid"]
    threads = tasks(pid)
    write(lasting)
    yield lasting
    write(lasting)
    reload(lasting)
    with connect(lasting.run_dir, timeout=LIMIT_S) as client:
        client.call("index.forget", timeout=LIMIT_S)
    assert ids(lasting) == before
    wait_for(lambda: tasks(pid) == threads)  # one that was taken away ends by itself


def write(system: RunningSystem, index: str = "", more: str = "", query: str = "", of_system: str = "") -> None:
    """Another TOML."""
    system.toml.write_text(
        f"""
[system]
name = "demo"
run_dir = "run"
{of_system}
[backplane.query]
components = ["demo:Query"]
{query}
[backplane.index]
{index if "components" in index else 'components = ["demo:Index"]' + chr(10) + index}
{more}
"""
    )


def reload(system: RunningSystem, *words: str) -> dict[str, Any]:
    """Done, as JSON."""
    result = run("reload", str(system.toml), "--json", *words)
    assert result.exit_code == DONE, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def ids(system: RunningSystem) -> dict[str, tuple[int, int]]:
    """Pid and generation of each."""
    return {entry["name"]: (entry["pid"], entry["generation"]) for entry in system.status()["backplanes"]}


@contextmanager
def under_load(system: RunningSystem, threads: int = 2) -> Iterator[list[int]]:
    """Calls without a pause, of which none may fail; how many there were so far."""
    counts, failures, stop = [0] * threads, [], threading.Event()

    def call(number: int) -> None:
        try:
            with connect(system.run_dir, timeout=LIMIT_S) as client:
                while not stop.is_set():
                    client.call("index.pid", timeout=LIMIT_S)
                    counts[number] += 1
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=call, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        wait_until(lambda: all(counts) or failures, "there is no load")
        yield counts
    finally:
        stop.set()
        for worker in workers:
            worker.join(LIMIT_S)
    assert failures == []


# At once


def test_what_can_be_is_changed_at_once_under_load(changed: RunningSystem) -> None:
    """A restart for a threshold would cost every caller a second; here nobody notices."""
    before = ids(changed)
    with under_load(changed), connect(changed.run_dir, timeout=LIMIT_S) as client:
        for number, level in enumerate(("DEBUG", "INFO", "WARNING"), 1):
            write(
                changed,
                f'threads = {number * 2}\nquotas = [0, {number}]\ntick = "{number}00ms"\nslow_action = "{number}ms"\n'
                f'max_latency = "{number * 50}us"\ncpu_limit = {90 + number}\ncpu_exempt = {number}',
                of_system=f'log = {{level = "{level}"}}\nstop_limit = "{number}s"',
            )
            answer = reload(changed)
            assert answer["done"]
            assert answer["plan"]["restarted"] == []
            assert answer["generations"] == {}
            assert client.call("backplane.index.threads", timeout=LIMIT_S) == number * 2
            assert client.call("backplane.index.quotas", timeout=LIMIT_S) == [0, *[number] * 7]
            assert client.call("backplane.index.limits", timeout=LIMIT_S)["cpu_limit"] == 90 + number
            assert client.call("backplane.index.log_level", timeout=LIMIT_S) == level
            told = client.call("index.told", timeout=LIMIT_S)
            assert told["switch"] == pytest.approx(number * 1e-6, abs=1.1e-6)
            assert changed.backplane("index")["cpu_limit"]["percent"] == 90 + number
    assert ids(changed) == before


def test_nothing_to_do_is_said_and_nobody_is_disturbed(changed: RunningSystem) -> None:
    """The usual case, from a script that reloads whatever was deployed."""
    before = ids(changed)
    result = run("reload", str(changed.toml))
    assert result.exit_code == DONE
    assert result.stdout.splitlines() == [
        f"nothing has changed: the system runs as {changed.toml} says",
        "the code was not compared: appbackplane restart BACKPLANE loads new code",
    ]
    assert ids(changed) == before


def test_more_threads_take_a_blocked_queue_apart(changed: RunningSystem) -> None:
    """Two calls that wait for each other: with one thread the second never begins, with two they meet."""
    with (
        connect(changed.run_dir, timeout=LIMIT_S) as client,
        client.subscribe("index.inside", timeout=LIMIT_S) as inside,
    ):
        first = client.submit("index.meet", number=2, key="clerk-0", timeout=LIMIT_S)
        assert inside.get(LIMIT_S).body == {"count": 1}
        second = client.submit("index.meet", number=2, key="clerk-1", timeout=LIMIT_S)
        # Behind it, on the same link: it has been taken in, and has not begun.
        assert client.call("backplane.index.statistics", timeout=LIMIT_S)["queues"]["actions"] == 1
        result = run("scale", "index", "--threads", "2", "-s", str(changed.toml))
        assert result.exit_code == DONE, result.output
        assert first.result(LIMIT_S) != second.result(LIMIT_S), "two threads"


def test_blocked_threads_are_taken_away_and_nobody_loses_his_call(changed: RunningSystem) -> None:
    """One that is taken away ends what it runs; and it does end, or each change would leave some behind."""
    pid = changed.backplane("index")["pid"]
    with (
        under_load(changed),
        connect(changed.run_dir, timeout=LIMIT_S) as client,
        client.subscribe("index.inside", timeout=LIMIT_S) as inside,
    ):
        assert scale(changed, 8)["problems"] == []
        most = tasks(pid)
        for _ in range(2):
            calls = [
                client.submit("index.meet", number=9, key=f"clerk-{number}", timeout=LIMIT_S) for number in range(8)
            ]
            assert [inside.get(LIMIT_S).body["count"] for _ in calls] == [1, 2, 3, 4, 5, 6, 7, 8]
            assert scale(changed, 1)["problems"] == [], "it waits for none of them"
            assert client.call("backplane.index.threads", timeout=LIMIT_S) == 1
            # A relief may have taken one of the calls; then a worker is idle, and ends at once.
            assert most - RELIEFS_MAX <= tasks(pid) <= most
            client.call("index.let_go", timeout=LIMIT_S)
            assert len({call.result(LIMIT_S) for call in calls}) == 8
            wait_for(lambda: tasks(pid) == most - 7)
            client.call("index.forget", timeout=LIMIT_S)
            assert scale(changed, 8)["problems"] == []
            assert tasks(pid) == most
    assert ids(changed)["index"] == (pid, 1)


def scale(system: RunningSystem, threads: int) -> dict[str, Any]:
    """Of `index`; what the supervisor says."""
    answer: dict[str, Any] = system.ask("supervisor.scale", {"backplane": "index", "threads": threads})
    return answer


def tasks(pid: int) -> int:
    """Threads of a process, as the kernel counts them."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_scaled_is_shown_and_survives_a_restart_until_the_file_is_read_again(up: RunningSystem) -> None:
    """Else the next death would undo what an operator has done in need, and nobody would know why."""
    result = run("scale", "index", "--threads", "3", "-s", str(up.toml))
    assert result.exit_code == DONE
    assert result.stdout.splitlines() == [
        "index: threads = 3 (before: 1)",
        f"{up.toml} still says 1: the next reload goes back to it",
    ]
    assert up.status()["config"]["differs"] == {"backplane.index.threads": {"running": 3, "file": 1}}
    assert "index: threads = 3, not 1 as" in run("status", "-s", str(up.toml)).stdout
    os.kill(up.backplane("index")["pid"], signal.SIGKILL)
    assert scale(up, 4)["problems"] == [], "it may be dead, just born, or about to register: it hears of it anyway"
    up.wait_said("'index': up again, generation 2")
    with connect(up.run_dir, timeout=LIMIT_S) as client:
        assert client.call("backplane.index.threads", timeout=LIMIT_S) == 4
        shown = run("reload", "--dry-run", "-s", str(up.toml))
        assert shown.exit_code == DONE
        assert [line.split() for line in shown.stdout.splitlines()[1:]] == [
            ["index", "threads", "4", "1", "at", "once"]
        ]
        assert client.call("backplane.index.threads", timeout=LIMIT_S) == 4, "only shown"
        assert reload(up)["differs"] == {}
        assert client.call("backplane.index.threads", timeout=LIMIT_S) == 1
    assert up.status()["config"]["differs"] == {}


@with_groups
def test_a_limit_that_is_changed_is_held_by_the_kernel(start: Start) -> None:
    """By the way that an operator's takes; and the next generation begins with it."""
    system = start("", "cpu_limit = 90", module=MODULE)
    system.wait_up()
    write(system, "cpu_limit = 80", query="cpu_limit = 70")
    reload(system)
    for name, percent in (("index", 80), ("query", 70)):
        limit = system.backplane(name)["cpu_limit"]
        assert (limit["percent"], limit["by"][:3]) == (percent, "os ")
    write(system, "cpu_limit = 80\ncpu_exempt = 1", query="cpu_limit = 70")
    reload(system)
    assert system.backplane("index")["cpu_limit"]["by"] == "scheduler", "the kernel cannot tell what is exempt"
    os.kill(system.backplane("query")["pid"], signal.SIGKILL)
    system.wait_said("'query': up again, generation 2")
    limit = system.backplane("query")["cpu_limit"]
    assert (limit["percent"], limit["by"][:3]) == (70, "os ")
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


# By restart


def test_only_who_is_concerned_starts_again(up: RunningSystem) -> None:
    """Its constructor has run; the others have nothing to do with it. What comes and what goes is no affair of theirs."""
    before = ids(up)
    write(up, "[backplane.index.settings.Index]\nsize = 5", '[backplane.extra]\ncomponents = ["demo:Extra"]')
    answer = reload(up)
    assert answer["problems"] == []
    assert answer["generations"] == {"index": 2, "extra": 1}, "they are up: it is answered when it is done"
    assert ids(up)["query"] == before["query"]
    with connect(up.run_dir, timeout=LIMIT_S) as client:
        assert client.call("index.told", timeout=LIMIT_S)["size"] == 5
        assert client.call("query.ask", timeout=LIMIT_S) == up.backplane("index")["pid"]
        extra = client.call("extra.pid", timeout=LIMIT_S)
        # A component moves: from one that goes to one that starts again.
        write(up, 'components = ["demo:Extra", "demo:Index"]\n[backplane.index.settings.Index]\nsize = 5')
        assert reload(up)["generations"] == {"index": 3}
        assert sorted(ids(up)) == ["index", "query"]
        assert client.call("extra.pid", timeout=LIMIT_S) == up.backplane("index")["pid"]
        assert not is_alive(extra)
        # And back; a name that was there before is another generation.
        write(up, "[backplane.index.settings.Index]\nsize = 5", '[backplane.extra]\ncomponents = ["demo:Extra"]')
        assert reload(up)["generations"] == {"index": 4, "extra": 2}
    with connect(up.run_dir, timeout=LIMIT_S) as client:  # who was connected hears of it a moment later
        assert client.call("extra.pid", timeout=LIMIT_S) == up.backplane("extra")["pid"]
    assert ids(up)["query"] == before["query"]
    up.signal(signal.SIGTERM)
    assert up.wait_down() == 0


def test_one_thing_after_the_other(up: RunningSystem) -> None:
    """Two who change it at one time would each undo what the other has begun. Who does not wait does not stop it."""
    write(up, "[backplane.index.settings.Index]\nwaits = true")
    result = run("reload", str(up.toml), "--timeout", "1")
    assert result.exit_code == FAILED
    assert errors(result) == ["appbackplane: but not done yet, and still in progress: index"]
    answers: list[Result] = []
    (up.toml.parent / "go").touch()
    up.wait_said("'index': up again, generation 2")
    (up.toml.parent / "go").unlink()
    write(up, "[backplane.index.settings.Index]\nwaits = true\nsize = 2")
    reloading = threading.Thread(target=lambda: answers.append(run("reload", str(up.toml))))
    reloading.start()
    up.wait_said("reconfigured: 1 keys changed; restarts: index", len(up.said) - 1)
    with pytest.raises(Busy, match="the system is being changed"):
        scale(up, 2)
    up.ask("supervisor.down")
    reloading.join(LIMIT_S)
    assert [answer.exit_code for answer in answers] == [FAILED]
    assert errors(answers[0]) == ["appbackplane: the system is going down"], "whoever waits is told"


# Not at all


BAD = {
    "no TOML": ("[system", ["not TOML: "], WRONG),
    "two wrong keys": (
        "[system]\nname = 'demo'\nrun_dir = 'run'\n[backplane.index]\ncomponents = ['demo:Index']\nthread = 2\ntick = 0",
        ["backplane.index.thread: unknown key (did you mean 'threads'?)", "backplane.index.tick: expected a duration"],
        WRONG,
    ),
    "cannot be imported": (
        "[system]\nname = 'demo'\nrun_dir = 'run'\n[backplane.query]\ncomponents = ['demo:Query']\n"
        "[backplane.index]\ncomponents = ['demo:Index', 'demo:Nobody']\nthreads = 2",
        ["backplane.index: backplane index: component 'demo:Nobody': demo has no Component 'Nobody'"],
        WRONG,
    ),
    "cannot be constructed": (
        "[system]\nname = 'demo'\nrun_dir = 'run'\n[backplane.query]\ncomponents = ['demo:Query']\nthreads = 2\n"
        "[backplane.index]\ncomponents = ['demo:Index']\n[backplane.more]\ncomponents = ['demo:Broken']",
        ["backplane.more: backplane more: component 'demo:Broken': its constructor failed: OSError: no licence"],
        WRONG,
    ),
    "others depend on it": (
        "[system]\nname = 'demo'\nrun_dir = 'run'\n[backplane.query]\ncomponents = ['demo:Query']\nthreads = 2",
        ["backplane.index: cannot be removed: query depends on it", "nothing was changed"],
        FAILED,
    ),
    "not while it runs": (
        "[system]\nname = 'demo'\nrun_dir = 'run'\nnice = [0, 5]\n[backplane.query]\ncomponents = ['demo:Query']\n"
        "threads = 2\n[backplane.index]\ncomponents = ['demo:Index']",
        ["system.nice: [] cannot become [0, 5] while the system runs", "nothing was changed"],
        FAILED,
    ),
}


def test_a_bad_file_changes_nothing(changed: RunningSystem) -> None:
    """Whatever is wrong with it is said, a line each; what is right in it is not done either."""
    before = ids(changed), changed.status()["config"]
    with connect(changed.run_dir, timeout=LIMIT_S) as client:
        for case, (text, expected, code) in BAD.items():
            changed.toml.write_text(text)
            result = run("reload", str(changed.toml), "-s", str(changed.run_dir))
            assert result.exit_code == code, (case, result.output)
            said = errors(result)
            assert len(said) == len(expected), (case, said)
            for line, problem in zip(said, expected, strict=True):
                assert line.startswith("appbackplane: "), case
                assert problem in line, case
            assert (ids(changed), changed.status()["config"]) == before, case
            assert client.call("backplane.query.threads", timeout=LIMIT_S) == 1, case


def test_the_supervisor_believes_nobody(changed: RunningSystem) -> None:
    """Who asks it without the command line, or has shown a plan that is not true any more, changes nothing."""
    write(changed, "threads = 2")
    body = {"file": str(changed.toml), "text": changed.toml.read_text()}
    digest = changed.ask("supervisor.reload", {**body, "dry_run": True})["digest"]
    scale(changed, 3)
    with pytest.raises(FailedPrecondition, match="has changed since the plan was made"):
        changed.ask("supervisor.reload", {**body, "digest": digest})
    with pytest.raises(InvalidArgument, match="unknown key"):
        changed.ask("supervisor.reload", {**body, "text": body["text"] + "\nthread = 1"})
    with pytest.raises(InvalidArgument, match="expected `file`, an absolute path"):
        changed.ask("supervisor.reload", {**body, "file": "demo.toml"})
    with pytest.raises(InvalidArgument, match="timeout: expected 0 to 86400 seconds, got -1"):
        changed.ask("supervisor.reload", {**body, "timeout": -1})
    with pytest.raises(InvalidArgument, match=r"backplane\.index\.threads: expected .* >= 1, got 0"):
        scale(changed, 0)
    with pytest.raises(NotFound, match="no backplane 'nobody'"):
        changed.ask("supervisor.scale", {"backplane": "nobody", "threads": 2})
    with connect(changed.run_dir, timeout=LIMIT_S) as client:
        assert client.call("backplane.index.threads", timeout=LIMIT_S) == 3
