"""Lifeline: who does not run is known at once, and who ends is seen to end."""

import os
import select
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import addressing, lifeline
from appbackplane.transport.discovery import locate
from appbackplane.transport.errors import FailedPrecondition, SystemNotRunning, Unavailable


@pytest.mark.systems
def test_a_process_that_ends_makes_its_lifeline_readable(
    run_dir: Path, start_process: Callable[[], subprocess.Popen[str]]
) -> None:
    """ZeroMQ would reconnect for ever and say nothing."""
    process = start_process()
    fd = lifeline.open_lifeline(locate(run_dir))
    assert fd is not None
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(0) == []
    process.kill()
    assert poll.poll(20_000)
    os.close(fd)


def test_no_socket_or_one_that_nobody_serves_is_a_system_that_does_not_run(run_dir: Path) -> None:
    """A killed supervisor leaves its socket file behind."""
    with pytest.raises(SystemNotRunning, match="appbackplane up"):
        lifeline.open_lifeline(locate(run_dir))
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(run_dir / "supervisor.sock"))
    with pytest.raises(SystemNotRunning, match=str(run_dir)):
        lifeline.open_lifeline(locate(run_dir))


def test_who_has_mistyped_a_name_is_told_which_one_runs(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of those that answer; and a folder or a TOML was not mistyped for a name."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_dir))
    for name in ("webshop", "webship"):
        (run_dir / "appbackplane" / name).mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as stale, socket.socket(socket.AF_UNIX) as there:
        stale.bind(str(run_dir / "appbackplane" / "webship" / "supervisor.sock"))
        with pytest.raises(SystemNotRunning, match=r"start it: appbackplane up"):
            lifeline.open_lifeline(locate("webshp"))
        there.bind(str(run_dir / "appbackplane" / "webshop" / "supervisor.sock"))
        there.listen()
        with pytest.raises(SystemNotRunning, match=r"\(did you mean 'webshop'\?\)"):
            lifeline.open_lifeline(locate("webshp"))
        with pytest.raises(SystemNotRunning, match=r"start it: appbackplane up"):
            lifeline.open_lifeline(locate(run_dir / "appbackplane" / "webshp"))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory of system `shop` in which somebody listens, and which is not the default one of this environment."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "x"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run_dir = tmp_path / f"appbackplane-{os.getuid()}" / "shop"
    run_dir.mkdir(parents=True)
    return run_dir


def test_a_system_is_found_by_the_record_beside_its_log(elsewhere: Path) -> None:
    """cron and sudo have another XDG_RUNTIME_DIR: to them all systems were down."""
    assert lifeline.find_living(locate("shop")) == locate("shop")
    link = addressing.run_link("shop")
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    assert lifeline.find_living(locate("shop")) == locate("shop"), "nobody listens there"
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(elsewhere / "supervisor.sock"))
        there.listen()
        assert lifeline.find_living(locate("shop")).run_dir == elsewhere
        named = locate(Path(os.environ["XDG_RUNTIME_DIR"]) / "appbackplane" / "shop")
        assert lifeline.find_living(named) == named, "who names a folder means that one"


@pytest.mark.parametrize("runtime_dir", [None, f"/run/user/{os.getuid()}"])
def test_a_system_that_cron_started_is_found_after_a_login(
    elsewhere: Path, runtime_dir: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two has an XDG_RUNTIME_DIR. Whoever has chosen a folder of his own is left alone there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(elsewhere / "supervisor.sock"))
        there.listen()
        assert lifeline.find_living(locate("shop")) == locate("shop")
        if runtime_dir is None:
            monkeypatch.delenv("XDG_RUNTIME_DIR")
        else:
            monkeypatch.setenv("XDG_RUNTIME_DIR", runtime_dir)
        assert lifeline.find_living(locate("shop")).run_dir == elsewhere


class Probe(socket.socket):
    """A socket whose far end belongs to somebody else."""

    credentials = (0, 0, 0)

    def getsockopt(self, *_: Any) -> Any:
        """What the kernel would say."""
        return struct.pack("3i", *self.credentials)


def test_another_users_supervisor_is_not_trusted(stand_in: Any, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shared temporary directory anybody can make a folder with our system's name in it."""
    monkeypatch.setattr(lifeline.socket, "socket", Probe)
    monkeypatch.setattr(Probe, "credentials", (os.getpid(), 4711, 0))
    monkeypatch.setattr(lifeline.os, "getuid", lambda: 1000)
    with pytest.raises(FailedPrecondition, match="uid 4711"):
        lifeline.open_lifeline(locate(run_dir))
    monkeypatch.setattr(Probe, "credentials", (0, 0, 0))
    assert lifeline.open_lifeline(locate(run_dir)) is None, "root's is trusted; its process cannot be seen from here"
    monkeypatch.setattr(Probe, "credentials", (0, 4711, 0))
    monkeypatch.setattr(lifeline.os, "getuid", lambda: 0)
    assert lifeline.open_lifeline(locate(run_dir)) is None, "root named the folder itself"


def test_a_supervisor_that_has_no_room_is_said_to_have_none(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would otherwise wait in connect(2) for as long as it has none, whatever its deadline is."""
    monkeypatch.setattr(lifeline, "_ROOM_WAIT", struct.pack("@ll", 0, 1_000))
    with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
        full.bind(str(run_dir / "supervisor.sock"))
        full.listen(0)
        first.connect(str(run_dir / "supervisor.sock"))
        with pytest.raises(Unavailable, match="takes no more connections"):
            lifeline.open_lifeline(locate(run_dir))


def test_a_supervisor_whose_queue_is_full_is_found_without_waiting(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked whether it runs, or which name was meant, waited in connect(2) for as long as its gate was shut."""
    link = addressing.run_link("shop")
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
        full.bind(str(elsewhere / "supervisor.sock"))
        full.listen(0)
        first.connect(str(elsewhere / "supervisor.sock"))
        assert lifeline.find_living(locate("shop")).run_dir == elsewhere
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        monkeypatch.setenv("TMPDIR", str(elsewhere.parents[1]))
        assert lifeline.nearest(locate("shpo")) == "shop"
