"""Endpoint: the thread between this system and other nodes, with real lines, against a peer that a test speaks for."""

from __future__ import annotations

import itertools
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from appbackplane.runtime.peers.allowance import SAY_BYTES_MAX
from appbackplane.runtime.peers.answers import Packed
from appbackplane.runtime.peers.node_endpoint import ASKED_MAX, CORES, SAY, TURN_MAX_NS, NodeEndpoint
from appbackplane.transport import codec
from appbackplane.transport.envelope import BOOST, CALL, CANCEL, CAST, STATUS, Envelope, reply
from appbackplane.transport.errors import Busy, Status
from appbackplane.transport.foreign_frames import CONTAINERS_MAX, UNCOUNTED_BYTES
from appbackplane.transport.link import Link
from appbackplane.transport.peers import effects as fx
from appbackplane.transport.peers.lines import SWEEP_NS, Came, Lines, PeerConnected
from appbackplane.transport.peers.membership import Membership
from appbackplane.transport.peers.messages import Heartbeat, PeerMessage, Sync, body_of, message_from
from appbackplane.transport.peers.node import PeerNode
from appbackplane.transport.peers.policy import MembershipPolicy
from appbackplane.transport.peers.view import Identity
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.ring import Holder, Ring
from appbackplane.transport.session import ClientSession
from tests.nesting import UNREADABLE_DEPTH, nested
from tests.waiting import LIMIT_S, Limit

#: Nobody is given up for a silence: here it is the machine's, while a test packs half a million lists.
PATIENT = MembershipPolicy(suspect_ns=200_000_000_000, dead_ns=400_000_000_000, attempt_ns=100_000_000_000)
ANN, BOB = b"client/ann", b"client/bob"
Read = Callable[[], object]


