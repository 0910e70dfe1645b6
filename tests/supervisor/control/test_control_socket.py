"""The control socket survives whatever its peers send or fail to read."""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appbackplane.supervisor.control import control_socket
from appbackplane.supervisor.control.control_socket import (
    Answered,
    ControlSocket,
    Crowded,
    Heard,
    MalformedPeer,
    SupervisorCall,
)
from appbackplane.transport.batching import SendResult
from appbackplane.transport.codec import Encoder, batch, decode
from appbackplane.transport.directory import Directory
from appbackplane.transport.envelope import CALL, CAST, PUBLISH, REPLY, STATUS, Envelope, reply
from appbackplane.transport.errors import DeadlineExceeded, InvalidArgument, Status
from appbackplane.transport.link import Link
from tests.nesting import UNREADABLE_DEPTH, nested
from tests.waiting import Limit

CALL_LIMIT_NS = 60_000_000_000


class Peer:
    """The far end, as raw as a test wants it."""

    def __init__(self, path: Path, name: str) -> None:
        self.link = Link(name)
        self.supervisor = self.link.connect(path)
        self.identity = self.link.known_as(self.supervisor)

    def send(self, *envelopes: Envelope) -> None:
        """One frame."""
        encoder = Encoder()
        self.link.send(self.supervisor, batch([encoder.encode(envelope) for envelope in envelopes]))

    def received(self) -> list[Envelope]:
        """What has come."""
        found: list[Envelope] = []
        while (frame := self.link.receive()) is not None:
            found += decode(frame[1])
        return found


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlSocket]:
    """A socket."""
    found = ControlSocket(tmp_path / "s.sock")
    yield found
    found.close()


@pytest.fixture
def connect(tmp_path: Path, control: ControlSocket) -> Iterator[Callable[[str], Peer]]:
    """Makes peers of it."""
    peers: list[Peer] = []

    def make(name: str) -> Peer:
        peers.append(Peer(tmp_path / "s.sock", name))
        return peers[-1]

    yield make
    for peer in peers:
        peer.link.close(0)


def heard_until(control: ControlSocket, is_it: Callable[[list[Heard]], bool]) -> list[Heard]:
    """Turns, until what was heard is enough."""
    heard: list[Heard] = []
    limit = Limit()
    while not is_it(heard):
        limit.check(heard)
        heard += control.turn(time.monotonic_ns())[0]
    return heard


def introduce(control: ControlSocket, peer: Peer) -> SupervisorCall:
    """Has a peer call, so that it is known."""
    peer.send(Envelope(CALL, 1, 0, "supervisor.directory", None, None, None, {}))
    (asked,) = heard_until(control, lambda heard: bool(heard))
    assert isinstance(asked, SupervisorCall)
    assert asked.caller.peer == peer.identity
    return asked


GARBAGE = [
    b"",
    b"\xc1",
    b"\x00" * 100,
    b"\x91\x99",
    b"hello",
    b"\xdf\xff\xff\xff\xff",
    batch([Encoder().encode(Envelope(PUBLISH, 1, None, "t", None, None, None, {}))]),
    b"x" * (control_socket.FRAME_BYTES_MAX + 1),
]


@pytest.mark.parametrize("frame", GARBAGE, ids=range(len(GARBAGE)))
def test_a_malformed_frame_is_reported_once_a_peer_and_the_next_call_is_heard(
    control: ControlSocket, connect: Callable[[str], Peer], frame: bytes
) -> None:
    """One peer's bug must not be everybody's death, nor fill the log."""
    peer = connect("garbled")
    for _ in range(3):
        peer.link.send(peer.supervisor, frame)
    peer.send(Envelope(CALL, 1, 0, "supervisor.status", None, None, None, {}))
    heard = heard_until(control, lambda heard: any(isinstance(one, SupervisorCall) for one in heard))
    assert [type(one) for one in heard] == [MalformedPeer, SupervisorCall]
    assert control.malformed_count == 3


