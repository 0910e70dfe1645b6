"""The request kernel with processes as workers: what rejoins, what becomes of those that die, and who goes on."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Client
from appbackplane.transport.errors import PeerDown, Unavailable
from tests.waiting import wait_until

from .conftest import HERE, LIMIT_S, System, Up, ask_until, command, lay_out, short_folder, systems_in, wait_dead

BULK = """
restart = { max = 1_000, within = "1h", backoff = "10ms", backoff_max = "20ms", healthy_after = "10ms" }
[backplane.k]
components = ["bulk:Bulk"]
[backplane.k.settings.Bulk.policy]
kind = "processes"
workers = 4
mode = "lanes"
lanes = [0, 25, 25]
ready = 40
rejoin = 1000
[backplane.worker]
components = ["appbackplane.runtime.requests:RequestWorker"]
replicas = 4
[backplane.worker.settings.RequestWorker]
kernel = "bulk:Bulk"
"""
#: Of `bulk.run`.
REQUEST, RESULT, ERROR, TRACE, STATE, WORKER, TYPE = range(7)
#: That execute requests in one worker process: its backplane's, and one more while one of them waits.
THREADS_MAX = 4
LANE = {"Hold": 3, "HoldTree": 1}
WORKERS = [f"worker-{n}" for n in range(1, 5)]


@pytest.fixture(scope="module")
def system(_no_ignored_interrupt: None) -> Iterator[System]:
    """One for all: whatever a test has killed is there again after it."""
    with short_folder() as folder, systems_in(folder) as begin:
        shutil.copy(HERE / "bulk.py", folder)
        system = begin(BULK)
        system.wait_up()
        yield system


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    """A client. Afterwards nothing is left in the kernel, and each of the workers is used."""
    with system.connect() as client:
        ask_until(client, "bulk.told", is_at_rest)
        yield client
        assert_whole(client)


def assert_whole(client: Client) -> None:
    """Nothing is left over, everything posted is accounted for, and each of the workers is used (again)."""
    told = ask_until(client, "bulk.told", is_at_rest)
    assert told["posted_total"] == told["ended_total"] + told["withdrawn_total"], told
    assert told["ended_total"] == told["joined_total"] + told["unclaimed_total"], told
    ask_until(client, "bulk.run", uses_all, runnable="Pid", requests=[0] * 12)


def is_at_rest(told: dict[str, Any]) -> bool:
    """Whether nothing of it exists."""
    return not (told["executing"] or told["posting"] or told["owners"] or sum(told["ready"]) or sum(told["rejoinable"]))


def uses_all(rows: list[list[Any]]) -> bool:
    """Whether each worker has executed something."""
    return {row[WORKER] for row in rows} >= set(WORKERS)


def run(client: Client, runnable: str, requests: list[Any], lane: int = 3) -> list[list[Any]]:
    """What rejoined."""
    rows: list[list[Any]] = client.call(
        "bulk.run", runnable=runnable, requests=requests, lane=lane, timeout=2 * LIMIT_S
    )
    assert len(rows) == len(requests)
    return rows


def hold(client: Client, system: System, names: list[str], runnable: str = "Hold") -> tuple[Any, list[int]]:
    """Requests that execute until `let_go`: the call, and the ends of their pipes to write to, all of which are read."""
    requests = [str(system.folder / name) for name in names]
    for request in requests:
        os.mkfifo(request)
    call = client.submit("bulk.run", runnable=runnable, requests=requests, lane=LANE[runnable], timeout=2 * LIMIT_S)
    ask_until(client, "bulk.told", lambda told: told["executing"] >= len(requests))
    return call, [wait_until(lambda request=request: end_of(request), f"{request} is not read") for request in requests]


def end_of(pipe: str) -> int:
    """The end to write to, if somebody reads the other; else 0."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # who executes has not opened it yet
        return 0


def test_results_and_failures_rejoin_with_their_tracebacks(client: Client) -> None:
    """A request that failed in another process is as good as one that failed here: in a line, and at length."""
    assert [row[RESULT] for row in run(client, "Total", [{"values": [1, 2, 3]}])] == [6]
    rows = {row[REQUEST]: row for row in run(client, "Odd", ["fine", "raise", "sys.exit", "interrupt", *"abcdefgh"])}
    assert rows["fine"][RESULT : STATE + 1] == ["fine", None, None, "joined"]
    assert rows["raise"][RESULT : ERROR + 1] == [None, "ValueError: not today nor tomorrow"]
    assert rows["raise"][STATE] == "failed"
    assert [rows[each][TYPE] for each in ("raise", "sys.exit", "fine")] == ["ValueError", "SystemExit", None]
    assert [row[RESULT] for row in run(client, "Told", ["raise"], lane=2)] == ["ValueError"], "and in a worker"
    assert 'raise ValueError("not today' in rows["raise"][TRACE]
    assert rows["sys.exit"][ERROR] == "SystemExit: 3"
    assert rows["interrupt"][ERROR] == "KeyboardInterrupt"
    assert {row[WORKER] for row in rows.values()} <= set(WORKERS)


