"""SocketSource: what is begun ends in a message; foreign frames become messages; nothing is lost, nothing fatal."""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, message
from appbackplane.runtime.dispatcher.sources.sockets import (
    Accepted,
    Closed,
    Connected,
    Failed,
    Listening,
    Malformed,
    Packets,
    Received,
    SocketSource,
    Written,
)
from appbackplane.runtime.dispatcher.sources.sockets.completions import READY
from appbackplane.runtime.dispatcher.sources.sockets.socket_outbox import AHEAD_MAX
from appbackplane.runtime.dispatcher.sources.sockets.socket_source import OPERATIONS_MAX
from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.runtime.objects.operation import DeclarationError
from appbackplane.transport.errors import Busy, InvalidArgument, NotFound, Unavailable
from tests.runtime.dispatcher.sources.test_framing import Lines, Measured
from tests.waiting import LIMIT_S


@message(category=965, id=1)
class Echo(Message):
    text: str
    connection: int = 0


class Heard:
    """What the handlers were told, for the test to wait for."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Message] = queue.Queue()

    def next(self, kind: type[Any]) -> Any:
        """The next of this kind; others before it are passed over."""
        while True:
            message = self.messages.get(timeout=LIMIT_S)
            if isinstance(message, kind):
                return message


def on_listening(message: Listening, heard: Heard) -> None:
    heard.messages.put(message)


def on_accepted(message: Accepted, heard: Heard) -> None:
    heard.messages.put(message)


def on_connected(message: Connected, heard: Heard) -> None:
    heard.messages.put(message)


def on_received(message: Received, heard: Heard) -> None:
    heard.messages.put(message)


def on_written(message: Written, heard: Heard) -> None:
    heard.messages.put(message)


def on_failed(message: Failed, heard: Heard) -> None:
    heard.messages.put(message)


def on_closed(message: Closed, heard: Heard) -> None:
    heard.messages.put(message)


def on_malformed(message: Malformed, heard: Heard) -> None:
    heard.messages.put(message)


def on_measured(message: Measured, heard: Heard) -> None:
    heard.messages.put(message)


def on_echo(message: Echo, sockets: SocketSource) -> None:
    sockets.begin_write(message.connection, message)


class Hub(Dispatcher):
    def __init__(self, **options: Any) -> None:
        self.heard = Heard()
        self.sockets = SocketSource(**options)

    def setup(self) -> None:
        heard = self.protected = DataProtector(self.heard)
        for handler in (
            on_listening, on_accepted, on_connected, on_received, on_written, on_failed, on_closed, on_malformed, on_measured,
        ):  # fmt: skip
            self.register(handler, heard)  # type: ignore[call-overload]
        self.register(on_echo, self.sockets)


def move(backplane: Backplane, *states: ModuleState) -> None:
    """To each state, and its hook has run."""
    for name in list(backplane.engine.registry.components):
        if name.startswith("backplane"):
            continue
        for state in states:
            done = threading.Event()
            with backplane.engine.lead:
                backplane.engine.lifecycle.move(name, state, lambda error, done=done: done.set())  # type: ignore[misc]
            assert done.wait(LIMIT_S)


@pytest.fixture
def up(running: Callable[..., Backplane]) -> Iterator[Callable[..., Hub]]:
    """A hub that serves; its thread has ended, and its sockets are closed, when the test has."""
    hubs: list[tuple[Hub, Backplane]] = []

    def start(hub: Hub | None = None, threads: int = 2, **options: Any) -> Hub:
        hub = hub or Hub(**options)
        backplane = running(hub, threads=threads)
        move(backplane, ModuleState.INITIALIZING, ModuleState.PRIMARY)
        hubs.append((hub, backplane))
        hub.backplane = backplane  # type: ignore[attr-defined]
        return hub

    yield start
    for hub, backplane in hubs:
        if hub.state is not ModuleState.DOWN:
            move(backplane, ModuleState.DOWN)
        assert hub.sockets.wait_ended(LIMIT_S)


def listen(hub: Hub, framing: Any = None) -> tuple[int, tuple[str, int]]:
    id = hub.sockets.begin_listen(("127.0.0.1", 0), framing=framing)
    listening = hub.heard.next(Listening)
    assert listening.transaction == id
    host, _, port = listening.address.rpartition(":")
    return id, (host, int(port))


def test_bytes_are_read_and_written_as_they_are_begun(up: Callable[..., Hub]) -> None:
    """Each operation ends in one message with its id, and what was not begun is not told."""
    hub = up()
    listener, address = listen(hub)
    with socket.create_connection(address) as peer:
        accepted = hub.heard.next(Accepted)
        assert accepted.transaction == listener
        assert accepted.peer == "{}:{}".format(*peer.getsockname())
        assert hub.sockets.connections == {accepted.connection: accepted.peer}
        read = hub.sockets.begin_read(accepted.connection, bytes_max=4)
        peer.sendall(b"hello")
        assert hub.heard.next(Received) == Received(read, accepted.connection, b"hell")
        again = hub.sockets.begin_read(accepted.connection)
        assert hub.heard.next(Received) == Received(again, accepted.connection, b"o")
        write = hub.sockets.begin_write(accepted.connection, b"goodbye")
        assert hub.heard.next(Written) == Written(write, accepted.connection)
        assert peer.recv(100) == b"goodbye"
        last = hub.sockets.begin_read(accepted.connection)
    failed = hub.heard.next(Failed)
    assert (failed.transaction, failed.because) == (last, "closed by the peer")
    assert hub.heard.next(Closed) == Closed(accepted.connection, "closed by the peer")
    with pytest.raises(NotFound, match="no connection"):
        hub.sockets.begin_read(accepted.connection)


def test_frames_become_messages_and_messages_frames(up: Callable[..., Hub]) -> None:
    """By (category, id), on both ends; the second is a hub of ours, which connects."""
    one, two = up(), up()
    _, address = listen(one, Packets)
    id = two.sockets.begin_connect(address, framing=Packets)
    connected = two.heard.next(Connected)
    assert connected.transaction == id
    for n in range(200):
        two.sockets.begin_write(connected.connection, Measured("attic", n))
    assert [one.heard.next(Measured).value for _ in range(200)] == list(range(200)), "in the order in which they came"
    two.sockets.begin_close(connected.connection)
    assert two.heard.next(Closed).because == "closed here"
    assert one.heard.next(Closed).because == "closed by the peer"


def test_a_handler_answers_on_the_connection(up: Callable[..., Hub]) -> None:
    """The peer has sent all it has before; it is answered all the same."""
    hub = up()
    _, address = listen(hub, Packets)
    with socket.create_connection(address) as peer:
        peer.sendall(b"".join(Packets().encode(Echo(str(n))) for n in range(50)))
        peer.shutdown(socket.SHUT_WR)
        answer, framing = bytearray(), Packets()
        while data := peer.recv(65536):
            answer += data
    got = []
    while frame := framing.split(answer):
        message = framing.message_of(frame)
        assert isinstance(message, Echo)
        got.append(message.text)
    assert got == [str(n) for n in range(50)]


class Late(Hub):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def setup(self) -> None:
        def answer(message: Echo, sockets: SocketSource) -> None:
            assert self.go_on.wait(LIMIT_S)
            sockets.begin_write(message.connection, message)

        heard = DataProtector(self.heard)
        self.register(on_listening, heard)
        self.register(on_accepted, heard)
        self.register(answer, self.sockets)


def test_a_peer_that_has_sent_all_is_still_answered(up: Callable[..., Hub]) -> None:
    """As long as a handler has something of it: `shutdown`, then read, is how many protocols end a request."""
    hub = Late()
    up(hub)
    _, address = listen(hub, Packets)
    with socket.create_connection(address) as peer:
        found = hub.sockets._connections[hub.heard.next(Accepted).connection]
        peer.sendall(Packets().encode(Echo("hi")))
        peer.shutdown(socket.SHUT_WR)
        wait_for(lambda: found._is_at_end)
        done = threading.Event()
        found.io.call(None, done.set)  # behind what follows from it
        assert done.wait(LIMIT_S)
        hub.go_on.set()
        assert peer.recv(1000) == Packets().encode(Echo("hi", found.id))
        assert peer.recv(1000) == b""


def test_a_bad_body_costs_a_message_and_a_bad_frame_the_connection(up: Callable[..., Hub]) -> None:
    """Malformed input is never fatal: others are served as before."""
    hub = up()
    _, address = listen(hub, Packets)
    with socket.create_connection(address) as bad, socket.create_connection(address) as good:
        bad.sendall(struct.pack(">HHI", 964, 1, 3) + b"\xc1\xc1\xc1" + struct.pack(">HHI", 964, 77, 0))
        first, second = hub.heard.next(Malformed), hub.heard.next(Malformed)
        assert first.data == b"\xc1\xc1\xc1"
        assert second.because == "BadFrame: category 964, id 77: there is no such message"
        bad.sendall(Packets().encode(Measured("attic", 1.0)))
        assert hub.heard.next(Measured).connection == first.connection, "the connection goes on"
        bad.sendall(b"\xff" * 100)
        assert "a packet of 4,294,967,295 bytes" in hub.heard.next(Malformed).because
        assert "malformed" in hub.heard.next(Closed).because
        good.sendall(Packets().encode(Measured("cellar", 2.0)))
        assert hub.heard.next(Measured).sensor == "cellar"
        good.sendall(Packets().encode(Measured("cellar", 2.0))[:-1])
    assert "it ended in the middle of a frame" in hub.heard.next(Malformed).because
    assert hub.sockets.malformed_count == 4


class Madness(Lines):
    """Everything in it is wrong."""

    def split(self, buffer: bytearray) -> Any:
        if buffer.startswith(b"same"):
            return super().split(bytearray(b"x 1\n"))
        if buffer.startswith(b"raise"):
            raise RuntimeError("no idea")
        return super().split(buffer)


def test_a_framing_that_fails_costs_its_connection(up: Callable[..., Hub]) -> None:
    """It is a user's. One that takes nothing off would be asked for ever; a line without an end would fill the memory."""
    hub = up()
    _, address = listen(hub, Madness)
    for data, because in (
        (b"same\n", "Madness.split consumed no input"),
        (b"raise\n", "RuntimeError: no idea"),
        (b"x" * 5000, "no frame within 5,000 bytes (frame_bytes_max = 100)"),
    ):
        with socket.create_connection(address) as peer:
            peer.sendall(data)
            assert because in hub.heard.next(Malformed).because
            hub.heard.next(Closed)