def test_beside_a_call_that_cannot_be_read_the_others_of_its_frame_are_heard(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """The caller of the bad one is told, and does not wait for its deadline."""
    peer = connect("garbled")
    bad, good = (
        Envelope(CALL, id, 0, "supervisor.status", body={"x": nested(n)}) for id, n in ((1, UNREADABLE_DEPTH), (2, 1))
    )
    encoder = Encoder()
    peer.link.send(peer.supervisor, batch([encoder.encode(bad), encoder.encode(good)]))
    heard = heard_until(control, lambda heard: any(isinstance(one, SupervisorCall) for one in heard))
    assert {type(one) for one in heard} == {SupervisorCall, MalformedPeer}
    limit, told = Limit(), peer.received()
    while not told:
        limit.check(heard)
        control.turn(time.monotonic_ns())
        told = peer.received()
    (refusal,) = told
    assert (refusal.kind, refusal.id, refusal.is_refused) == (STATUS, 1, True)
    assert refusal.body[0] == Status.INVALID_ARGUMENT


def test_a_call_ends_once_by_its_answer(control: ControlSocket, connect: Callable[[str], Peer]) -> None:
    """A second answer, or one from a stranger, must not end another call."""
    peer, stranger = connect("control/query-1"), connect("stranger")
    introduce(control, peer)
    introduce(control, stranger)
    control.call(peer.identity, "control.move", {"state": "primary"}, "token", time.monotonic_ns(), CALL_LIMIT_NS)
    calls: list[Envelope] = []
    limit = Limit()
    while not calls:
        limit.check()
        assert not control.turn(time.monotonic_ns())[0]
        calls = peer.received()
    stranger.send(reply(calls[0].id, "forged"))
    stranger.send(Envelope(CALL, 2, 0, "x", None, None, None, {}))
    heard_until(control, lambda heard: any(isinstance(one, SupervisorCall) for one in heard))
    peer.send(reply(calls[0].id, "well"), reply(calls[0].id, "again"))
    assert heard_until(control, lambda heard: bool(heard)) == [Answered("token", "well", None)]


def test_a_call_that_is_not_answered_ends_at_its_limit(control: ControlSocket, connect: Callable[[str], Peer]) -> None:
    """A hook that hangs would keep the system from ever going down."""
    peer, now_ns = connect("control/query-1"), time.monotonic_ns()
    introduce(control, peer)
    control.call(peer.identity, "control.move", {}, "token", now_ns, CALL_LIMIT_NS)
    assert control.turn(now_ns + CALL_LIMIT_NS - 1)[0] == []
    (ended,) = control.turn(now_ns + CALL_LIMIT_NS)[0]
    assert isinstance(ended, Answered)
    assert isinstance(ended.error, DeadlineExceeded)


def test_calls_to_the_dead_end_at_once(control: ControlSocket, connect: Callable[[str], Peer]) -> None:
    """Their limits are a minute."""
    peer = connect("control/query-1")
    introduce(control, peer)
    control.call(peer.identity, "control.move", {}, "token", time.monotonic_ns(), CALL_LIMIT_NS)
    control.forget(peer.identity)
    (ended,) = control.turn(time.monotonic_ns())[0]
    assert isinstance(ended, Answered)
    assert ended.error is not None


def test_only_the_generation_that_was_told_its_token_is_taken_for_it(control: ControlSocket, tmp_path: Path) -> None:
    """Any program of the user's could otherwise register in a backplane's place, or change its CPU limit."""
    token = control.identities.token("query", 1)
    senders = []
    for name, given in (
        ("query-1", token),
        ("query-1", ""),
        ("query-2", token),
        ("other-1", token),
        ("query-01", token),
    ):
        link = Link(f"control/{name}", given)
        peer = link.connect(tmp_path / "s.sock")
        call = Envelope(CALL, 1, 0, "supervisor.limit", None, None, None, {})
        link.send(peer, batch([Encoder().encode(call)]))
        (asked,) = heard_until(control, lambda heard: bool(heard))
        assert isinstance(asked, SupervisorCall)
        senders.append(asked.sender)
        if asked.sender is not None:
            assert asked.caller.peer == control.identities.peer_of(*asked.sender)
        link.close(0)
    assert senders == [("query", 1), None, None, None, None]


def test_while_few_descriptors_are_left_who_comes_waits_and_who_is_there_is_served(
    control: ControlSocket, connect: Callable[[str], Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ZeroMQ aborts the process that accepts at its limit; and whoever is let in takes what the supervisor needs itself."""
    first = connect("first")
    introduce(control, first)
    with monkeypatch.context() as few:
        few.setattr(resource, "getrlimit", lambda _which: (10, 10))
        connect("second")
        (crowded,) = heard_until(control, lambda heard: bool(heard))
        assert isinstance(crowded, Crowded)
        third = connect("third")
        third.send(Envelope(CALL, 1, 0, "supervisor.status", None, None, None, {}))
        for _ in range(100):
            introduce(control, first)
    (asked,) = heard_until(control, lambda heard: bool(heard))
    assert isinstance(asked, SupervisorCall)
    assert asked.caller.peer == third.identity


def test_a_peer_that_is_not_there_is_named(control: ControlSocket) -> None:
    """So that a process whose control link broke is not waited for."""
    control.cast(b"control/gone-1", "control.directory", {})
    assert control.turn(time.monotonic_ns()) == ([], [b"control/gone-1"])


def test_subscribers_hear_each_new_directory_numbered(control: ControlSocket, connect: Callable[[str], Peer]) -> None:
    """A gap in the numbers is how a client sees that it missed one."""
    peer = connect("client")
    control.subscribe(introduce(control, peer).caller.peer)
    for version in (1, 2):
        control.publish(Directory("demo", version))
        control.turn(time.monotonic_ns())
    found: list[Envelope] = []
    limit = Limit()
    while len(found) < 2:
        limit.check()
        found += peer.received()
    assert [(one.kind, one.id, one.route, one.body["version"]) for one in found] == [
        (PUBLISH, 1, "system.directory", 1),
        (PUBLISH, 2, "system.directory", 2),
    ]


def test_a_subscriber_that_does_not_read_delays_nobody_and_gets_the_newest(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """A stopped client must neither stop the supervisor nor have it keep every version there ever was."""
    stalled, reading = connect("stalled"), connect("reading")
    for peer in (stalled, reading):
        control.subscribe(introduce(control, peer).caller.peer)
    routes = {f"component.operation{n}": ("query",) for n in range(200)}
    versions, found = 3_000, []
    for version in range(1, versions + 1):
        control.publish(Directory("demo", version, routes=routes))
        control.turn(time.monotonic_ns())
        found += reading.received()
    assert stalled.identity in control._outbox.stalled
    limit = Limit()
    while not found or found[-1].body["version"] != versions:
        limit.check()
        control.turn(time.monotonic_ns())
        found += reading.received()
    late: list[Envelope] = []
    while not late or late[-1].body["version"] != versions:
        limit.check()
        control.turn(time.monotonic_ns())
        late += stalled.received()
    assert len(late) < versions, "what it did not read was not all kept for it"
    numbers = [one.id for one in late]
    assert numbers == sorted(set(numbers))


def test_clients_that_have_gone_take_nobodys_place(
    control: ControlSocket, connect: Callable[[str], Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command that somebody types is a client; where nothing restarts for weeks, none of them would be forgotten."""
    monkeypatch.setattr(control_socket, "SUBSCRIBERS_MAX", 20)
    monkeypatch.setattr(control_socket, "SWEEP_MIN", 10)
    control._sweep_at = 10
    control.publish(Directory("demo", 1))
    living = connect("living")
    control.subscribe(introduce(control, living).caller.peer)
    for number in range(100):
        client = connect(f"client-{number}")
        control.subscribe(introduce(control, client).caller.peer)
        client.link.close()
        limit = Limit()
        while control._link.send(client.identity, b"\x90") is not SendResult.UNREACHABLE:
            limit.check()
            control.turn(time.monotonic_ns())
    assert living.identity in control._subscribers
    assert len(control._subscribers) <= 10


def test_an_answer_that_cannot_travel_becomes_a_status(control: ControlSocket, connect: Callable[[str], Peer]) -> None:
    """Whoever asked must not wait for its deadline because of our bug."""
    peer = connect("client")
    control.reply(introduce(control, peer).caller, {"x": object()})
    control.turn(time.monotonic_ns())
    found: list[Envelope] = []
    limit = Limit()
    while not found:
        limit.check()
        found = peer.received()
    assert found[0].kind != REPLY


FILLING = {"filling": bytes(control_socket.FRAME_BYTES_MAX)}


def test_a_call_that_is_too_large_is_refused_by_the_bound_it_exceeds(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """Dropped without an answer, its caller waits for thirty seconds and learns nothing, or a backplane is never registered."""
    peer = connect("talkative")
    peer.send(Envelope(CALL, 2**40, 0, "supervisor.status", None, None, None, FILLING))
    said: list[Envelope] = []
    limit = Limit()
    while not said:
        limit.check()
        assert control.turn(time.monotonic_ns())[0] == []
        said = peer.received()
    (told,) = said
    assert (told.kind, told.id, told.body[0]) == (STATUS, 2**40, Status.INVALID_ARGUMENT)
    assert f"{control_socket.FRAME_BYTES_MAX:,}" in told.body[1]
    assert control.malformed_count == 0


def test_an_answer_that_is_too_large_ends_its_call(control: ControlSocket, connect: Callable[[str], Peer]) -> None:
    """The other direction: who asked would otherwise wait for the limit, and call the backplane silent."""
    peer = connect("control/query-1")
    introduce(control, peer)
    control.call(peer.identity, "control.statistics", {}, "token", time.monotonic_ns(), CALL_LIMIT_NS)
    calls: list[Envelope] = []
    limit = Limit()
    while not calls:
        limit.check()
        control.turn(time.monotonic_ns())
        calls = peer.received()
    peer.send(reply(calls[0].id, FILLING))
    (answered,) = heard_until(control, lambda heard: bool(heard))
    assert isinstance(answered, Answered)
    assert answered.token == "token"
    assert isinstance(answered.error, InvalidArgument)
    assert answered.error.message.startswith("control.statistics: an answer of ")


def test_what_nobody_waits_for_and_is_too_large_is_malformed(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """Counted, and said once: there is nobody to tell."""
    peer = connect("talkative")
    for _ in range(2):
        peer.send(Envelope(CAST, 0, 0, "supervisor.status", None, None, None, FILLING))
    peer.send(Envelope(CALL, 1, 0, "supervisor.status", None, None, None, {}))
    heard = heard_until(control, lambda heard: any(isinstance(one, SupervisorCall) for one in heard))
    assert [type(one) for one in heard] == [MalformedPeer, SupervisorCall]
    assert control.malformed_count == 2


def test_a_call_that_comes_after_its_deadline_is_not_obeyed(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """A supervisor that stood still must not take a system down for somebody who has given up on it long ago."""
    peer = connect("late")
    now_ns = time.monotonic_ns()
    peer.send(
        Envelope(CALL, 1, 0, "supervisor.down", None, -now_ns, None, {}),
        Envelope(CALL, 2, 0, "supervisor.down", None, 0, None, {}),
        Envelope(CALL, 3, 0, "supervisor.status", None, -(now_ns + CALL_LIMIT_NS), None, {}),
        Envelope(CALL, 4, 0, "supervisor.status", None, CALL_LIMIT_NS, None, {}),
    )
    heard = heard_until(control, lambda heard: len(heard) >= 2)
    assert [one.caller.id for one in heard if isinstance(one, SupervisorCall)] == [3, 4]
    said: list[Envelope] = []
    limit = Limit()
    while len(said) < 2:
        limit.check()
        control.turn(time.monotonic_ns())
        said += peer.received()
    assert [(told.kind, told.id, told.body[0]) for told in said] == [
        (STATUS, 1, Status.DEADLINE_EXCEEDED), (STATUS, 2, Status.DEADLINE_EXCEEDED),
    ]  # fmt: skip


def test_a_client_that_floods_delays_neither_an_iteration_nor_other_clients(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """Each frame may hold 4,096 calls. All calls of 64 frames were served in one iteration, and no death was seen meanwhile."""
    many, one = connect("flooding"), connect("patient")
    introduce(control, many)
    introduce(control, one)
    for first in range(0, 10_000, 1_000):
        many.send(*(Envelope(CALL, first + number, 0, "supervisor.status", body={}) for number in range(1_000)))
    calls: list[SupervisorCall] = []
    refused: list[Envelope] = []
    is_asked, limit = False, Limit()
    while len(calls) + len(refused) <= 10_000:
        limit.check()
        heard, _ = control.turn(time.monotonic_ns())
        assert len(heard) <= control_socket.CALLS_MAX
        calls += [each for each in heard if isinstance(each, SupervisorCall)]
        refused += many.received()
        if calls and not is_asked:
            is_asked = True
            one.send(Envelope(CALL, 1, 0, "supervisor.routes", body={}))
    others = [number for number, each in enumerate(calls) if each.route == "supervisor.routes"]
    assert others[0] < control_socket.CALLS_WAITING_MAX, "it waited for all calls of the other"
    del calls[others[0]]
    served = [each.caller.id for each in calls]
    assert served == sorted(served), "in order"
    assert sorted([*served, *(each.id for each in refused)]) == [*range(10_000)], "each ends once"
    assert {(each.kind, each.body[0], each.is_refused) for each in refused} == {
        (STATUS, Status.RESOURCE_EXHAUSTED, True)
    }
    assert not control._waiting_count and not control._waiting_bytes


def test_clients_that_flood_keep_no_frame_of_a_backplane_unread(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """A killed backplane was started again, and could not register for as long as the calls of others were served."""
    flooding = [connect(f"flooding-{number}") for number in range(8)]
    backplane = connect("patient")
    for peer in (*flooding, backplane):
        introduce(control, peer)
    for peer in flooding:
        peer.send(*(Envelope(CALL, number, 0, "supervisor.status", body={}) for number in range(4_000)))
    heard_until(control, bool)
    backplane.send(Envelope(CALL, 2, 0, "supervisor.register", body={}))
    heard = heard_until(
        control, lambda heard: any(getattr(each, "route", "") == "supervisor.register" for each in heard)
    )
    assert len(heard) < 4_000, "the calls of one client"


def test_waiting_calls_take_no_more_bytes_than_their_bound(
    control: ControlSocket, connect: Callable[[str], Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """4,096 calls, each in a frame of 2 MiB, would take 8 GiB."""
    monkeypatch.setattr(control_socket, "BYTES_WAITING_MAX", 100_000)
    monkeypatch.setattr(control_socket, "CALLS_MAX", 0)
    peer = connect("large")
    for number in range(4):
        peer.send(Envelope(CALL, number, 0, "supervisor.status", body={"text": "x" * 40_000}))
    refused: list[Envelope] = []
    limit = Limit()
    while len(refused) < 2:
        limit.check(refused)
        control.turn(time.monotonic_ns())
        refused += peer.received()
    assert [each.id for each in refused] == [2, 3] and control._waiting_bytes < 100_000


def test_an_iteration_reads_no_more_bytes_than_the_longest_frame_has(
    control: ControlSocket, connect: Callable[[str], Peer]
) -> None:
    """To look through a malformed frame of a megabyte takes 0.2 s, and no death was seen behind 64 of them."""
    peer = connect("wordy")
    introduce(control, peer)
    for _ in range(6):
        peer.link.send(peer.supervisor, b"\xc1" * (control_socket.FRAME_BYTES_MAX // 2))
    limit, counts = Limit(), [0]
    while control.malformed_count < 6:
        limit.check()
        control.turn(time.monotonic_ns())
        counts.append(control.malformed_count)
    assert max(after - before for before, after in itertools.pairwise(counts)) <= 2
