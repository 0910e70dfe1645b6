"""Clients of another host: `connect("tcp://b@…")`. They have keys and an address, and nothing else of the system they call."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import (
    Address,
    AsyncClient,
    BackplaneError,
    Busy,
    Client,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    OperandFailed,
    PeerDown,
    Unavailable,
    connect,
    connect_async,
    stream,
)
from appbackplane.transport.security.grants import Grant
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder
from tests.network.proxy import FaultProxy
from tests.waiting import wait_until

from ..conftest import (
    LIMIT_S,
    System,
    Up,
    ask_until,
    command,
    expired_while_it_ran,
    short_folder,
    systems_in,
    wait_dead,
    wait_ready,
)
from ..pressing import press, wait_until_all_are_sent
from .conftest import COMPONENTS, NODE, address, free_port, introduce

#: A client program in a process of its own: it asks for what takes long, and says when that is on its way.
PROGRAM = """
import sys
from appbackplane.transport import connect
client = connect(sys.argv[1], keys=sys.argv[2], timeout=float(sys.argv[5]))
call = client.submit("worker.work", key=sys.argv[3], name=sys.argv[4], seconds=600, timeout=600)
client.call("calc.add", x=1, y=2, timeout=600)
print("ready", flush=True)
call.result()
"""


class Node:
    """A system that is a node, and a host beside it that has keys and nothing else."""

    def __init__(self, folder: Path, begin: Up) -> None:
        self.folder, self._begin = folder, begin
        self.at = ("127.0.0.1", free_port())
        shutil.copy(Path(__file__).with_name("served.py"), folder)
        introduce(folder, "bk")
        self.system = self.start()

    def start(self) -> System:
        """At the address that it has for good."""
        toml = NODE.format(
            name="b", listen=address(self.at), more="", peers="", components=[*COMPONENTS["b"], "served:Totals"]
        )
        self.system = self._begin(toml, "b")
        self.system.wait_up()
        return self.system

    @property
    def keys(self) -> Path:
        """Of the host beside it."""
        return self.folder / "keys-k"

    @property
    def ring(self) -> Keyring:
        """Of the node: whom it trusts."""
        return Keyring(self.folder / "keys-b")

    def target(self, at: tuple[str, int] | None = None) -> str:
        """As a client names it."""
        return address(at or self.at).replace("//", "//b@")

    def connect(self) -> Client:
        """From the host beside it, however late a busy machine lets the node answer it."""
        return connect(self.target(), keys=self.keys, timeout=LIMIT_S)

    async def connect_async(self) -> AsyncClient:
        """From the host beside it."""
        return await connect_async(self.target(), keys=self.keys, timeout=LIMIT_S)

    def program(self, key: str, name: str) -> subprocess.Popen[str]:
        """Another process of that host, which waits for a piece of work."""
        words = (sys.executable, "-c", PROGRAM, self.target(), str(self.keys), key, name, str(LIMIT_S))
        self.system.programs.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        wait_ready(self.system.programs[-1])
        return self.system.programs[-1]


@pytest.fixture(scope="module")
def node(_no_ignored_interrupt: None) -> Iterator[Node]:
    """For all tests here that leave it as it was."""
    with short_folder() as folder, systems_in(folder) as begin:
        yield Node(folder, begin)


@pytest.fixture
def own_node(folder: Path, begin: Up) -> Node:
    """One that may be killed."""
    return Node(folder, begin)


@pytest.fixture
def client(node: Node) -> Iterator[Client]:
    """Of the host beside it; afterwards the same processes serve as before."""
    before = node.system.pids()
    with node.connect() as client:
        yield client
        assert client.call("calc.add", x=1, y=2) == 3
    assert node.system.pids() == before


@pytest.fixture
def there(node: Node) -> Iterator[Client]:
    """A client on the node's own host: it sees what is done."""
    with node.system.connect() as client:
        yield client


# What it may use


def test_what_is_exported_is_called_as_on_the_same_host(client: Client) -> None:
    """By its route: where it is, only `connect` says. The directory holds what may be used, and nothing else."""
    assert client.call("calc.add", x=20, y=22) == 42
    assert {"calc.add", "worker.work"} <= client.directory().routes.keys()
    assert not {"calc.secret", "worker.ended"} & client.directory().routes.keys()