class Gate:
    def __init__(self) -> None:
        self.open, self.values, self.all = threading.Event(), [], threading.Event()  # type: ignore[var-annotated]


#: Many times what may be under way at once (AHEAD_MAX, and what the kernel buffers of a narrow socket).
FLOOD = 1_000


def on_flood(message: Measured, gate: Gate) -> None:
    assert gate.open.wait(LIMIT_S)
    gate.values.append(message.value)
    if len(gate.values) == FLOOD:
        gate.all.set()


class Slow(Hub):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.gate = Gate()

    def setup(self) -> None:
        self.register(on_flood, DataProtector(self.gate))
        heard = DataProtector(self.heard)
        self.register(on_listening, heard)
        self.attach(self.sockets)


class Narrow(Slow):
    max_posted = 5


@pytest.mark.parametrize("kind", [Slow, Narrow])
def test_what_comes_too_fast_waits_at_the_peer(up: Callable[..., Hub], kind: type[Slow]) -> None:
    """Backpressure: by its own bound, or when the dispatcher says `Busy`, the socket is not read. Nothing is lost."""
    hub = kind()
    up(hub)
    _, address = listen(hub, Lines)
    with socket.create_connection(address) as peer:
        peer.setblocking(False)
        stream = b"".join(b"x %d\n" % n for n in range(FLOOD))
        sent = peer.send(stream[:1000])
        peer.setblocking(True)
        sender = threading.Thread(target=peer.sendall, args=(stream[sent:],))
        sender.start()
        posted = hub.backplane.engine.limits.own_work[hub.component_name]  # type: ignore[attr-defined]
        if kind is Narrow:  # the dispatcher says Busy, and the test sees what follows
            wait_for(lambda: hub.sockets.waited_count > 0)
        hub.gate.open.set()
        assert hub.gate.all.wait(LIMIT_S)
        sender.join(LIMIT_S)
        assert hub.gate.values == list(range(FLOOD))
        assert posted.outstanding <= AHEAD_MAX


