"""Health of real processes: what hangs is replaced, its stacks in the log; what is only slow, stopped or throttled is not."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pytest

from appbackplane.transport import connect
from appbackplane.transport.errors import BackplaneError
from tests.figures import IS_LONG, Stopwatch, judge
from tests.waiting import Limit, wait_until

from .conftest import LIMIT_S, TOML, RunningSystem

Start = Callable[..., RunningSystem]
#: Under load; half of them are stopped first.
DEATHS = 8 if IS_LONG else 2

MODULE = '''
"""What hangs, in every way that there is."""
import ctypes, os, pathlib, threading, time
from appbackplane.runtime import Component, operation

HERE = pathlib.Path(__file__).parent
LOCK = threading.Lock()
C = ctypes.PyDLL(None)

class Query(Component):
    @operation(priority=4)
    def echo(self, text: str) -> str:
        return text

    @operation()
    def keep_the_interpreter(self) -> None:
        while True:
            C.sleep(1000)  # a PyDLL does not let go of the GIL

    @operation()
    def wait_for_ever(self) -> None:
        with LOCK, LOCK:
            pass

    @operation()
    def take_long(self) -> None:
        self._wait()

    @operation(is_long=True)
    def take_long_by_design(self) -> None:
        self._wait()

    def _wait(self) -> None:
        (HERE / "begun").touch()
        while not (HERE / "enough").exists():
            time.sleep(0.01)

    @operation()
    def compute(self, seconds: float) -> float:
        (HERE / "begun").touch()
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return seconds

class Index(Component):
    @operation()
    def echo(self, text: str) -> str:
        return text
'''


#: What most of these tests need.
QUERY_ALONE = TOML.partition("[backplane.index]")[0]


@pytest.fixture
def start_query(start: Start, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a system whose only backplane is `query`."""
    monkeypatch.setattr("tests.supervisor.conftest.TOML", QUERY_ALONE)
    return start


@contextmanager
def calls(system: RunningSystem, *routes: str, **arguments: Any) -> Iterator[list[Any]]:
    """Calls in this order, each by a client of its own; at the end of the block all have ended, with these results."""
    results: list[Any] = [None] * len(routes)

    def call(index: int, route: str) -> None:
        with connect(system.run_dir, timeout=LIMIT_S) as client:
            begun.set()
            try:
                results[index] = client.call(route, timeout=LIMIT_S, **arguments.get(route.rpartition(".")[2], {}))
            except BackplaneError as error:
                results[index] = error

    threads = []
    for index, route in enumerate(routes):
        begun = threading.Event()
        threads.append(threading.Thread(target=call, args=(index, route)))
        threads[-1].start()
        assert begun.wait(LIMIT_S)
    yield results
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "every call ends in a reply or a status"


def watch(system: RunningSystem, seconds: float) -> list[dict[str, Any]]:
    """What is told of `query`, again and again, for so long."""
    seen, limit = [], Limit(seconds)
    while limit.left_s:
        seen.append(system.backplane("query"))
        system.read(0.05)
    return seen


def wait_begun(system: RunningSystem) -> None:
    """An operation that says so has begun."""
    wait_until((system.toml.parent / "begun").exists)


def end(system: RunningSystem) -> None:
    """In order."""
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_who_keeps_the_interpreter_to_itself_is_replaced(start: Start) -> None:
    """No Python runs in it any more, not even the sentinel; its stacks come all the same, and name the function."""
    system = start('stuck_after = "1s"', module=MODULE)
    system.wait_up()
    with calls(system, "query.keep_the_interpreter") as results:
        system.wait_said("'query': unknown: no heartbeat for ")
        system.wait_said("in keep_the_interpreter")
        system.wait_said("stacks are in the log; starting it again now")
        system.wait_said("'query': up again, generation 2")
    assert isinstance(results[0], BackplaneError)
    said = [line for line in system.said if "Thread 0x" in line or "Current thread 0x" in line]
    assert len(said) >= 2, "all threads"
    assert system.backplane("index")["generation"] == 1
    end(system)