def test_async_runnables_end_as_plain_ones_do(client: Client) -> None:
    """The twin, with the same ends."""
    rows = {row[REQUEST]: row for row in run(client, "AsyncOdd", ["fine", "raise", "sys.exit"])}
    assert (rows["fine"][RESULT], rows["raise"][ERROR]) == ("fine", "ValueError: not today nor tomorrow")
    assert rows["sys.exit"][ERROR] == "SystemExit: 3"


@pytest.mark.parametrize("runnable", ["Tree", "AsyncTree"])
def test_three_levels_of_sub_requests_from_worker_to_worker(client: Client, runnable: str) -> None:
    """Each level waits for the next one, in lanes: on four workers, with far more requests than entries."""
    rows = run(client, runnable, [[1, 8]] * 4, lane=1)
    assert [row[RESULT] for row in rows] == [64] * 4, rows


def test_any_number_of_sub_requests_goes_through_a_small_pool(client: Client) -> None:
    """`map_unordered` in a worker: 500 through 40 entries, and some of them fail."""
    (row,) = run(client, "Mapping", [500], lane=2)
    assert row[RESULT] == list(range(0, 500, 2)), row
    assert client.call("bulk.run_plain", count=500, timeout=LIMIT_S) == 500


def test_what_a_request_did_not_rejoin_is_not_left_over(client: Client) -> None:
    """It would stay in the rejoin pool for ever: a thousand of them, and nobody may post any more."""
    rows = {row[REQUEST]: row for row in run(client, "GivesUp", ["return", "raise", "map"], lane=2)}
    assert (rows["return"][ERROR], rows["map"][ERROR]) == (None, None)
    assert rows["raise"][ERROR] == "ValueError: it gives up"


def test_what_is_broken_off_again_and_again_fills_no_pool(client: Client) -> None:
    """In a worker process as in a thread: with the fourth the pools would be full of what nobody can ask for."""
    before = client.call("bulk.told")
    (row,) = run(client, "BreaksOff", [20], lane=2)
    assert (row[ERROR], row[RESULT]) == (None, 20)
    after = ask_until(client, "bulk.told", is_at_rest)
    assert after["withdrawn_total"] > before["withdrawn_total"], "what had not begun never did"


def test_owners_that_are_known_by_name_are_everybodys(client: Client) -> None:
    """One posts, another rejoins, whoever and wherever they are; and nobody takes more than he asks for."""
    (row,) = run(client, "Poster", ["for all"], lane=2)
    none_exist, none_of_its_own, request, result = row[RESULT]
    assert (none_exist, none_of_its_own, request) == ("none exist", "none exist", result)
    rest = client.call("bulk.rejoin_all", owner="for all", timeout=LIMIT_S)
    assert sorted([result, *rest]) == list(range(0, 20, 2))


def test_what_makes_no_sense_is_refused_in_a_worker_as_in_the_kernels_own_process(client: Client) -> None:
    """At the post, in one sentence, and nothing is posted."""
    (row,) = run(client, "Misuse", [1], lane=2)
    expected = [
        "InvalidArgument: runnable='Nobody': ",
        "InvalidArgument: Pid executes int, not str",
        "InvalidArgument: lane=4: expected 0 (service)",
        "InvalidArgument: lane=0: lanes = (0, 25, 25) leave it no worker",
        "InvalidArgument: priority='high': expected a whole number",
        "InvalidArgument: owner=[]: expected a hashable value",
        "InvalidArgument: owner=<object object",
        "InvalidArgument: Tree: this list cannot be sent to another process",
        "InvalidArgument: Odd: a request of 16,777,2",
    ]
    assert len(row[RESULT]) == len(expected)
    for said, start in zip(row[RESULT], expected, strict=True):
        assert start in said