class Peer:
    """A node that says and hears what a test wants; of itself it does what membership does."""

    def __init__(self, name: str, keyring: Keyring) -> None:
        self.lines = Lines(keyring, "tcp://127.0.0.1:0")
        me = Identity(name, time.time_ns(), self.lines.address, str(keyring.own().public))
        now_ns = time.monotonic_ns()
        membership = Membership(me, dict, now_ns, random=random.Random(1).random, unix_ns=time.time_ns, policy=PATIENT)
        self.node = PeerNode(membership, now_ns)
        self.heard: list[Envelope] = []
        #: What the other says of itself.
        self.messages: list[PeerMessage] = []
        self.other = ""
        self._encoder = codec.Encoder()

    def say(self, *envelopes: Envelope) -> None:
        """To the other, on the urgent line."""
        for envelope in envelopes:
            assert self.lines.say(self.other, self._encoder.encode(envelope))

    def say_row(self, *row: Any) -> None:
        """The same of an envelope that no `Envelope` can be, from its fields in the order of the wire."""
        assert self.lines.say(self.other, msgpack.packb(row))

    def turn(self) -> None:
        """What there is to do now."""
        now_ns = time.monotonic_ns()
        for event in self.lines.turn(now_ns):
            if isinstance(event, Came):
                for envelope in codec.decode(event.frame):
                    if envelope.route == SAY:
                        message = message_from(envelope.body)
                        self.messages.append(message)
                        self._carry_out(self.node.received(str(event.holder.key), message, now_ns))
                    else:
                        self.heard.append(envelope)
            elif isinstance(event, PeerConnected):
                self.other = event.address
                self._carry_out(self.node.connected(event.address, now_ns))
            else:
                self._carry_out(self.node.lost(event.address, event.because, now_ns))
        self._carry_out(self.node.tick(now_ns))
        self.lines.flush()

    def until(self, is_so: Read) -> None:
        """Take turns until it is so."""
        limit = Limit()
        while not is_so():
            limit.check("it has not come to that")
            self.turn()

    def _carry_out(self, effects: Iterable[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.Send):
                self.lines.say(
                    effect.address, self._encoder.encode(Envelope(CAST, 0, 0, SAY, body=body_of(effect.message)))
                )
            elif isinstance(effect, fx.Dial):
                self.lines.dial(effect.address, effect.key)
            elif isinstance(effect, fx.Hangup):
                self.lines.hang_up(effect.address)


class Here:
    """This node, `a`, and its peer `b`; of the backplane around it there is what it hands over."""

    def __init__(self, folder: Path) -> None:
        rings = {name: Keyring(folder / name) for name in "ab"}
        self.keyring = rings["a"]
        keys = {name: ring.make_own() for name, ring in rings.items()}
        for name, other in ("ab", "ba"):
            rings[name].change(lambda ring, other=other: ring.trusting(Holder(other, keys[other])))  # type: ignore[misc]
        self.peer = Peer("b", rings["b"])
        self.ends: list[tuple[bytes, int, object, bool]] = []
        self.looked_for: list[bytes] = []
        self._has_left = False
        lines = Lines(rings["a"], "tcp://127.0.0.1:0")
        link = Link("a-peers")
        session = ClientSession(link, folder / "nobody.sock")
        me = Identity("a", time.time_ns(), lines.address, str(keys["a"]))
        seeds = {self.peer.lines.address: str(keys["b"])}
        now_ns = time.monotonic_ns()
        membership = Membership(
            me, lambda: seeds, now_ns, random=random.Random(2).random, unix_ns=time.time_ns, policy=PATIENT,
            is_allowed=self._is_trusted,
        )  # fmt: skip
        node = PeerNode(membership, now_ns)
        self.endpoint = NodeEndpoint(
            node, lines, link, session, {}, now_ns=time.monotonic_ns, deliver=self._deliver, look_for=self._look_for,
            patterns=frozenset,
        )  # fmt: skip

    def ask(self, id: int, route: str = "b/calc.add", *, by: bytes = ANN, kind: int = CALL) -> None:
        """A local process does."""
        self.endpoint.ask(by, Envelope(kind, id, 0, route, body={}), time.monotonic_ns())

    def meet(self) -> None:
        """Until `a` calls `b`."""
        self.endpoint.start()
        self.peer.until(lambda: self.endpoint.node.membership.is_up("b") and self.peer.node.membership.is_up("a"))

    def leave(self) -> None:
        """It stops in order."""
        if not self._has_left:
            self._has_left = True
            self.endpoint.stop(LIMIT_S)

    def close(self) -> None:
        """Both."""
        if not self.endpoint._runs.is_alive() and not self._has_left:
            self.endpoint.start()
        self.leave()
        self.peer.lines.close(0)

    def _is_trusted(self, key: str, _name: str) -> bool:
        return any(str(one.key) == key and not one.is_revoked for one in self.keyring.ring.holders)

    def _deliver(self, answers: Packed) -> None:
        for peer, _, packed in answers:
            (end,) = codec.decode(codec.batch([packed]))
            body = Status(end.body[0]) if end.kind == STATUS else end.body
            self.ends.append((peer, end.id, body, end.is_refused))

    def _look_for(self, peers: Iterable[bytes]) -> None:
        self.looked_for += peers


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    """Two nodes that have not met."""
    here = Here(tmp_path)
    yield here
    here.close()


def test_a_node_that_leaves_ends_its_calls_at_those_who_made_them(here: Here) -> None:
    """At once: what it has ended and not delivered would be waited for to its deadline."""
    here.meet()
    here.ask(1)
    here.ask(1, by=BOB)
    here.peer.until(lambda: len(here.peer.heard) == 2)
    here.leave()
    assert {*here.ends} == {(who, 1, Status.PEER_DOWN, False) for who in (ANN, BOB)}
    assert len(here.ends) == 2
    here.peer.until(lambda: not here.peer.node.membership.is_up("a"))


def test_a_node_that_is_trusted_after_it_was_refused_is_let_in(
    here: Here, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It dials again by itself, whenever that was."""
    there = Keyring(tmp_path / "b")
    trusted = there.change(lambda ring: ring)
    there.change(lambda _ring: Ring())
    here.endpoint.start()
    here.peer.until(lambda: "cannot be reached: it does not trust this node's key" in caplog.text)
    there.change(lambda _ring: trusted)
    here.peer.until(lambda: here.endpoint.node.membership.is_up("b") and here.peer.node.membership.is_up("a"))


def test_what_a_node_that_leaves_has_not_begun_is_refused(here: Here) -> None:
    """It can be asked elsewhere, or again."""
    for id in range(3):
        here.ask(id + 1)
    here.ask(0, kind=CAST)
    here.endpoint._is_stopping = True  # before its first turn
    here.endpoint.start()
    here.leave()
    assert here.ends == [(ANN, id, Status.UNAVAILABLE, True) for id in (1, 2, 3)]


def test_what_is_asked_faster_than_it_is_taken_is_refused(here: Here) -> None:
    """An endpoint that stands still keeps so much and no more: whoever asks is told. What was asked may be taken back."""
    for id in range(ASKED_MAX):
        here.ask(id + 1)
    for kind in (CALL, CAST):
        with pytest.raises(Busy, match=r"b/calc\.add: 8,192 messages wait"):
            here.ask(ASKED_MAX + 1, kind=kind)
    for id in range(2 * ASKED_MAX):
        here.ask(id + 1, kind=BOOST if id % 2 else CANCEL)
    assert len(here.endpoint._asked) == 2 * ASKED_MAX


def test_others_are_told_how_busy_this_node_is(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask the least busy one first; without it the first of an order that is by chance."""
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0 * CORES, 0.0, 0.0))
    here.meet()
    messages = here.peer.messages
    here.peer.until(lambda: any(isinstance(each, Heartbeat) and each.load == 3.0 for each in messages))