def test_an_address_is_called_as_on_the_same_host(client: Client, there: Client) -> None:
    """It names the node that is asked."""
    total = Address(client.call("totals.spawn", kind="Sum"))
    assert total.home == "b"
    assert client.call(total.to("add_up"), x=2) == 2
    assert there.call(total.to("add_up"), x=3) == 5
    assert client.call("b/calc.add", x=1, y=2) == 3
    never = Address(f"{total.rpartition(':')[0]}:4711")
    with pytest.raises(NotFound, match="totals:4711 never existed"):
        client.call(never.to("add_up"), x=1)


REFUSED: list[tuple[str, str]] = [
    ("calc.ad", r"^no route 'calc\.ad' \(did you mean 'calc\.add'\?\)$"),
    ("c/calc.add", r"^no route 'c/calc\.add' \(did you mean 'calc\.add'\?\)$"),
    ("calc.secret", r"^no route 'calc\.secret'$"),
    ("calc.secre", r"^no route 'calc\.secre'$"),
    ("supervisor.stop", r"^no route 'supervisor\.stop'$"),
    ("backplane.main.statistics", r"^no route 'backplane\.main\.statistics'"),
]


@pytest.mark.parametrize(("route", "message"), REFUSED, ids=[route for route, _ in REFUSED])
def test_all_else_is_as_good_as_not_there(client: Client, route: str, message: str) -> None:
    """Neither called nor suggested."""
    with pytest.raises(NotFound, match=message):
        client.call(route, timeout=LIMIT_S)


def test_a_stream_is_read_as_on_one_host(client: Client, there: Client) -> None:
    """And ends with its reader."""
    assert [number for number, _ in client.stream("rows.upto", count=3_000)] == [*range(3_000)]
    before = len(there.call("rows.ended"))
    with client.stream("rows.upto", count=10**9, window=8, timeout=10 * LIMIT_S) as rows:
        assert [next(rows) for _ in range(20)] == [[number, ""] for number in range(20)]
    ask_until(there, "rows.ended", lambda ended: ended[before:] == ["GeneratorExit"])