def test_results_that_cannot_travel_are_failures_of_their_requests_alone(client: Client) -> None:
    """Too large, of no type that travels, or not of the type that was promised."""
    rows = {row[REQUEST]: row for row in run(client, "Odd", ["object", "large", "fine"])}
    assert "returned a object, which cannot be sent to another process" in rows["object"][ERROR]
    assert "Odd returned 16,777,2" in rows["large"][ERROR]
    assert rows["fine"][RESULT] == "fine"
    wrong = {row[REQUEST]: row for row in run(client, "Wrong", [0, 1, 2])}
    assert (wrong[0][RESULT], wrong[2][RESULT]) == (0, 2)
    assert "Wrong returned a value that its annotation excludes" in wrong[1][ERROR]


def test_much_travels_in_as_many_messages_as_it_takes(client: Client) -> None:
    """Requests and results of megabytes, more of them than go into a message together."""
    rows = run(client, "Carry", [[30, 1_500_000], [3, 6_000_000]], lane=2)
    assert {tuple(row[REQUEST]): row[RESULT] for row in rows} == {
        (30, 1_500_000): 45_000_000,
        (3, 6_000_000): 18_000_000,
    }
    assert [len(row[RESULT]) for row in run(client, "Odd", ["many"] * 8)] == [1_500_000] * 8


@pytest.mark.parametrize("how", ["os._exit", "kill"])
def test_a_request_that_ends_its_process_is_lost_and_the_others_go_on(client: Client, system: System, how: str) -> None:
    """Its owner is told; those that no worker had are executed; the worker starts again, and is used again."""
    before = system.pids()
    rows = run(client, "Odd", ["a", how, *"bcdefghijklmnop"])
    lost = [row for row in rows if row[ERROR] is not None]
    assert how in [row[REQUEST] for row in lost]
    assert {row[STATE] for row in lost} == {"failed"}
    for row in lost:
        assert row[ERROR].startswith(f"lost worker: {row[WORKER]}: ")
    assert all(row[RESULT] == row[REQUEST] for row in rows if row[ERROR] is None)
    dead = lost[0][WORKER]
    rows = ask_until(
        client, "bulk.run", lambda rows: dead in {row[WORKER] for row in rows}, runnable="Pid", requests=[0] * 12
    )
    assert before[dead] not in {row[RESULT] for row in rows}


def test_a_worker_that_is_killed_from_outside_takes_only_its_own(client: Client, system: System) -> None:
    """Four execute, one is killed: three results, and one that says so."""
    call, pipes = hold(client, system, ["a", "b", "c", "d"])
    victim = "worker-3"
    pid = system.pids()[victim]
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)
    ask_until(client, "bulk.told", lambda told: told["executing"] == 3)
    for pipe in pipes:
        let_go(pipe)
    rows = call.result()
    assert Counter(row[ERROR] is None for row in rows) == {True: 3, False: 1}
    (lost,) = [row for row in rows if row[ERROR] is not None]
    assert lost[WORKER] == victim
    assert lost[ERROR].startswith("lost worker: worker-3: ")


def let_go(pipe: int) -> None:
    """Whoever reads there goes on; nobody may."""
    with suppress(BrokenPipeError):  # nobody reads: it was killed
        os.write(pipe, b".")
    os.close(pipe)


def test_a_worker_that_is_restarted_ends_what_it_executes(client: Client, system: System) -> None:
    """`appbackplane restart`: under load, and with one request that is executed meanwhile: nothing is lost."""
    call, pipes = hold(client, system, ["e", "f", "g", "h"])
    load = client.submit("bulk.run", runnable="Tree", requests=[[1, 8]] * 8, lane=1, timeout=2 * LIMIT_S)
    old = system.pids()["worker-2"]
    order = {"backplanes": ["worker-2"], "timeout": LIMIT_S}
    restart = client.submit("supervisor.restart", arguments=order, timeout=LIMIT_S)
    ask_until(client, "supervisor.status", lambda told: is_leaving(told, "worker-2"))
    for pipe in pipes:
        let_go(pipe)
    restart.result()
    rows = call.result()
    assert [row[ERROR] for row in rows] == [None] * 4, rows
    assert old in [row[RESULT] for row in rows]
    assert [row[RESULT] for row in load.result()] == [64] * 8
    assert system.pids()["worker-2"] != old


def is_leaving(status: dict[str, Any], name: str) -> bool:
    """Whether it is on its way down."""
    entry = next(each for each in status["backplanes"] if each["name"] == name)
    return bool(entry["state"] == "draining")