def test_a_key_that_is_revoked_here_ends_all_with_its_node_and_is_shown(here: Here) -> None:
    """At once, and as what it is: not as a silence of seconds that somebody would look for a broken network for."""
    here.meet()
    here.ask(1)
    here.peer.until(lambda: len(here.peer.heard) == 1)
    here.keyring.change(lambda ring: ring.revoking("b"))
    here.peer.until(lambda: here.ends and any(row.state == "revoked" for row in here.endpoint.roster.rows))
    assert here.ends == [(ANN, 1, Status.PEER_DOWN, False)]
    (row,) = (row for row in here.endpoint.roster.rows if row.name == "b")
    assert row.because == "its key is not trusted here any more, or not under this name"
    here.ask(2)
    here.peer.until(lambda: len(here.ends) == 2)
    assert here.ends[1] == (ANN, 2, Status.UNAVAILABLE, True)


def test_a_peer_that_comes_and_goes_does_not_fill_the_log(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    """A hostile one could do so all day; five times a minute say all that there is to say."""
    caplog.set_level(logging.INFO, "appbackplane.peers")
    for number in range(100):
        here.endpoint._carry_out(
            [
                fx.PeerUp("b", number + 1, "tcp://b", ""),
                fx.NodeUnreachable("b", number + 1, fx.Down.DIED, f"because {number}"),
                fx.NameTaken("a", "tcp://c", "the node name 'a' belongs to another"),
            ]
        )
    said = [record.getMessage() for record in caplog.records if record.name == "appbackplane.peers"]
    assert [said.count(line) for line in ("node b at tcp://b is up", "the node name 'a' belongs to another")] == [5, 1]
    assert [line for line in said if "is down" in line] == [f"node b is down (died): 'because {n}'" for n in range(5)]


def test_calls_of_a_process_that_has_died_are_taken_back(here: Here) -> None:
    """Who waits is looked for, again and again; of who is not there the other node is told."""
    here.meet()
    here.ask(1)
    here.ask(2)
    here.ask(1, by=BOB)
    here.peer.until(lambda: {*here.looked_for} == {ANN, BOB})
    here.endpoint.gone(ANN)
    here.peer.until(lambda: len(here.peer.heard) == 5)
    ids = [each.id for each in here.peer.heard if each.kind == CALL]
    assert [each.id for each in here.peer.heard if each.kind == CANCEL] == ids[:2]
    here.looked_for.clear()
    here.peer.until(lambda: here.looked_for)
    assert {*here.looked_for} == {BOB}
    assert here.ends == []


def test_a_peer_that_says_too_much_of_others_keeps_nobody_waiting(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    """A frame of 4,096 views kept the endpoint for 0.7 s. What is beyond is dropped, and the node is up as before."""
    here.meet()
    me, them = (node.membership.me for node in (here.peer.node, here.endpoint.node))
    view = Sync(
        name="b", incarnation=me.incarnation, to=them.incarnation, beat=1, sent_ns=1, echo_ns=0, records=()
    )  # fmt: skip
    for _ in range(2_000):
        here.peer.say(Envelope(CAST, 0, 0, SAY, body=body_of(view)))
    here.peer.until(lambda: here.endpoint._allowance.dropped_count > 1_500)
    here.ask(1)
    here.peer.until(lambda: len(here.peer.heard) == 1)
    said = [record.getMessage() for record in caplog.records]
    assert said.count("node 'b' exceeds its allowance of membership messages: the rest is dropped") == 1


def test_what_nodes_say_of_themselves_is_bounded_in_bytes(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    """Before it is looked at more closely."""
    here.meet()
    here.peer.say(Envelope(CAST, 0, 0, SAY, body={"kind": "heartbeat", "name": "x" * (SAY_BYTES_MAX + 1)}))
    here.peer.until(lambda: "bytes of membership messages from a node" in caplog.text)


def test_who_waits_for_what_is_too_complicated_is_told(here: Here) -> None:
    """A call here its caller there; an answer there its caller here. Nobody else notices."""
    here.meet()
    body = {"x": [[]] * (CONTAINERS_MAX + 1), "ballast": "x" * UNCOUNTED_BYTES}
    here.ask(1)
    here.ask(2)
    here.peer.until(lambda: len(here.peer.heard) == 2)
    first, second = here.peer.heard
    here.peer.say(Envelope(CALL, 7, None, "calc.add", body=body))
    here.peer.until(lambda: len(here.peer.heard) == 3)
    told = here.peer.heard[2]
    assert (told.kind, told.id, told.is_refused, told.body[0]) == (STATUS, 7, True, Status.INVALID_ARGUMENT)
    assert "at most 524,288 lists, maps and extension values" in told.body[1]
    here.peer.say(reply(first.id, body))
    here.peer.until(lambda: here.ends)
    assert here.ends == [(ANN, 1, Status.INVALID_ARGUMENT, False)]
    here.peer.say(reply(second.id, 5))
    here.peer.until(lambda: len(here.ends) == 2)
    assert here.ends[1] == (ANN, 2, 5, False)


def test_who_waits_for_what_is_malformed_is_told(here: Here) -> None:
    """A frame of one message says whose it is, whatever else is wrong with it. A call ended by its deadline before."""
    here.meet()
    instant = msgpack.Timestamp(2**62, 0)  # beyond the integers that travel, if it is taken for one
    here.ask(1)
    here.ask(2)
    here.peer.until(lambda: len(here.peer.heard) == 2)
    first, second = here.peer.heard
    here.peer.say_row(CALL, 7, instant, "calc.add", None, None, None, {}, None)
    here.peer.until(lambda: len(here.peer.heard) == 3)
    told = here.peer.heard[2]
    assert (told.kind, told.id, told.is_refused, told.body[0]) == (STATUS, 7, True, Status.INVALID_ARGUMENT)
    here.peer.say(Envelope(STATUS, first.id, body=[instant, "", None, None]))
    here.peer.until(lambda: here.ends)
    here.peer.say(Envelope(STATUS, second.id, body=[14, "", instant, None]))
    here.peer.until(lambda: len(here.ends) == 2)
    assert here.ends == [(ANN, 1, Status.INVALID_ARGUMENT, False), (ANN, 2, Status.UNAVAILABLE, False)]


def test_beside_a_malformed_message_the_others_of_its_frame_are_heard(here: Here) -> None:
    """Calls and answers of one node share frames. All were lost with one whose body could not be read."""
    here.meet()
    here.ask(1)
    here.ask(2)
    here.peer.until(lambda: len(here.peer.heard) == 2)
    first, second = here.peer.heard
    bad = {"x": nested(UNREADABLE_DEPTH)}
    here.peer.say(reply(first.id, bad), reply(second.id, 5), Envelope(CALL, 7, None, "calc.add", body=bad))
    here.peer.until(lambda: len(here.ends) == 2 and len(here.peer.heard) == 3)
    assert here.ends == [(ANN, 1, Status.INVALID_ARGUMENT, False), (ANN, 2, 5, False)]
    told = here.peer.heard[2]
    assert (told.kind, told.id, told.is_refused, told.body[0]) == (STATUS, 7, True, Status.INVALID_ARGUMENT)


def test_a_call_under_a_number_that_cannot_travel_is_malformed(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    """Its answer could not be packed, and six such frames used up the restarts of the node."""
    here.meet()
    here.peer.say_row(CALL, msgpack.Timestamp(-(2**62), 0), 0, "calc.add", None, None, None, {}, None)
    here.peer.until(lambda: "kind and id must be integers" in caplog.text)


def test_what_is_asked_is_taken_in_turns(here: Here) -> None:
    """In order; 8,192 messages in one took as long as all of them, in which peers were not heard."""
    endpoint, clock = here.endpoint, itertools.count(time.monotonic_ns(), TURN_MAX_NS // 20)
    endpoint._now_ns = lambda: next(clock)  # each look at it takes a while
    for id in range(200):
        here.ask(id + 1)
    turns = 0
    while endpoint._asked:
        before = len(endpoint._asked)
        assert endpoint._turn(next(clock)) == 0 or not endpoint._asked, "it does not wait while there is more"
        assert before - 25 < len(endpoint._asked) < before
        turns += 1
    assert here.ends == [(ANN, id, Status.NOT_FOUND, True) for id in range(1, 201)]
    assert turns >= 8


def test_a_turn_that_takes_long_puts_nothing_off(here: Here) -> None:
    """What is due next is so long from the end of a turn, not from its beginning."""
    endpoint, step_ns, limit = here.endpoint, SWEEP_NS // 100, Limit(LIMIT_S)
    clock = itertools.count(time.monotonic_ns(), step_ns)
    endpoint._now_ns = lambda: next(clock)  # each look at it takes a while
    while not (pause_ns := endpoint._turn(began_ns := next(clock))):
        limit.check("there is always more to do")
    ended_ns = next(clock) - step_ns
    assert ended_ns > began_ns + step_ns
    assert ended_ns + pause_ns <= began_ns + SWEEP_NS
