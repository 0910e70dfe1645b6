"""Whole systems of real processes: up, killed, restarted, down; and nothing is left behind."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.commands.asking import ask
from appbackplane.transport import connect
from appbackplane.transport.addressing import supervisor_socket
from appbackplane.transport.codec import Encoder, batch, decode
from appbackplane.transport.discovery import Location
from appbackplane.transport.envelope import CALL, PUBLISH, Envelope
from appbackplane.transport.errors import NotFound, SystemNotRunning
from appbackplane.transport.link import Link
from tests.figures import Stopwatch, judge
from tests.waiting import Limit, wait_until
from tests.zygote import NAME as ZYGOTE

from .conftest import LIMIT_S, RunningSystem, is_alive

Start = Callable[..., RunningSystem]


def test_it_comes_up_and_goes_down_in_order(start: Start) -> None:
    """Up: what others depend on first. Down: the reverse, each hook run, each process ended by itself."""
    system = start()
    status = system.wait_up()
    assert status["state"] == "up"
    assert {b["name"]: (b["state"], b["components"]) for b in status["backplanes"]} == {
        "query": ("up", {"query": "primary"}),
        "index": ("up", {"index": "primary"}),
    }
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    downs = [line for line in system.said if "is down" in line]
    assert downs == ["query      | query is down", "index      | index is down"]


def test_calls_go_through_while_it_is_up(kept: RunningSystem) -> None:
    """The directory that the supervisor hands out leads to the processes that it started."""
    with connect(kept.run_dir, timeout=LIMIT_S) as client:
        assert client.call("query.ask", timeout=LIMIT_S) == kept.backplane("index")["pid"]


def test_a_killed_backplane_is_seen_at_once_and_comes_back(start: Start) -> None:
    """A caller learns from the directory that its callee is dead, and then of the next generation."""
    system = start()
    system.wait_up()
    link = Link("watcher")
    peer = link.connect(supervisor_socket(system.run_dir))
    link.send(peer, batch([Encoder().encode(Envelope(CALL, 1, 0, "supervisor.directory", None, None, None, {}))]))
    versions = []
    watch, down_s = None, 0.0
    limit = Limit()
    while not versions or versions[-1]["backplanes"]["index"]["generation"] != 2:
        limit.check()
        if (received := link.receive()) is not None:
            versions += [envelope.body for envelope in decode(received[1])]
            if watch is None:
                os.kill(system.backplane("index")["pid"], signal.SIGKILL)
                watch = Stopwatch()
            elif not down_s:
                down_s = watch.taken_s
                assert versions[-1]["backplanes"]["index"]["is_up"] is False
                assert versions[-1]["backplanes"]["query"]["is_up"] is True
    judge("from kill -9 to the directory that says it", down_s, 0.1)
    link.close()
    system.wait_for("'index': up again, generation 2")
    index = system.backplane("index")
    assert (index["restarts"], index["generation"], index["reason"]) == (1, 2, "killed by signal 9")
    assert sorted(path.name for path in system.run_dir.iterdir()) == [
        "index-2.sock", "lock", "log", "query-1.sock", "supervisor.sock",
    ]  # fmt: skip


def test_a_crash_loop_is_given_up_and_the_others_serve(start: Start) -> None:
    """What cannot run must not take the rest with it, nor the machine."""
    system = start(index='restart = { max = 1, within = "60s" }')
    system.wait_up()
    for _ in range(2):
        since = len(system.said)
        os.kill(system.backplane("index")["pid"], signal.SIGKILL)
        said = system.wait_said("killed by signal 9", since)
        if "given up" not in said:
            system.wait_said("up again", since)
    index = system.backplane("index")
    assert (index["state"], index["health"]) == ("failed", "dead")
    assert index["board"] is None, "what it left on the board is cleared"
    assert system.backplane("query")["state"] == "up"
    # What it needs is gone: it stands by, once its hook has run.
    wait_until(lambda: system.backplane("query")["components"] == {"query": "secondary"})
    assert system.status()["state"] == "degraded"
    shown = CliRunner().invoke(main, ["status", "-s", str(system.run_dir)]).stdout
    assert "were not enough (appbackplane restart index starts it again)" in shown
    system.ask("supervisor.down")
    assert system.wait_down() == 1, "who looks at exit codes must learn of it"
    system.said_once("given up: 1 restarts within 60 s were not enough; dependents lowered to secondary: query")
    system.said_once("down, exit code 1: ordered by a client; had been given up: index")


@pytest.mark.parametrize(
    ("fails", "reason"),
    [("constructor", "no index here"), ("exit", "exited with 7: exits by itself")],
)
def test_what_cannot_be_constructed_ends_with_its_reason(start_alone: Start, fails: str, reason: str) -> None:
    """Restarting it would only say the same again, and somebody waits for the prompt."""
    system = start_alone(index=f'[backplane.index.settings.Index]\nfails = "{fails}"')
    assert system.wait_down() == 1
    assert any(reason in line for line in system.said), system.said


def test_a_second_signal_kills_at_once(start_alone: Start) -> None:
    """A second Ctrl-C means it, even while a hook hangs."""
    system = start_alone('stop_limit = "1h"', '[backplane.index.settings.Index]\nfails = "hang"')
    system.wait_up()
    system.signal(signal.SIGINT)
    system.wait_for("index is down")
    system.signal(signal.SIGINT)
    assert system.wait_down() == 1


def test_a_hook_that_hangs_is_waited_for_only_so_long(start_alone: Start) -> None:
    """`stop_limit` is a promise to whoever waits."""
    system = start_alone('stop_limit = "500ms"', '[backplane.index.settings.Index]\nfails = "hang"')
    system.wait_up()
    system.signal(signal.SIGTERM)
    system.wait_down()
    assert any("did not become down" in line for line in system.said), system.said


def test_a_child_that_escaped_by_its_own_session_is_not_left_behind(start: Start) -> None:
    """Nothing of a system may survive it, or ports and devices stay taken."""
    system = start(index='[backplane.index.settings.Index]\nfails = "escape"')
    system.wait_up()
    children = psutil.Process(system.process.pid).children(recursive=True)
    descendants = [process for process in children if process.name() != ZYGOTE]
    system.pids |= {process.pid for process in descendants}
    assert len(descendants) == 4, "the guardian, two backplanes, and what one of them has started"
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_a_second_supervisor_is_refused_with_the_pid_of_the_first(kept: RunningSystem) -> None:
    """It would steal the sockets of a system that serves."""
    second = RunningSystem(kept.toml)
    assert second.process.stderr is not None
    with second.process.stderr:
        second.wait_for(f"already running, pid {kept.process.pid}")
        assert second.process.wait(LIMIT_S) == 1
    assert kept.status()["state"] == "up"


def test_when_the_supervisor_is_killed_its_processes_end_and_it_can_be_started_again(start: Start) -> None:
    """Nobody would stop them any more; and what was left behind must not need a person to clean up."""
    first = start()
    first.wait_up()
    first.signal(signal.SIGKILL)
    first.process.wait(LIMIT_S)
    wait_until(lambda: not any(is_alive(pid) for pid in first.pids))
    with pytest.raises(SystemNotRunning):
        ask(Location(first.run_dir, "demo"), "supervisor.status")
    second = start()
    status = second.wait_up()
    assert {b["restarts"] for b in status["backplanes"]} == {0}
    second.signal(signal.SIGTERM)
    assert second.wait_down() == 0


def test_statistics_of_a_stopped_process_are_none_and_the_rest_come(kept: RunningSystem) -> None:
    """No answer means unknown; one that is frozen must not hide the others."""
    pid = kept.backplane("index")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:

        def entries() -> dict[str, Any]:
            return {b["name"]: b["statistics"] for b in kept.status(statistics=True)["backplanes"]}

        # Who is only slow has 0.75 s, and the next time again.
        told = wait_until(lambda: found if (found := entries())["query"] else None, "nobody answers")
        assert told is not None and told["index"] is None
        assert "operations" in told["query"]
        wait_until(lambda: kept.backplane("index")["health"] == "unknown")  # two seconds after its last heartbeat
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_stalled_client_and_a_flood_of_garbage_change_nothing(start: Start) -> None:
    """The supervisor is the last one that may be stopped by somebody else's bug."""
    system = start()
    system.wait_up()
    link = Link("nuisance")
    peer = link.connect(supervisor_socket(system.run_dir))
    call = Encoder().encode(Envelope(CALL, 1, 0, "supervisor.directory", None, None, None, {}))
    for _ in range(500):
        link.send(peer, batch([call]))  # and never reads an answer
        link.send(peer, b"\xc1")
    assert system.status()["state"] == "up"
    system.wait_said("malformed frame")
    os.kill(system.backplane("index")["pid"], signal.SIGKILL)
    system.wait_said("'index': up again")
    assert sum("malformed frame" in line for line in system.said) == 1
    link.close()


