"""Several systems that are nodes of one mesh, on this host: each with a key folder, a run directory and an address of its own.

They trust each other and know each other's address from the start, so that whichever is started anew finds the others.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest

from appbackplane.transport import BackplaneError, Client
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder
from tests.network.hosts import Host
from tests.network.proxy import FaultProxy
from tests.waiting import EVERY_S, Limit

from ..conftest import LIMIT_S, System, Up, short_folder, systems_in

#: By which the nodes of these tests are known: enough of them to have a third that others can be asked about.
NAMES = ("a", "b", "c")
#: What each runs: `a` asks, and has nothing of what it asks for.
COMPONENTS = {
    "a": ["served:Home", "served:Prices"],
    "b": [
        "served:Calc",
        "served:Booth",
        "served:Worker",
        "served:Ledger",
        "served:Narrow",
        "served:Store",
        "served:Prices",
        "served:Rows",
        "served:Loads",
    ],
    "c": ["served:Calc"],
}
#: Below those that the kernel gives (net.ipv4.ip_local_port_range), and how many workers share them.
PORTS, WORKERS_MAX = range(20_000, 32_000), 16
NODE = """
[node]
name = "{name}"
listen = "{listen}"
keys = "keys-{name}"
{more}
[peers]
{peers}
[backplane.main]
components = {components}
"""


class Nodes:
    """The nodes of one test, in one folder, by their names; some of them perhaps behind a proxy each."""

    def __init__(
        self,
        folder: Path,
        begin: Up,
        stack: ExitStack,
        names: str,
        *,
        is_proxied: bool = False,
        hosts: Sequence[Host] = (),
        prefixes: Mapping[str, Sequence[str]] | None = None,
        tables: str = "",
        components: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`hosts`: where each runs, in the order of the names; by default all on loopback. `prefixes`: words before the command
        of a node, by its name. `tables`: more of the TOML of each. `components`: what each runs instead.
        """
        self._tables = tables
        self._components: Mapping[str, Sequence[str]] = components or COMPONENTS
        self.folder = folder
        self._hosts = dict(zip(names, hosts, strict=False))
        self._prefixes = dict(prefixes or {})
        self._begin, self._stack = begin, stack
        self.systems: dict[str, System] = {}
        self.proxies: dict[str, FaultProxy] = {}
        self._listen = {
            name: (self._hosts[name].address if self._hosts else "127.0.0.1", free_port()) for name in names
        }
        if is_proxied:  # each is dialled at its proxy, by whoever dials it
            self.proxies = {
                name: stack.enter_context(FaultProxy(at, host=at[0], prefix=self._prefix(name)))
                for name, at in self._listen.items()
            }
        shutil.copy(Path(__file__).with_name("served.py"), folder)
        introduce(folder, names)
        for name in names:
            self.start(name)
        for name in names:
            self.systems[name].wait_up()
        self.wait_met()

    def start(self, name: str) -> System:
        """A system, at the address that it has for good. Does not wait for anything."""
        listen = address(self._listen[name])
        dialled = {each: address(self._dialled(each)) for each in self._listen}
        toml = NODE.format(
            name=name,
            listen=listen,
            more=f'advertise = "{dialled[name]}"' if self.proxies else "",
            peers="\n".join(f'"{at}" = "{each}"' for each, at in dialled.items() if each != name),
            components=[*self._components[name]],
        )
        self.systems[name] = self._begin(f"{toml}{self._tables}", name, self._prefix(name))
        return self.systems[name]

    def client(self, name: str) -> Client:
        """Of one of them, to the end of the test."""
        return self._stack.enter_context(self.systems[name].connect())

    def wait_met(self) -> None:
        """Until all the others are served by `b`. What one has heard of the other nobody announces: it is asked."""
        for name, system in self.systems.items():
            if name != "b":
                with system.connect() as client:
                    wait_reached(client)

    def address(self, name: str) -> str:
        """Where a node is dialled."""
        return address(self._dialled(name))

    def _prefix(self, name: str) -> Sequence[str]:
        return self._hosts[name].prefix if name in self._hosts else self._prefixes.get(name, ())

    def _dialled(self, name: str) -> tuple[str, int]:
        return self.proxies[name].address if name in self.proxies else self._listen[name]


def wait_reached(client: Client) -> None:
    """Until a call to `b` is answered, and what `b` offers is known: the one is so some heartbeats before the other. Asked
    again at once: who waits as he is told (`retry_after`) waits for longer.
    """
    limit = Limit()
    while True:
        try:
            assert client.call("b/calc.add", x=1, y=2, timeout=LIMIT_S, retry=False) == 3
            rows = client.call("node.peers", routes=True, timeout=LIMIT_S, retry=False)
            if "calc.add" in next(row["route_names"] for row in rows if row["name"] == "b"):
                return
            why = "its operations are not known here"
        except BackplaneError as error:
            why = repr(error)
        limit.check(f"b cannot be reached: {why}", pause_s=EVERY_S)


def introduce(folder: Path, names: str) -> None:
    """A key pair each, and the others in its ring."""
    rings = {name: Keyring(folder / f"keys-{name}") for name in names}
    keys = {name: ring.make_own() for name, ring in rings.items()}
    for name, ring in rings.items():
        for other, key in keys.items():
            if other != name:
                ring.change(lambda known, other=other, key=key: known.trusting(Holder(other, key)))  # type: ignore[misc]


def address(at: tuple[str, int]) -> str:
    """As a TOML says it."""
    return f"tcp://{at[0]}:{at[1]}"


def free_port() -> int:
    """A port that the kernel gives nobody by itself: a node that was killed must find its own free again.

    Each worker of pytest-xdist has a range of its own, so that none takes a port between another's look and its node's start;
    and none is given twice until all others were, or a node would get the one of its neighbour, which does not listen yet.
    """
    while True:
        port = next(_ports)
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _ports_of_worker() -> list[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS_MAX
    return random.sample(PORTS[worker::WORKERS_MAX], len(PORTS) // WORKERS_MAX)


_ports = cycle(_ports_of_worker())

Meet = Callable[..., Nodes]


@pytest.fixture
def meet(folder: Path, begin: Up) -> Iterator[Meet]:
    """Starts nodes and waits until they have met: `meet("ab")`."""
    with ExitStack() as stack:
        yield lambda names="ab", **how: Nodes(folder, begin, stack, names, **how)


@pytest.fixture(scope="module")
def both(_no_ignored_interrupt: None) -> Iterator[Nodes]:
    """`a` and `b`, for all tests of a file: what one of these does to them must not be felt by the next."""
    with short_folder() as folder, systems_in(folder) as begin, ExitStack() as stack:
        yield Nodes(folder, begin, stack, "ab")


@pytest.fixture
def client(both: Nodes) -> Iterator[Client]:
    """Of `a`; afterwards the same processes serve as before."""
    before = {name: system.pids() for name, system in both.systems.items()}
    with both.systems["a"].connect() as client:
        yield client
    assert {name: system.pids() for name, system in both.systems.items()} == before
