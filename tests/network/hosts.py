"""Hosts: network namespaces as computers of their own, each with a cable to one router; the second tier, for root only.

    with Hosts(3) as hosts:
        a, b, _ = hosts
        b.popen(["appbackplane", "up", "b.toml"])
        hosts.drop(a, b)                     # what a sends to b is lost, silently; hosts.heal()
        b.limit(1_250_000)                   # 10 Mbit/s each way

A router and not a bridge: its policy rules lose packets one way and silently, which needs neither netfilter's programs
nor tc's actions (this kernel has no act_gact, so `tc … action drop` is refused, and no netem: delay is FaultProxy's).
Names carry the process and when it began, so that what a killed run has left is known as such, and removed by the next.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.waiting import LIMIT_S

Answer = TypeVar("Answer")

NAMESPACES = Path("/run/netns")
NAME = re.compile(r"^appbackplane-(?P<pid>\d+)-(?P<began>\d+)-(?P<number>\d+)-(?P<role>router|host\d+)$")
PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}
CLONE_NEWNET = 0x4000_0000
#: A token bucket must hold a segment of the largest kind, and what passes in a tick of the kernel's (4 ms at 250 Hz).
BURST_BYTES_MIN, TICK_S = 3 * 1514, 0.004
_numbers = itertools.count()


def obstacle() -> str | None:
    """Why there can be no namespaces here, with the remedy; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root: run the tests as root to include these"
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if missing:
        return f"no {', '.join(missing)}: apt install {' '.join(missing)}"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"no network namespaces here: {tried.stderr.strip()}" if tried.returncode else None


class Namespace:
    """A network of its own, with loopback up."""

    def __init__(self, name: str) -> None:
        self.name = name
        command("ip", "netns", "add", name)
        self.ip("link set lo up")

    @property
    def prefix(self) -> list[str]:
        """Words before a command that is to run in it. Not `ip netns exec`, which mounts another /sys, without cgroups."""
        return ["nsenter", f"--net={NAMESPACES / self.name}", "--"]

    def ip(self, *lines: str) -> None:
        """Commands of `ip`, in order."""
        command("ip", "-netns", self.name, "-batch", "-", input="\n".join(lines))

    def tc(self, line: str) -> None:
        """A command of `tc`."""
        command("tc", "-netns", self.name, *line.split())

    def popen(self, words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """A program in it. What still runs when the hosts end is killed."""
        return subprocess.Popen([*self.prefix, *words], **options)

    def run(self, words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """A program in it, to its end."""
        options = {"capture_output": True, "text": True, "timeout": LIMIT_S, "check": True} | options
        return subprocess.run([*self.prefix, *words], **options)

    def within(self, act: Callable[[], Answer]) -> Answer:
        """What this does in a thread that is in it. A socket that is made there stays there, whoever uses it then."""
        answers: list[Answer] = []
        errors: list[BaseException] = []

        def enter() -> None:
            try:
                with open(NAMESPACES / self.name) as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), f"setns to {self.name}: {os.strerror(ctypes.get_errno())}")
                answers.append(act())
            except BaseException as error:  # raised again by whoever asked
                errors.append(error)

        thread = threading.Thread(target=enter, name=self.name)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return answers[0]