def test_an_iterator_is_an_argument_as_on_one_host(client: Client, there: Client) -> None:
    """And the operation ends with its caller's iterator."""
    rows = [[number, ""] for number in range(3_000)]
    assert client.call("loads.rows", rows=stream(rows), timeout=LIMIT_S) == [3_000, 4_498_500]
    before = len(there.call("loads.ended"))
    with pytest.raises(ZeroDivisionError):
        client.call("loads.rows", rows=stream([1 // (2 - number), ""] for number in range(9)), timeout=LIMIT_S)
    ask_until(there, "loads.ended", lambda ended: ended[before:] == ["Cancelled"])


def test_calls_take_each_others_results_as_on_one_host(client: Client) -> None:
    """The caller carries them: what it is connected to is another host."""
    promise = client.promise()
    calls = [client.submit("calc.add", x=promise, y=0)]
    for number in range(1, 100):
        calls.append(client.submit("calc.add", x=calls[-1], y=number))
    with pytest.raises(OperandFailed):  # by `submit`, if the operand has failed by then
        client.submit("calc.add", x=client.submit("calc.add", x="no number", y=1), y=1).result(LIMIT_S)
    promise.set(0)
    assert [call.result(LIMIT_S) for call in calls] == [sum(range(number + 1)) for number in range(100)]
    lost = client.submit("calc.add", x=client.promise("lost"), y=0)
    assert "nobody can fill it any more" in str(lost.exception(LIMIT_S))


def test_topics_are_heard_and_published_on_as_on_one_host(client: Client) -> None:
    """Those that cross to other nodes, and no others."""
    with (
        client.subscribe("prices.eu", timeout=LIMIT_S) as prices,
        client.subscribe("private", timeout=LIMIT_S) as private,
    ):
        client.call("prices.tell", topic="private", who="b", numbers=[0])
        client.call("prices.tell", topic="prices.eu", who="b", numbers=[*range(1_000)])
        for number in range(1_000):
            message = prices.get(timeout=LIMIT_S)
            assert (message.topic, message.body, message.lost) == ("prices.eu", {"who": "b", "number": number}, 0)
        assert private.try_get() is None
        assert client.publish("prices.eu", who="a client", number=7) == 1
        assert client.publish("private", who="a client", number=7) == 0
        told = ask_until(client, "prices.told", lambda told: ["a client", 7] in told["open"])
        assert ["a client", 7] not in told["deaf"]


def test_a_grant_holds_without_a_restart(node: Node, client: Client) -> None:
    """In both directions: what the key may use from now on is in the directory of who is connected, and called."""
    key = Keyring(node.keys).own().public
    with pytest.raises(NotFound):
        client.call("calc.secret")
    node.ring.change(lambda ring: ring.trusting(Holder("k", key, routes=Grant.of(["calc.secret", "calc.add"]))))
    until(lambda: "calc.secret" in client.directory().routes)
    assert client.call("calc.secret") == 1
    node.ring.change(lambda ring: ring.trusting(Holder("k", key)))
    until(lambda: "calc.secret" not in client.directory().routes)
    with pytest.raises(NotFound):
        client.call("calc.secret")


# How it ends


@pytest.mark.parametrize(
    ("kind", "type_there"),
    [("Busy", Busy), ("NotFound", NotFound), ("InvalidArgument", InvalidArgument), ("PeerDown", PeerDown)],
)
def test_errors_come_out_as_what_they_are(client: Client, kind: str, type_there: type[BackplaneError]) -> None:
    """With their words, and when to come back."""
    with pytest.raises(type_there) as told:
        client.call("calc.fail", kind=kind, retry=False)
    assert told.value.retry_after == (1.5 if kind == "Busy" else None)
    with pytest.raises(InvalidArgument, match=r"^calc\.add: missing argument 'y'; expected \(x: int, y: int\)"):
        client.call("calc.add", x=1)


def test_a_megabyte_goes_there_and_back(client: Client) -> None:
    """And what does not fit into a frame is refused here; the line goes on."""
    with pytest.raises(InvalidArgument, match=r"calc\.add: argument 'x'"):
        client.call("calc.add", x="x" * (5 << 20), y=1)
    with pytest.raises(InvalidArgument, match="limit"):
        client.call("calc.add", x=bytes(17 << 20), y=1)
    said = "x" * (1 << 20)
    with pytest.raises(BackplaneError):
        client.call("calc.fail", kind=said)
    echoes = [client.submit("ledger.echo", said=f"{said}{n}", timeout=LIMIT_S) for n in range(12)]
    assert [echo.result() for echo in echoes] == [f"{said}{n}" for n in range(12)]


def test_ten_thousand_calls_are_each_given_their_own_answer(client: Client) -> None:
    """Numbers of this client, and numbers of the node's: who mixes them up answers somebody else."""
    calls = [client.submit("calc.add", x=number, y=1, timeout=LIMIT_S) for number in range(10_000)]
    assert [call.result() for call in calls] == [number + 1 for number in range(10_000)]


def test_answers_wait_for_who_does_not_look(node: Node) -> None:
    """A client has no thread that reads: what it asked for is there when it looks again, however late."""
    with node.connect() as client:
        calls = [client.submit("calc.add", x=number, y=1, timeout=LIMIT_S) for number in range(2_000)]
        client.flush()
        threading.Event().wait(1.5)  # longer than heartbeats may be unanswered
        assert [call.result() for call in calls] == [number + 1 for number in range(2_000)]


def test_a_cast_arrives_though_its_client_closes(node: Node) -> None:
    """At once after it: `close` waits for the proof."""
    with node.connect() as client:
        client.cast("ledger.book", number=4711)
    until(lambda: 4711 in booked(node))


def test_a_deadline_passes_on_both_ends(client: Client, there: Client) -> None:
    """Two hosts share no clock: what is left is known all the same."""
    name = expired_while_it_ran(
        lambda name, timeout: client.submit("worker.work", key="place-0", name=name, timeout=timeout),
        lambda name: f"{name} began" in there.call("worker.ended", timeout=LIMIT_S),
    )
    assert ended(there, name) in (["began", "Cancelled"], ["began", "DeadlineExceeded"])


def test_what_is_taken_back_ends_there(client: Client, there: Client) -> None:
    """At its next await."""
    call = client.submit("worker.work", key="place-0", name="unwanted")
    ask_until(there, "worker.ended", lambda log: "unwanted began" in log)
    assert call.cancel()
    assert ended(there, "unwanted") == ["began", "Cancelled"]


# asyncio


def test_the_same_on_an_event_loop(node: Node, there: Client) -> None:
    """Calls, errors, cancelling and closing."""

    async def main() -> None:
        async with await node.connect_async() as client:
            rows = stream([number, ""] for number in range(2_000))
            assert await client.call("loads.rows", rows=rows) == [2_000, 1_999_000]
            calls = [client.call("calc.add", x=number, y=1) for number in range(500)]
            assert await asyncio.gather(*calls) == [number + 1 for number in range(500)]
            with pytest.raises(NotFound):
                await client.call("calc.secret")
            with pytest.raises(DeadlineExceeded):
                await client.call("worker.work", key="place-0", name="async-late", timeout=0.2)
            task = asyncio.ensure_future(client.call("worker.work", key="place-1", name="async-unwanted"))
            await asyncio.to_thread(ask_until, there, "worker.ended", lambda log: "async-unwanted began" in log)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.cast("ledger.book", number=4712)

    asyncio.run(main())
    assert ended(there, "async-unwanted") == ["began", "Cancelled"]
    until(lambda: 4712 in booked(node))


# Who is gone


def test_what_a_dead_client_wanted_is_not_done(node: Node, there: Client) -> None:
    """Killed, it says nothing; its connection ends. Not by its deadline, which is ten minutes away."""
    program = node.program("place-0", "orphan")
    ask_until(there, "worker.ended", lambda log: "orphan began" in log)
    program.kill()
    wait_dead(program.pid)
    assert ended(there, "orphan") == ["began", "Cancelled"]


def test_what_a_stopped_client_wanted_is_not_done(node: Node, there: Client) -> None:
    """Its connection stands, and nobody is behind it: heartbeats are not answered. Its deadline is ten minutes away."""
    program = node.program("place-1", "frozen")
    ask_until(there, "worker.ended", lambda log: "frozen began" in log)
    program.send_signal(signal.SIGSTOP)
    assert ended(there, "frozen") == ["began", "Cancelled"]


def test_a_client_lives_through_the_end_of_its_node(own_node: Node) -> None:
    """Killed with all its system: what is outstanding ends at once; what is called then waits for it to be back."""
    with own_node.connect() as client:
        lost = client.submit("worker.work", key="place-0", name="lost", seconds=600, timeout=600)
        assert client.call("calc.add", x=1, y=2) == 3
        killed = own_node.system.processes()
        for how in (signal.SIGSTOP, signal.SIGKILL):  # none of them lives to tell of the end of another one
            for pid in killed:
                with suppress(ProcessLookupError):  # the kernel kills backplanes together with their supervisor
                    os.kill(pid, how)
        assert isinstance(lost.exception(timeout=LIMIT_S), PeerDown)
        assert "node 'b' at tcp://" in str(lost.exception())
        with pytest.raises(Unavailable, match="nobody listens there"):
            client.call("calc.add", x=1, y=2, retry=False)
        with pytest.raises(DeadlineExceeded, match="nobody listens there"):
            client.call("calc.add", x=1, y=2, timeout=0.5)
        own_node.system.process.wait(LIMIT_S)
        own_node.start()
        assert client.call("calc.add", x=2, y=2, timeout=LIMIT_S) == 4


def test_what_may_be_done_twice_is_asked_again_when_the_node_is_back(own_node: Node) -> None:
    """Its endpoint is killed alone, and started again by its supervisor: a call with an idempotency key survives that."""
    with own_node.connect() as client:
        held = client.submit(
            "worker.work", key="place-0", name="kept", seconds=2.0, idempotency_key="kept", timeout=LIMIT_S
        )
        assert client.call("calc.add", x=1, y=2) == 3
        os.kill(own_node.system.pids()["node"], signal.SIGKILL)
        assert held.result() == "kept"
        # And who does nothing meanwhile knows of it before it says anything: nothing is lost, though it may not be done twice.
        os.kill(own_node.system.pids()["node"], signal.SIGKILL)
        with own_node.connect() as other:  # who waits for a system is connected when it is back
            assert other.call("calc.add", x=1, y=2) == 3
        assert client.call("calc.add", x=1, y=2, retry=False) == 3


def test_a_node_that_is_killed_ends_a_call_with_an_iterator(own_node: Node) -> None:
    """Once: the iterator is closed, and the operation cancelled, which would wait for its rows until the deadline."""
    ended: list[str] = []

    def rows() -> Iterator[list[object]]:
        try:
            for number in itertools.count():
                if number == 50:
                    os.kill(own_node.system.pids()["node"], signal.SIGKILL)
                yield [number, ""]
        except BaseException as error:
            ended.append(type(error).__name__)
            raise

    with own_node.connect() as client, own_node.system.connect() as there:
        with pytest.raises(PeerDown):
            client.call("loads.rows", rows=stream(rows(), window=8), timeout=10 * LIMIT_S)
        assert ended == ["GeneratorExit"]
        ask_until(there, "loads.ended", lambda ended: ended == ["Cancelled"])


def test_the_same_on_an_event_loop_when_the_node_is_back(own_node: Node) -> None:
    """Nobody polls there: timers do it."""

    async def main() -> None:
        async with await own_node.connect_async() as client:
            held = client.submit(
                "worker.work", key="place-0", name="kept", seconds=1.0, idempotency_key="kept", timeout=LIMIT_S
            )
            lost = client.submit("worker.work", key="place-1", name="lost")
            assert await client.call("calc.add", x=1, y=2) == 3
            os.kill(own_node.system.pids()["node"], signal.SIGKILL)
            with pytest.raises(PeerDown):
                await lost
            assert await client.call("calc.add", x=1, y=2, timeout=LIMIT_S) == 3
            assert await held == "kept"

    asyncio.run(main())


def test_a_cut_is_noticed_on_both_ends(node: Node, there: Client) -> None:
    """A line that carries nothing any more, as when a cable is drawn: nobody says goodbye."""
    with FaultProxy(node.at) as proxy, connect(node.target(proxy.address), keys=node.keys, timeout=LIMIT_S) as client:
        call = client.submit("worker.work", key="place-3", name="cut-off")
        ask_until(there, "worker.ended", lambda log: "cut-off began" in log)
        proxy.cut()
        assert isinstance(call.exception(timeout=LIMIT_S), PeerDown)
        assert ended(there, "cut-off") == ["began", "Cancelled"]
        proxy.heal()
        assert client.call("calc.add", x=1, y=2, timeout=LIMIT_S) == 3


def test_who_looks_on_sees_who_is_connected(own_node: Node) -> None:
    """A row for the key, with what its programs have outstanding, until the last of them has gone."""

    def rows(told: list[dict[str, Any]]) -> list[tuple[str, int]]:
        return [(row["name"], row["calls_from"]) for row in told if row["state"] == "client"]

    with own_node.system.connect() as there:
        with own_node.connect() as client, own_node.connect() as other:
            assert other.call("calc.add", x=1, y=2) == 3
            call = client.submit("worker.work", key="place-0", name="seen")
            client.flush()
            ask_until(there, "node.peers", lambda told: rows(told) == [("k", 1)])
            (row,) = (row for row in there.call("node.peers") if row["state"] == "client")
            assert row["because"] == "2 connections, this is the first"
            assert row["address"].startswith("127.0.0.1:")
            call.cancel()
            ask_until(there, "node.peers", lambda told: rows(told) == [("k", 0)])
        ask_until(there, "node.peers", lambda told: rows(told) == [])


# Who is not let in


def test_a_key_that_is_revoked_is_out_at_once(own_node: Node) -> None:
    """What it has outstanding ends on both ends, and it does not come back."""
    with own_node.connect() as client, own_node.system.connect() as there:
        call = client.submit("worker.work", key="place-0", name="revoked")
        ask_until(there, "worker.ended", lambda log: "revoked began" in log)
        own_node.ring.change(lambda ring: ring.revoking("k"))
        assert isinstance(call.exception(timeout=LIMIT_S), PeerDown)
        assert ended(there, "revoked") == ["began", "Cancelled"]
        with pytest.raises(
            FailedPrecondition, match=r"does not trust this host's key \(there: appbackplane keys trust"
        ):
            client.call("calc.add", x=1, y=2, timeout=LIMIT_S)


def test_what_is_missing_is_said_with_its_remedy(node: Node, tmp_path: Path) -> None:
    """Before anything is dialled, as far as this host knows."""
    stranger = Keyring(tmp_path / "stranger")
    with pytest.raises(FailedPrecondition, match=r"no key pair .*\(appbackplane keys new\)"):
        connect(node.target(), keys=tmp_path / "none")
    stranger.make_own()
    with pytest.raises(FailedPrecondition, match="no trusted key is named 'b': appbackplane keys trust b KEY"):
        connect(node.target(), keys=stranger.folder.path)
    own = node.ring.own().public
    stranger.change(lambda ring: ring.trusting(Holder("b", own)))
    with pytest.raises(FailedPrecondition, match="does not trust this host's key"):
        connect(node.target(), keys=stranger.folder.path, timeout=LIMIT_S)
    with pytest.raises(InvalidArgument, match="does not say whose key is expected there"):
        connect(address(node.at), keys=node.keys)
    with pytest.raises(Unavailable, match="nobody listens there"):
        connect(node.target(("127.0.0.1", free_port())), keys=node.keys)
    with pytest.raises(InvalidArgument, match="keys are for a system on another host"):
        connect(node.system.run_dir, keys=node.keys)


def test_whoever_has_another_key_is_not_taken_for_the_node(node: Node, tmp_path: Path) -> None:
    """The address alone is nobody: what is said to an impostor is said to nobody."""
    with ExitStack() as stack:
        shutil.copytree(node.keys, tmp_path / "keys")
        (tmp_path / "keys").chmod(0o700)
        misled = Keyring(tmp_path / "keys")
        misled.change(lambda ring: ring.revoking("b"))
        other = Keyring(tmp_path / "other").make_own()
        misled.change(lambda ring: ring.trusting(Holder("b", other)))
        with pytest.raises(Unavailable, match="another key"):
            stack.enter_context(connect(node.target(), keys=misled.folder.path))


# The command line


def test_the_command_line_calls_other_hosts(node: Node) -> None:
    """`-s tcp://…`: the same words, the same answers."""
    words = ("-s", node.target(), "--keys", "keys-k")
    done = command(node.folder, "call", "calc.add", "x=20", "y=22", *words)
    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 0)
    done = command(node.folder, "call", "calc.ad", "x=20", "y=22", *words)
    assert done.returncode == 1
    assert "did you mean 'calc.add'?" in done.stderr
    done = command(node.folder, "call", "calc.add", "-s", node.target(), "--keys", "keys-none")
    assert done.returncode == 1
    assert "appbackplane keys new" in done.stderr
    done = command(node.folder, "status", "-s", node.target())
    assert done.returncode == 2
    assert "another host" in done.stderr


def ended(there: Client, name: str) -> list[str]:
    """What became of a piece of work, once it has ended."""
    log: list[str] = ask_until(there, "worker.ended", lambda log: len(said_of(log, name)) == 2)
    return said_of(log, name)


def booked(node: Node) -> list[int]:
    """What was cast and has been done; the file comes with the first."""
    book = node.folder / "booked"
    return [int(line) for line in book.read_text().splitlines()] if book.exists() else []


def said_of(log: list[str], name: str) -> list[str]:
    """Its lines."""
    return [line.removeprefix(f"{name} ") for line in log if line.startswith(f"{name} ")]


def until(is_so: Callable[[], object]) -> None:
    """What nobody announces."""
    wait_until(is_so)


# What it refuses itself


def test_a_client_of_another_host_refuses_for_an_overloaded_service(client: Client) -> None:
    """The node hands the refusals on as what they are, and those that it makes itself."""
    assert any("refused here" in error.message for error in press(client, "booth.serve"))
    wait_until_all_are_sent(client, "booth.serve")