def test_a_source_that_is_not_handled_reads_no_more(up: Callable[..., Hub]) -> None:
    """While its messages wait, so does the peer: what it may send is bounded, whatever it has."""
    hub = Slow()
    up(hub)
    _, address = listen(hub, Lines)
    with socket.create_connection(address) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        peer.settimeout(1.0)
        posted = hub.backplane.engine.limits.own_work[hub.component_name]  # type: ignore[attr-defined]
        sent = 0
        while sent < 100 << 20 and not hub.gate.open.is_set():
            try:
                sent += peer.send(b"x 1\n" * 4096)
            except TimeoutError:
                if posted.outstanding:  # else it has not come to reading yet
                    assert posted.outstanding <= AHEAD_MAX
                    hub.gate.open.set()
    assert hub.gate.open.is_set(), f"{sent:,} bytes were taken while nothing was handled"


def test_a_read_that_is_taken_back_loses_nothing(up: Callable[..., Hub]) -> None:
    """Even when its message is in the queue: what has come stays where it is until the message is resolved."""
    hub = up(threads=1)
    _, address = listen(hub)
    with socket.create_connection(address) as peer:
        connection = hub.heard.next(Accepted).connection
        early = hub.sockets.begin_read(connection)
        with pytest.raises(InvalidArgument, match="is being read already"):
            hub.sockets.begin_read(connection)
        assert hub.sockets.cancel(early) is True
        assert hub.sockets.cancel(early) is False
        blocked, go_on = threading.Event(), threading.Event()
        original = hub.heard.messages.put

        def block(message: Message, *_: Any) -> None:
            blocked.set()
            assert go_on.wait(LIMIT_S)
            original(message)

        hub.heard.messages.put = block  # type: ignore[method-assign]
        hub.dispatch(Measured("in the way", 0.0))
        assert blocked.wait(LIMIT_S)
        late = hub.sockets.begin_read(connection)
        peer.sendall(b"precious")
        operation = hub.sockets._operations[late]
        wait_for(lambda: operation.handle is not None)
        assert hub.sockets.cancel(late) is True
        assert operation.handle is not None
        assert operation.handle.resolve() is None, "in another thread, at the same moment: it takes nothing"
        hub.heard.messages.put = original  # type: ignore[method-assign]
        go_on.set()
        third = hub.sockets.begin_read(connection)
        assert hub.heard.next(Received) == Received(third, connection, b"precious")
    assert hub.vanished_count <= 1