@pytest.mark.parametrize("listener", ["supervisor.sock", "index-1.sock"])
def test_connections_up_to_the_limit_of_descriptors_leave_it_alive(start: Start, listener: str) -> None:
    """ZeroMQ aborts a process that accepts at its limit: 220 mute connections, and all backplanes had lost their supervisor, or
    a backplane its work. A burst was faster than its check."""
    system = start()
    system.wait_up()
    index = system.backplane("index")["pid"]
    resource.prlimit(system.process.pid if listener == "supervisor.sock" else index, resource.RLIMIT_NOFILE, (128, 128))
    limit = Limit()
    with ExitStack() as held:
        while not any("new connections wait until others are closed" in line for line in system.said):
            limit.check(system.said)
            for _ in range(300):
                one = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                if one.connect_ex(str(system.run_dir / listener)) != 0:
                    one.close()
                    break
            assert system.read(0.1), system.said
        assert system.status()["state"] == "up"
        with connect(system.run_dir, timeout=LIMIT_S) as client:
            assert client.call("query.ask", timeout=LIMIT_S) == index


def test_an_unknown_question_is_refused(kept: RunningSystem) -> None:
    """With a status, not with silence until the deadline."""
    with pytest.raises(NotFound):
        kept.ask("supervisor.explode")