def test_a_deadlock_with_work_behind_it_is_replaced(start_query: Start) -> None:
    """The sentinel beats, and that proves nothing. Who waits behind it is told, and the next is served."""
    system = start_query('stuck_after = "1s"', module=MODULE)
    system.wait_up()
    with calls(system, "query.wait_for_ever") as results:
        system.wait_said("slow action: query.wait_for_ever")  # it runs: what is called now is queued behind it
        with calls(system, "query.echo", echo={"text": "x"}) as behind:
            said = system.wait_said("'query': wedged: work is ready (1 action queued), nothing begun or finished for ")
            system.wait_said("in wait_for_ever")
            system.wait_said("'query': up again, generation 2")
    assert [isinstance(result, BackplaneError) for result in results + behind] == [True, True], said
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        assert client.call("query.echo", text="again", timeout=LIMIT_S) == "again"
    assert "wedged: work is ready" in system.backplane("query")["reason"]
    assert "stacks are in the log" in system.backplane("query")["reason"]
    end(system)


def test_who_is_stopped_for_ever_is_replaced_without_stacks(start_query: Start) -> None:
    """SIGSTOP: the kernel lets it write none, and SIGKILL does not mind."""
    system = start_query('stuck_after = "1s"', module=MODULE)
    os.kill(pid := system.wait_up()["backplanes"][0]["pid"], signal.SIGSTOP)
    system.wait_said("it is stopped (SIGSTOP), so it could not write its stacks; starting it again now")
    system.wait_said("'query': up again, generation 2")
    assert not psutil.pid_exists(pid)
    end(system)


def test_stacks_may_be_had_at_any_time(start_query: Start) -> None:
    """SIGQUIT, of one that works: it says what it does, and goes on with it."""
    system = start_query(module=MODULE)
    pid = system.wait_up()["backplanes"][0]["pid"]
    with calls(system, "query.take_long") as results:
        wait_begun(system)
        for _ in range(3):
            mark = len(system.said)
            os.kill(pid, signal.SIGQUIT)
            system.wait_said("in take_long", mark)
        (system.toml.parent / "enough").touch()
    assert results == [None]
    assert system.backplane("query")["pid"] == pid
    end(system)


# Who is left alone


def test_a_long_action_alone_is_not_hung_and_with_work_behind_it_is(start_query: Start) -> None:
    """As long as nobody waits, it may take what it takes; in this backplane there is one worker."""
    system = start_query('stuck_after = "1s"', module=MODULE)
    system.wait_up()
    with calls(system, "query.take_long"):
        wait_begun(system)
        seen = watch(system, 2.5)
        assert {(each["generation"], each["health"]) for each in seen} <= {(1, "busy"), (1, "idle")}
        with calls(system, "query.echo", echo={"text": "x"}) as results:
            system.wait_said("'query': up again, generation 2")
    assert isinstance(results[0], BackplaneError)
    end(system)


def test_who_was_declared_to_take_long_may_have_others_wait(start_query: Start) -> None:
    """`is_long`: they were told so."""
    system = start_query('stuck_after = "1s"', module=MODULE)
    system.wait_up()
    with calls(system, "query.take_long_by_design") as first:
        wait_begun(system)
        with calls(system, "query.echo", echo={"text": "x"}) as second:
            wait_until(lambda: system.backplane("query")["board"]["queued"] == 1, "nothing waits behind it")
            seen = watch(system, 2.5)
            (system.toml.parent / "enough").touch()
    assert {each["generation"] for each in seen} == {1}
    assert (first, second) == ([None], ["x"])
    end(system)


def test_with_a_free_worker_what_waits_for_one_object_waits_for_that_object_alone(start: Start) -> None:
    """Everybody else is served; and the one may take its time."""
    system = start(
        'stuck_after = "1s"',
        module=MODULE.replace("class Index(Component)", "class Other(Component)") + "class Index(Query): pass\n",
        index="threads = 2",
    )
    system.wait_up()
    with calls(system, "index.take_long") as first:
        wait_begun(system)
        with calls(system, "index.echo", echo={"text": "x"}) as second:
            watch(system, 2.5)
            (system.toml.parent / "enough").touch()
    assert system.backplane("index")["generation"] == 1
    assert (first, second) == ([None], ["x"])
    end(system)