def test_a_kernel_that_is_restarted_ends_what_it_has(client: Client, system: System) -> None:
    """What is executed belongs to what it has been asked: its sub-requests are posted and rejoin while it is drained."""
    old = system.pids()["k"]
    call, pipes = hold(client, system, ["late"], "HoldTree")
    order = {"backplanes": ["k"], "timeout": LIMIT_S}
    restart = client.submit("supervisor.restart", arguments=order, timeout=LIMIT_S)
    ask_until(client, "supervisor.status", lambda told: is_leaving(told, "k"))
    let_go(pipes[0])
    assert [row[RESULT : ERROR + 1] for row in call.result()] == [[36, None]]
    restart.result()
    assert system.pids()["k"] != old


def test_more_and_fewer_workers_while_it_works(client: Client, system: System) -> None:
    """Processes are the supervisor's; so many of them are used, from the next request on."""
    load = client.submit("bulk.run", runnable="Odd", requests=["x"] * 900, timeout=2 * LIMIT_S)
    try:
        for count in (3, 4, 3):
            assert client.call("bulk.use", workers=count) == count
        ask_until(
            client, "bulk.run", lambda rows: len({row[WORKER] for row in rows}) == 3, runnable="Pid", requests=[0] * 12
        )
        assert [row[ERROR] for row in load.result()] == [None] * 900
        assert len(client.call("bulk.told")["by_worker"]) == 3
    finally:
        client.call("bulk.use", workers=4)


def test_each_worker_has_a_handle_of_its_own(client: Client, system: System) -> None:
    """sqlite3 in four processes: a handle for each thread that executes, kept from request to request."""
    rows = run(client, "Row", list(range(200)))
    assert [row[ERROR] for row in rows] == [None] * 200
    handles = {(row[WORKER], row[RESULT]) for row in rows}
    by_worker = Counter(worker for worker, _ in handles)
    assert max(by_worker.values()) <= THREADS_MAX, by_worker
    with sqlite3.connect(system.folder / "rows.db") as database:
        assert sorted(database.execute("select number from rows").fetchall()) == [(n,) for n in range(200)]


def test_when_the_kernels_process_dies_everybody_is_told_and_it_works_again(system: System) -> None:
    """Callers hear PEER_DOWN; what workers still execute for it is for nobody, and not taken for work of the next one."""
    with system.connect() as client:
        call, pipes = hold(client, system, ["i", "j"])
        tree = client.submit("bulk.run", runnable="Tree", requests=[[1, 6]] * 4, lane=1, timeout=2 * LIMIT_S)
        old = system.pids()["k"]
        os.kill(old, signal.SIGKILL)
        assert isinstance(call.exception(), PeerDown | Unavailable)
        assert isinstance(tree.exception(), PeerDown | Unavailable)
        for pipe in pipes:
            ask_until(client, "bulk.told", lambda told: told is not None)
            let_go(pipe)
        rows = run(client, "Tree", [[1, 6]] * 2, lane=1)
        assert [row[RESULT] for row in rows] == [36] * 2, rows
        assert_whole(client)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("bulk:Tree", "kernel = 'bulk:Tree': expected \"module:Class\" of a RequestKernel; bulk has Bulk"),
        ("bulk.Bulk", "kernel = 'bulk.Bulk': expected \"module:Class\" of a RequestKernel"),
        ("nowhere:Bulk", "kernel = 'nowhere:Bulk': No module named 'nowhere'"),
    ],
)
def test_a_worker_whose_kernel_is_wrong_does_not_come_up_and_says_why(folder: Path, setting: str, said: str) -> None:
    """With the setting and what was expected."""
    shutil.copy(HERE / "bulk.py", folder)
    worker = BULK.partition("[backplane.worker]")
    toml = worker[1] + worker[2].replace("replicas = 4", "restart = { max = 0 }").replace("bulk:Bulk", setting)
    done = command(folder, "up", str(lay_out(folder, "demo", toml)))
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_kernel_without_workers_waits_for_them(up: Up, folder: Path) -> None:
    """They come up after it, or are missing: nothing is refused, and status says what is ready, and what to write."""
    shutil.copy(HERE / "bulk.py", folder)
    system = up(BULK.partition("[backplane.worker]")[0])
    with system.connect() as client:
        call = client.submit("bulk.run", runnable="Pid", requests=[1, 2], timeout=LIMIT_S)
        told = ask_until(client, "bulk.told", lambda told: told["ready"][3] == 2)
        assert (told["executing"], told["posted_total"]) == (0, 2)
        shortage = client.call("bulk.status")["shortage"]
        assert "no backplane has a component 'request_worker'" in shortage
        assert 'kernel = "bulk:Bulk"' in shortage
        call.cancel()
