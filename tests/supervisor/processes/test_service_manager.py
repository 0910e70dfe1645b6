"""What the service manager is told, over a real datagram socket, by the doer and by a real supervisor."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from appbackplane.supervisor.processes.service_manager import VARIABLES, ServiceManager
from tests.launching import is_forked_in
from tests.waiting import wait_until

from ..conftest import LIMIT_S, RunningSystem

Start = Callable[..., RunningSystem]
SECOND_NS = 1_000_000_000
WATCHDOG_US = 400_000


class Manager:
    """systemd, as far as this goes."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.address = address

    def hear(self, limit_s: float = LIMIT_S) -> str | None:
        """The next that is said; None: nothing, for so long."""
        if not select.select([self.socket], [], [], limit_s)[0]:
            return None
        return self.socket.recv(65_536).decode()

    def hear_until(self, text: str) -> list[str]:
        """Everything but the watchdog's, up to what contains `text`."""
        heard: list[str] = []
        while True:
            said = self.hear()
            assert said is not None, (text, heard)
            if said != "WATCHDOG=1":
                heard.append(said)
            if text in said:
                return heard


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """At an address of either kind."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@appbackplane-{secrets.token_hex(8)}"
    found = Manager(address)
    with found.socket:
        yield found


def silent(*words: str) -> None:
    """Nothing is to be said in the log."""
    pytest.fail(str(words))


def test_it_hears_each_thing_once(manager: Manager) -> None:
    """READY is said when it is up and not before, or units after ours would call a system that is not there."""
    service = ServiceManager(manager.address, 0, 7, silent)
    service.tell("starting", "starting")
    service.tell("starting", "starting")
    service.tell("up", "degraded: backplane 'a':\n no water (水)")
    service.tell("up", "up")
    service.tell("stopping", "stopping: SIGTERM")
    service.tell("stopping", "stopping: SIGTERM again")
    service.close()
    assert [manager.hear(0) for _ in range(6)] == [
        "STATUS=starting",
        "READY=1\nMAINPID=7\nSTATUS=degraded: backplane 'a': no water (水)",
        "STATUS=up",
        "STOPPING=1\nSTATUS=stopping: SIGTERM",
        "STATUS=stopping: SIGTERM again",
        None,
    ]


def test_the_watchdog_hears_of_turns_and_of_nothing_else(manager: Manager) -> None:
    """A loop that does not turn must be silent, or nobody would notice."""
    service = ServiceManager(manager.address, 2 * SECOND_NS, 7, silent)
    service.turn(5 * SECOND_NS)
    assert service.next_wake_ns(5 * SECOND_NS) == 6 * SECOND_NS
    service.turn(6 * SECOND_NS - 1)
    service.turn(6 * SECOND_NS)
    assert [manager.hear(0) for _ in range(3)] == ["WATCHDOG=1", "WATCHDOG=1", None]
    service.close()


def test_what_finds_no_room_is_said_later(manager: Manager) -> None:
    """A READY that is lost is a system that is killed because it does not come up."""
    service = ServiceManager(manager.address, 0, 7, silent)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as crowd:
        crowd.setblocking(False)
        try:
            while True:
                crowd.sendto(b"noise", manager.socket.getsockname())
        except BlockingIOError:
            pass
    service.tell("up", "up")
    assert service.next_wake_ns(0) is not None
    service.turn(0)
    while manager.hear(0) == "noise":
        service.turn(0)
    assert service.next_wake_ns(0) is None
    service.close()


def test_nobody_is_told_where_nobody_listens(tmp_path: Path) -> None:
    """`up` in a terminal; and a manager that has gone is said to be gone once."""
    said: list[str] = []
    assert not ServiceManager("", 0, 7, silent).is_heard
    service = ServiceManager(str(tmp_path / "gone"), 0, 7, lambda text, level: said.append(text))
    service.tell("up", "up")
    service.tell("stopping", "stopping")
    service.close()
    assert said == ["warning: the service manager cannot be notified: No such file or directory"]


@pytest.mark.parametrize(
    ("pid", "is_watched"), [("", True), ("7", True), ("8", False)], ids=["anybody", "us", "somebody else"]
)
def test_the_environment_is_ours_alone(tmp_path: Path, pid: str, is_watched: bool) -> None:
    """A backplane that found it there might speak for us."""
    environment = {"NOTIFY_SOCKET": str(tmp_path / "x"), "WATCHDOG_USEC": "2000000", "HOME": "/"}
    if pid:
        environment["WATCHDOG_PID"] = pid
    service = ServiceManager.of(environment, 7, lambda *_: None)
    assert environment == {"HOME": "/"}
    service.turn(0)
    assert service.next_wake_ns(0) == (SECOND_NS if is_watched else None)
    service.close()


def test_an_address_of_another_machine_is_refused() -> None:
    """And does not keep the system from coming up."""
    said: list[str] = []
    assert not ServiceManager.of({"NOTIFY_SOCKET": "vsock:2:1"}, 7, lambda text, level: said.append(text)).is_heard
    assert "vsock:2:1" in said[0]


def test_a_supervisor_tells_how_it_goes(manager: Manager, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its start to its end, in this order; nobody else speaks, and its silence is heard."""
    # The first that asks starts the launcher: forks show its environment as theirs.
    assert is_forked_in(os.environ)
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", str(WATCHDOG_US))
    system = start()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    before = manager.hear_until("READY=1")
    assert before[0] == "STATUS=starting"
    assert before[-1] == f"READY=1\nMAINPID={system.process.pid}\nSTATUS=up"
    assert all("READY" not in said for said in before[:-1])
    system.wait_up()
    for child in psutil.Process(system.process.pid).children():
        assert not set(VARIABLES) & set(child.environ()), child

    assert hear_watchdog(manager)
    os.kill(system.process.pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(system.process.pid).status() == psutil.STATUS_STOPPED, "it is not stopped")
    while manager.hear(0) is not None:
        pass
    assert manager.hear(3 * WATCHDOG_US / 1e6) is None, "who is stopped is silent"
    os.kill(system.process.pid, signal.SIGCONT)
    assert hear_watchdog(manager)

    system.signal(signal.SIGTERM)
    stopping = manager.hear_until("STATUS=down")
    assert stopping[0].startswith("STOPPING=1\nSTATUS=stopping: SIGTERM")
    assert system.wait_down() == 0


def hear_watchdog(manager: Manager) -> bool:
    """Within the time that it was promised."""
    said = manager.hear()
    while said not in ("WATCHDOG=1", None):
        said = manager.hear()
    return said is not None


def test_it_is_told_what_is_amiss(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """`systemctl status` shows this line, and a person may look at nothing else."""
    manager = Manager(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    with manager.socket:
        system = start(index='restart = { max = 0, within = "60s" }\n[backplane.index.settings.Index]\nfails = "hook"')
        ready = manager.hear_until("READY=1")[-1]
        assert ready.splitlines()[2].startswith("STATUS=degraded: backplane 'index': component 'index' did not become")
        system.signal(signal.SIGTERM)
        system.wait_down()