@pytest.mark.parametrize("keeper", ["", "cpu_exempt = 1\n"], ids=["kernel where it can", "scheduler"])
def test_who_is_throttled_is_not_hung(start: Start, keeper: str) -> None:
    """Law 5. A quarter of a second of work takes five at 5 %, and what has queued behind it waits for the tick. A beat of
    a throttled process may be two seconds late on a busy machine.
    """
    system = start('stuck_after = "2.5s"', f"cpu_limit = 5\n{keeper}", module=MODULE + "class Index(Query): pass\n")
    system.wait_up()
    with calls(system, "index.compute", compute={"seconds": 0.25}) as first:
        wait_begun(system)
        with calls(system, "index.echo", echo={"text": "x"}) as second:
            pass  # both end: 0.25 s of CPU at 5 % are twice `stuck_after`
    assert (first, second) == ([0.25], ["x"])
    assert system.backplane("index")["generation"] == 1
    end(system)


def test_a_second_of_sigstop_does_nothing_by_default(start_query: Start) -> None:
    """A machine that swaps, a snapshot, a person with a debugger."""
    system = start_query(module=MODULE)
    pid = system.wait_up()["backplanes"][0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: (system.backplane("query")["board"]["heartbeat_age"] or 0) >= 1.0)
    os.kill(pid, signal.SIGCONT)
    with connect(system.run_dir, timeout=LIMIT_S) as client:
        assert client.call("query.echo", text="x", timeout=LIMIT_S) == "x"
    assert system.backplane("query")["generation"] == 1
    end(system)


def test_when_all_were_stopped_nobody_is_overdue(start_query: Start) -> None:
    """A closed lid, a paused container: neither side saw the time pass."""
    system = start_query('stuck_after = "1s"', module=MODULE)
    pids = [backplane["pid"] for backplane in system.wait_up()["backplanes"]]
    with calls(system, "query.echo", echo={"text": "x"}):
        pass
    for pid in (system.process.pid, *pids):
        os.kill(pid, signal.SIGSTOP)
    threading.Event().wait(2.5)  # what happens to them, not what we wait for
    os.kill(system.process.pid, signal.SIGCONT)
    system.status()  # so it has looked, before anybody could beat
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert {each["generation"] for each in watch(system, 2.0)} == {1}
    end(system)


def test_who_is_being_debugged_is_left_alone(start_query: Start) -> None:
    """Somebody looks at it, and would not thank us."""
    system = start_query('stuck_after = "1s"', module=MODULE)
    pid = system.wait_up()["backplanes"][0]["pid"]
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    if ptrace(16, pid, None, None):  # PTRACE_ATTACH stops it
        pytest.skip("this machine allows no debugger")
    os.waitpid(pid, 0)
    seen = watch(system, 3.5)
    assert seen[-1]["health"] == "unknown"
    assert {each["generation"] for each in seen} == {1}
    # How long it has afterwards: tests/supervisor/direction/test_health.py, under a clock that waits for it.
    assert ptrace(17, pid, None, None) == 0  # PTRACE_DETACH
    end(system)


# Deaths


def test_a_death_is_seen_within_a_tenth_of_a_second_under_load(start: Start) -> None:
    """By a pidfd: also of one that is stopped, and killed by somebody else. Half of them at least, on whatever machine."""
    system = start('restart = { max = 1000, healthy_after = "1ms" }', module=MODULE)
    system.wait_up()
    is_over = threading.Event()

    def load(route: str) -> None:
        with connect(system.run_dir, timeout=LIMIT_S) as client:
            while not is_over.is_set():
                with suppress(BackplaneError):
                    client.call(route, text="x" * 1000, timeout=LIMIT_S)

    threads = [threading.Thread(target=load, args=(route,)) for route in ("index.echo", "query.echo")]
    for thread in threads:
        thread.start()
    took_s = []
    for generation in range(2, 2 + DEATHS):
        pid = system.backplane("query")["pid"]
        if generation % 2:
            os.kill(pid, signal.SIGSTOP)
        mark, watch = len(system.said), Stopwatch()
        os.kill(pid, signal.SIGKILL)
        system.wait_said("killed by signal 9", mark)
        took_s.append(watch.taken_s)
        system.wait_said(f"'query': up again, generation {generation}", mark)
    is_over.set()
    for thread in threads:
        thread.join(LIMIT_S)
    judge("from kill -9 to the line that says it, median", sorted(took_s)[len(took_s) // 2], 0.1)
    end(system)