def test_nor_does_one_that_has_its_bytes_and_waits_for_data(up: Callable[..., Hub]) -> None:
    """Its message is there, and no handler has begun with it. The next read may have been begun by then, and has them."""
    hub = up()
    _, address = listen(hub)
    with socket.create_connection(address) as peer:
        connection = hub.heard.next(Accepted).connection
        blocked, go_on = threading.Event(), threading.Event()
        original = hub.heard.messages.put

        def block(message: Message, *_: Any) -> None:
            blocked.set()
            assert go_on.wait(LIMIT_S)
            original(message)

        hub.heard.messages.put = block  # type: ignore[method-assign]
        hub.dispatch(Measured("in the way", 0.0))
        assert blocked.wait(LIMIT_S)
        found = hub.sockets._connections[connection]
        first = hub.sockets.begin_read(connection)
        peer.sendall(b"precious")
        wait_for(lambda: bool(hub.backplane.engine.parking.parked))  # type: ignore[attr-defined]
        assert found.inbound == b"" and found.read is None
        second = hub.sockets.begin_read(connection)
        assert hub.sockets.cancel(first) is True
        hub.heard.messages.put = original  # type: ignore[method-assign]
        go_on.set()
        assert hub.heard.next(Received) == Received(second, connection, b"precious")


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll the condition: another thread makes it true, and there is no event to wait for."""
    tick = threading.Event()
    for _ in range(int(LIMIT_S / 0.002)):
        if condition():
            return
        tick.wait(0.002)
    raise AssertionError("it has not come true")


def test_a_listener_is_taken_back(up: Callable[..., Hub]) -> None:
    """From then on nobody is accepted; who is there stays."""
    hub = up()
    id, address = listen(hub)
    with socket.create_connection(address) as peer:
        connection = hub.heard.next(Accepted).connection
        assert hub.sockets.cancel(id) is True
        wait_for(lambda: not hub.sockets._listeners)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        hub.sockets.begin_write(connection, b"still here")
        assert peer.recv(100) == b"still here"


def test_what_cannot_be_done_is_told(up: Callable[..., Hub], tmp_path: Path) -> None:
    """By a message, not by an exception in a thread where nobody listens."""
    hub = up()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        unused = free.getsockname()
    ids = [
        hub.sockets.begin_connect(unused),
        hub.sockets.begin_listen(str(tmp_path / "no" / "such" / "folder")),
        hub.sockets.begin_listen(("192.0.2.1", 1)),
    ]
    failed = {each.transaction: each.because for each in (hub.heard.next(Failed) for _ in ids)}
    assert failed[ids[0]] == "Connection refused"
    assert "No such file or directory" in failed[ids[1]]
    assert "Cannot assign requested address" in failed[ids[2]]
    assert hub.sockets.connections == {} and not hub.sockets._operations


class Careless(Dispatcher):
    """Hears nothing of what becomes of its sockets."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address, self.sockets = address, SocketSource()

    def setup(self) -> None:
        self.register(on_echo, self.sockets)
        self.sockets.begin_listen(self.address, framing=Packets)