class Host(Namespace):
    """A computer: one address, and one cable to the router."""

    def __init__(self, name: str, number: int, router: Namespace) -> None:
        """`number`: of its network, 10.77.number.0/24."""
        super().__init__(name)
        self.address = f"10.77.{number}.2"
        self._gateway = f"10.77.{number}.1"
        self._port = f"port{number}"
        self._router = router
        router.ip(
            f"link add name {self._port} type veth peer name eth0 netns {name}",
            f"addr add {self._gateway}/24 dev {self._port}",
            f"link set {self._port} up",
        )
        self.ip("link set eth0 up")
        self.regain_address()

    def listen(self, port: int = 0) -> socket.socket:
        """A socket that listens at its address."""
        return self.within(lambda: socket.create_server((self.address, port)))

    def connect(self, address: tuple[str, int], limit_s: float = LIMIT_S) -> socket.socket:
        """A socket of this host that is connected to another's."""
        return self.within(lambda: socket.create_connection(address, limit_s))

    def lose_address(self) -> None:
        """As by a DHCP lease that ended: its sockets live, and nothing goes or comes."""
        self.ip(f"addr del {self.address}/24 dev eth0")

    def regain_address(self) -> None:
        """And the way out, which went with it."""
        self.ip(f"addr add {self.address}/24 dev eth0", f"route add default via {self._gateway}")

    def unplug(self) -> None:
        """The cable, at the router's end: the host sees no carrier."""
        self._router.ip(f"link set {self._port} down")

    def plug(self) -> None:
        """Again."""
        self._router.ip(f"link set {self._port} up")

    def blackhole(self, other: Host) -> None:
        """This host itself has no way to the other: who connects is told so (EINVAL), who is connected only waits."""
        self.ip(f"route add blackhole {other.address}/32")

    def remove_blackhole(self, other: Host) -> None:
        """Again a way."""
        self.ip(f"route del blackhole {other.address}/32")

    def limit(self, rate: int, queue_s: float = 0.02) -> None:
        """Bytes a second, each way, by a token bucket with one queue of `queue_s` for all, which drops what is too much."""
        burst = max(BURST_BYTES_MIN, int(rate * TICK_S))
        bucket = f"tbf rate {rate}bps burst {burst} limit {burst + int(rate * queue_s)}"
        self.tc(f"qdisc replace dev eth0 root {bucket}")
        self._router.tc(f"qdisc replace dev {self._port} root {bucket}")

    def unlimit(self) -> None:
        """As fast as it can."""
        self.tc("qdisc del dev eth0 root")
        self._router.tc(f"qdisc del dev {self._port} root")


class Hosts(Sequence[Host]):
    """So many computers, joined by a router."""

    def __init__(self, count: int) -> None:
        remove_leftovers()
        self._names: list[str] = []
        self._hosts: list[Host] = []
        self._dropped: list[str] = []
        self._number = next(_numbers)
        try:
            self.router = Namespace(self._name("router"))
            self.router.within(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))
            self._hosts = [Host(self._name(f"host{n}"), n, self.router) for n in range(1, count + 1)]
        except BaseException:
            self.close()
            raise

    def _name(self, role: str) -> str:
        self._names.append(f"appbackplane-{os.getpid()}-{began(os.getpid())}-{self._number}-{role}")
        return self._names[-1]

    def __getitem__(self, number: Any) -> Any:
        """The first is 0."""
        return self._hosts[number]

    def __len__(self) -> int:
        """How many."""
        return len(self._hosts)

    def __iter__(self) -> Iterator[Host]:
        """Each."""
        return iter(self._hosts)

    def __enter__(self) -> Self:
        """As itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Kill what still runs there, and remove them."""
        while self._names:
            remove(self._names.pop())

    def drop(self, sender: Host, receiver: Host) -> None:
        """The router loses what one sends to the other, and says so to nobody; the other way stays."""
        rule = f"from {sender.address} to {receiver.address} blackhole"
        self.router.ip(f"rule add {rule}")
        self._dropped.append(rule)

    def part(self, host: Host) -> None:
        """The router loses all that one host sends to the others, and all they send to it."""
        for other in self:
            if other is not host:
                self.drop(host, other)
                self.drop(other, host)

    def heal(self) -> None:
        """The router loses nothing."""
        while self._dropped:
            self.router.ip(f"rule del {self._dropped.pop()}")


def command(*words: str, input: str | None = None) -> None:
    """Run it, and say what it said if it fails."""
    done = subprocess.run(words, input=input, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)} {input or ''}: {done.stderr.strip()}")


def began(pid: int) -> int:
    """When a process began, in ticks since the machine did; 0 if there is none. Numbers of processes come again."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def remove_leftovers() -> list[str]:
    """Remove what runs have left that are no more, and say what that was."""
    names = [entry.name for entry in NAMESPACES.iterdir()] if NAMESPACES.is_dir() else []
    left = [name for name in names if (run := NAME.match(name)) and began(int(run["pid"])) != int(run["began"])]
    for name in left:
        remove(name)
    return left


def remove(name: str) -> None:
    """A namespace, after everything in it was killed; with it goes its end of each cable, and so the cable."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in map(int, listed.stdout.split()):
        kill(pid)
    try:
        command("ip", "netns", "del", name)
    except OSError:
        if (NAMESPACES / name).exists():
            raise  # else another run that cleans up was first


def kill(pid: int) -> None:
    """And wait until it is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        assert select.select([pidfd], [], [], LIMIT_S)[0], f"process {pid} does not end"
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)