def test_no_publish_reaches_the_supervisor(kept: RunningSystem) -> None:
    """It serves no topics: a stray message is malformed, counted, and said once."""
    link = Link("stray")
    peer = link.connect(supervisor_socket(kept.run_dir))
    link.send(peer, batch([Encoder().encode(Envelope(PUBLISH, 1, None, "t", None, None, None, {}))]))
    kept.wait_for("malformed frame from b'stray-")
    link.close()


# Processes that a real runtime would never be


def with_behaviour(behaviour: str) -> str:
    """Settings of the stand-in."""
    return f'[backplane.alpha.settings.Alpha]\nbehaviour = "{behaviour}"'


def test_a_process_that_never_registers_is_killed(start: Start) -> None:
    """Else `up` would wait for ever."""
    system = start('start_limit = "500ms"', with_behaviour("mute"), stand_in=True)
    assert system.wait_down() == 1
    assert any("did not register within 0.5 s" in line for line in system.said)


def test_a_process_that_refuses_to_stop_is_killed(start: Start) -> None:
    """After its limit, with a word about it, and an exit code that tells."""
    system = start('stop_limit = "500ms"', with_behaviour("stubborn"), stand_in=True)
    system.wait_up()
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 1
    assert any("did not stop within 0.5 s: killed" in line for line in system.said)


def test_a_process_that_dies_while_stopping_is_reported_and_not_restarted(start: Start) -> None:
    """It is down, which was wanted; but its last hook did not finish, which somebody must know."""
    system = start(index=with_behaviour("dies_moving_down"), stand_in=True)
    system.wait_up()
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0
    assert any("exited with 3: no more, while going down" in line for line in system.said), system.said


def test_garbage_on_a_control_link_is_survived(start: Start) -> None:
    """And its sender still comes up."""
    system = start(index=with_behaviour("garbage"), stand_in=True)
    system.wait_up()
    system.signal(signal.SIGTERM)
    assert system.wait_down() == 0


def test_a_registration_under_a_false_pid_is_refused(start: Start) -> None:
    """What we would kill, and what we would watch, must be what serves."""
    system = start('start_limit = "1s"', with_behaviour("liar"), stand_in=True)
    assert system.wait_down() == 1