def test_what_nobody_hears_that_it_cannot_be_done_is_in_the_log(
    up: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway whose port is taken is up, and nobody reaches it: the log is where one looks."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = other.getsockname()
        hub = up(Careless(address))
        move(hub.backplane, ModuleState.DOWN)
        assert hub.sockets.wait_ended(LIMIT_S)
    (line,) = [each for each in caplog.records if each.levelname == "WARNING"]
    where = f"127.0.0.1:{address[1]}"
    assert line.message.startswith(f"real/careless: <Listener {where}>: {where}: ")
    assert line.message.endswith("Address already in use (Failed has no handler here)")


def test_nobody_outside_sends_what_a_socket_tells(up: Callable[..., Hub]) -> None:
    """As a route, `closed` would let every client tell the handlers what has not happened."""
    hub = up()
    routes = hub.backplane.engine.registry.routes  # type: ignore[attr-defined]
    assert {each for each in routes if each.startswith("hub.")} >= {"hub.echo", "hub.measured"}
    assert not {f"hub.{each.__message__.name}" for each in READY} & set(routes)


def test_unix_sockets_are_streams_like_others(up: Callable[..., Hub], tmp_path: Path) -> None:
    """And the file goes with the listener."""
    hub = up()
    path = os.path.relpath(tmp_path / "s")
    id = hub.sockets.begin_listen(path)
    assert hub.heard.next(Listening).address == path
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        assert hub.heard.next(Accepted).peer == f"a peer of {path}"
    hub.sockets.cancel(id)
    wait_for(lambda: not os.path.exists(path))


@pytest.mark.parametrize(
    "address", [("example.org", 80), ("127.0.0.1", 70_000), ("127.0.0.1",), 7, "", "x" * 108, None]
)
def test_a_wrong_address_is_refused_at_once(address: Any) -> None:
    """Names are not looked up: that takes seconds, and nothing here waits."""
    with pytest.raises(InvalidArgument, match="names are not looked up"):
        SocketSource().begin_connect(address)


def test_connections_are_bounded(up: Callable[..., Hub]) -> None:
    """A process that has no descriptors left dies (TRAPS 1). Who comes later waits until there is room."""
    hub = up(connections_max=2)
    _, address = listen(hub)
    peers = [socket.create_connection(address) for _ in range(3)]
    first = [hub.heard.next(Accepted).connection for _ in range(2)]
    assert len(hub.sockets.connections) == 2
    id = hub.sockets.begin_connect(address)
    failed = hub.heard.next(Failed)
    assert (failed.transaction, "connections_max" in failed.because) == (id, True)
    peers[0].close()
    assert hub.heard.next(Accepted).connection not in first
    for peer in peers:
        peer.close()


def on_failed_slowly(message: Failed, gate: Gate) -> None:
    gate.values.append(message.transaction)
    assert gate.open.wait(LIMIT_S)


class Later(Hub):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def setup(self) -> None:
        heard = DataProtector(self.heard)
        self.register(on_listening, heard)
        self.register(on_accepted, heard)
        self.register(on_closed, heard)
        self.register(on_failed_slowly, DataProtector(self.gate))
        self.attach(self.sockets)


def test_a_write_of_a_connection_that_has_ended_is_taken_back(up: Callable[..., Hub]) -> None:
    """Its `Failed` is on its way, and is not told; to ask for that is no error, whatever has become of the connection."""
    hub = Later()
    up(hub)
    _, address = listen(hub)
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    peer.connect(address)
    connection = hub.heard.next(Accepted).connection
    found = hub.sockets._connections[connection]
    found.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
    first = hub.sockets.begin_write(connection, b"x" * 1_000_000)
    second = hub.sockets.begin_write(connection, b"y")
    wait_for(lambda: bool(found.outbound) and found.outbound[0].has_begun)
    peer.close()  # with what it has not read: a reset
    wait_for(lambda: hub.gate.values == [first])
    assert hub.sockets.cancel(second) is True
    hub.gate.open.set()
    assert hub.heard.next(Closed).connection == connection
    assert hub.gate.values == [first]


def test_one_peer_that_does_not_read_takes_nobody_elses_room(up: Callable[..., Hub]) -> None:
    """However small what is written to it: what it has room for is its own."""
    hub = up()
    _, address = listen(hub)
    with socket.socket() as idle, socket.create_connection(address) as other:
        served = hub.heard.next(Accepted).connection
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        idle.connect(address)
        connection = hub.heard.next(Accepted).connection
        hub.sockets._connections[connection].socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        hub.sockets.begin_write(connection, b"x" * 200_000)

        def flood() -> None:
            for _ in range(OPERATIONS_MAX):
                hub.sockets.begin_write(connection, b"x")

        with pytest.raises(Busy, match=r"1,000 writes pending.* does not read"):
            flood()
        hub.sockets.begin_write(served, b"hello")
        assert other.recv(100) == b"hello"
        idle.close()
        assert hub.heard.next(Closed).connection == connection
        wait_for(lambda: len(hub.sockets._operations) == 1)  # to listen
        assert all(each.writes_count == 0 for each in hub.sockets._connections.values())


@pytest.mark.parametrize(
    "told", [Closed(1, "forged"), Listening(1, "forged"), Failed(1, 1, "forged"), Received(1, 1, b"")]
)
def test_no_peer_tells_what_only_the_source_tells(up: Callable[..., Hub], told: Message) -> None:
    """Handlers believe that an operation has ended, or a connection: neither a peer says so, nor a client by a route."""
    hub = up()
    _, address = listen(hub, Packets)
    with socket.create_connection(address) as peer:
        peer.sendall(Packets().encode(told))
        malformed = hub.heard.next(Malformed)
        assert "there is no such message" in malformed.because
        assert not any("closed" in route or "failed" in route for route in hub.backplane.engine.registry.routes)  # type: ignore[attr-defined]


def test_who_has_vanished_without_a_word_is_noticed(up: Callable[..., Hub]) -> None:
    """A device without power keeps its place for hours otherwise, and 256 of them keep everybody out."""
    hub = up()
    _, address = listen(hub)
    with socket.create_connection(address):
        accepted = hub.sockets._connections[hub.heard.next(Accepted).connection].socket
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


def test_who_sends_nonsense_again_and_again_does_not_fill_the_log(
    up: Callable[..., Hub], caplog: pytest.LogCaptureFixture
) -> None:
    """Said of the 1st, 2nd, 4th, 8th peer; told of each."""
    hub = up()
    _, address = listen(hub, Packets)
    for _ in range(20):
        with socket.create_connection(address) as peer:
            peer.sendall(b"\xff" * 8)
            hub.heard.next(Malformed)
    assert caplog.text.count("malformed input") == 5 and hub.sockets.malformed_count == 20


@pytest.mark.parametrize("data", [10, "text", None, [1, 2]])
def test_only_bytes_and_messages_are_written(up: Callable[..., Hub], data: Any) -> None:
    """`bytes(10)` are ten zeros: a number would be sent as that many of them, or fill the memory."""
    hub = up()
    _, address = listen(hub)
    with socket.create_connection(address):
        connection = hub.heard.next(Accepted).connection
        with pytest.raises(InvalidArgument, match="expected bytes, or a message"):
            hub.sockets.begin_write(connection, data)


def test_a_file_that_a_killed_process_has_left_keeps_nobody_from_listening(
    up: Callable[..., Hub], tmp_path: Path
) -> None:
    """Started again after kill -9, it would never listen; but where somebody does listen, or has a file, it stays his."""
    hub = up()
    left, taken, other = (os.path.relpath(tmp_path / name) for name in ("left", "taken", "other"))
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(left)
    Path(other).write_text("mine")
    with socket.socket(socket.AF_UNIX) as somebody:
        somebody.bind(taken)
        somebody.listen()
        id = hub.sockets.begin_listen(left)
        assert hub.heard.next(Listening).transaction == id
        for path in (taken, other):
            hub.sockets.begin_listen(path)
            assert "Address already in use" in hub.heard.next(Failed).because
    assert Path(other).read_text() == "mine" and os.path.exists(taken)


def test_a_file_that_has_become_anothers_is_left_alone(up: Callable[..., Hub], tmp_path: Path) -> None:
    """Whoever listens there now goes on to."""
    hub = up()
    path = os.path.relpath(tmp_path / "s")
    id = hub.sockets.begin_listen(path)
    hub.heard.next(Listening)
    Path(path + "new").write_text("another's")
    os.replace(path + "new", path)
    hub.sockets.cancel(id)
    wait_for(lambda: not hub.sockets._listeners)
    assert Path(path).read_text() == "another's"


def test_what_makes_framings_is_looked_at_before_anybody_comes() -> None:
    """Each connection has its own: an object instead of the class would turn everybody away."""
    for begin in (SocketSource().begin_listen, SocketSource().begin_connect):
        with pytest.raises(
            InvalidArgument, match="expected a factory that makes one for each connection, such as the class"
        ):
            begin(("127.0.0.1", 0), framing=Lines())  # type: ignore[arg-type]
    for many in (0, "8"):
        with pytest.raises(DeclarationError, match=r"connections_max=.*: expected 1 or more"):
            SocketSource(connections_max=many)  # type: ignore[arg-type]


def test_a_socket_file_that_somebody_removed_is_nobodys_trouble(
    up: Callable[..., Hub], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The listener is taken back all the same, and the thread ends as it should."""
    hub = up()
    path = os.path.relpath(tmp_path / "s")
    ids = [hub.sockets.begin_listen(path), hub.sockets.begin_listen(path + "2")]
    for _ in ids:
        hub.heard.next(Listening)
    os.unlink(path)
    os.unlink(path + "2")
    hub.sockets.cancel(ids[0])
    wait_for(lambda: len(hub.sockets._listeners) == 1)
    move(hub.backplane, ModuleState.DOWN)  # type: ignore[attr-defined]
    assert hub.sockets.wait_ended(LIMIT_S) and not hub.sockets._listeners and caplog.text == ""


def test_a_peer_that_does_not_read_is_heard_of(up: Callable[..., Hub]) -> None:
    """`Busy` at the writer, instead of memory that fills up; and a write of which nothing has left can be taken back."""
    hub = up()
    _, address = listen(hub)
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        peer.connect(address)
        connection = hub.heard.next(Accepted).connection
        hub.sockets._connections[connection].socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        written: list[int] = []

        def write_all() -> None:
            for _ in range(1000):
                written.append(hub.sockets.begin_write(connection, b"x" * 100_000))

        with pytest.raises(Busy, match="does not read"):
            write_all()
        wait_for(lambda: hub.sockets._connections[connection].outbound[0].has_begun)
        assert hub.sockets.cancel(written[-1]) is True
        assert hub.sockets.cancel(written[0]) is False
        hub.sockets.begin_close(connection)
        with pytest.raises(NotFound, match="is being closed"):
            hub.sockets.begin_write(connection, b"too late")
        got = 0
        while data := peer.recv(1 << 20):
            got += len(data)
    assert got == 100_000 * (len(written) - 1), "what was written has left before it is closed"
    assert hub.heard.next(Closed).because == "closed here"


def test_messages_of_ones_own(up: Callable[..., Hub]) -> None:
    """`tells` says which; what they lack is said at once."""

    @message(category=965, id=2)
    class Arrived(Message):
        data: bytes
        note: str = "-"

    @message(category=965, id=3)
    class Odd(Message):
        color: str

    def on_arrived(message: Arrived, heard: Heard) -> None:
        heard.messages.put(message)

    on_arrived.__annotations__["message"] = Arrived

    class Own(Hub):
        def setup(self) -> None:
            super().setup()
            self.register(on_arrived, self.protected)

    hub = up(Own(tells={Received: Arrived}))
    _, address = listen(hub)
    with socket.create_connection(address) as peer:
        hub.sockets.begin_read(hub.heard.next(Accepted).connection)
        peer.sendall(b"mine")
        assert hub.heard.next(Arrived) == Arrived(b"mine")
    for tells, said in (
        ({Received: Odd}, "nothing fills Odd.color: Received has transaction, connection, data"),
        ({Echo: Echo}, "is none of Listening"),
        ({Received: int}, "is not a message"),
    ):
        with pytest.raises(DeclarationError, match=said):
            SocketSource(tells=tells)


def test_it_follows_the_states_and_leaves_nothing(up: Callable[..., Hub], running: Callable[..., Backplane]) -> None:
    """What was begun before it serves begins then; once it is down nothing is told; and all descriptors are closed."""
    hub = Hub()
    early = hub.sockets.begin_listen(("127.0.0.1", 0))
    up(hub)
    fds = len(os.listdir("/proc/self/fd"))
    listening = hub.heard.next(Listening)
    assert listening.transaction == early
    host, _, port = listening.address.rpartition(":")
    peers = [socket.create_connection((host, int(port))) for _ in range(10)]
    for _ in peers:
        hub.heard.next(Accepted)
    move(hub.backplane, ModuleState.DOWN)  # type: ignore[attr-defined]
    assert hub.sockets.wait_ended(LIMIT_S)
    assert all(peer.recv(10) == b"" for peer in peers), "the peers see it"
    for peer in peers:
        peer.close()
    assert len(os.listdir("/proc/self/fd")) <= fds
    with pytest.raises(Unavailable, match="has stopped"):
        hub.sockets.begin_listen(("127.0.0.1", 0))
    move(hub.backplane, ModuleState.INITIALIZING)  # type: ignore[attr-defined]
    again = hub.sockets.begin_listen(("127.0.0.1", 0))
    move(hub.backplane, ModuleState.PRIMARY)  # type: ignore[attr-defined]
    assert hub.heard.next(Listening).transaction == again


def test_while_it_is_drained_nobody_new_is_heard(up: Callable[..., Hub]) -> None:
    """What has come is handled and answered; what comes now waits at the peer, and is there for whoever serves next."""
    hub = up()
    _, address = listen(hub, Packets)
    with socket.create_connection(address) as peer:
        connection = hub.heard.next(Accepted).connection
        with hub.backplane.engine.lead:  # type: ignore[attr-defined]
            hub.backplane.engine.lifecycle.suspend_timers()  # type: ignore[attr-defined]
        found = hub.sockets._connections[connection]
        wait_for(lambda: found.io._selector.get_map().get(found.socket) is None)  # type: ignore[union-attr]
        peer.sendall(Packets().encode(Measured("late", 1.0)))
        hub.sockets.begin_write(connection, b"an answer")
        assert peer.recv(100) == b"an answer"
        assert hub.heard.messages.empty() or not isinstance(hub.heard.messages.queue[0], Measured)


def test_a_handler_is_tested_with_a_source_of_nobodys() -> None:
    """It keeps what was begun."""
    sockets = SocketSource()
    on_echo(Echo("hi", connection=7), sockets)
    [(id, begun)] = sockets.begun.items()
    assert begun == ("write", (7, Echo("hi", connection=7)))
    assert sockets.cancel(id) is True and sockets.begun == {}
