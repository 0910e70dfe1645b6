"""Intrusion: who has no key, the wrong one or a revoked one gets nothing, and costs those who are served nothing to speak of.

Over real sockets on loopback. Of each attempt there is a line in the log, or it is stated why not.
"""

from __future__ import annotations

import random
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zmq

from appbackplane.transport.security import links
from appbackplane.transport.security.gatekeeper import ADDRESS, Gatekeeper
from appbackplane.transport.security.keyring import RING, Keyring
from tests.figures import Stopwatch, judge
from tests.waiting import wait_until

from .house import LIMIT_S, NOTHING_MS, Guest, House, Tap, raw, wait_for

#: ZMTP 3.1's greeting (RFC 37), by which each side says its mechanism before anything else.
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"%s" + bytes(32)
HALF_OPEN = 2_000


def served(house: House, friend: Guest) -> None:
    """As if nothing had been."""
    before = len(house.heard)
    assert friend.waits(b"still") == b"still"
    assert house.heard[before:] == [("friend", b"still")]


def said_to(connection: socket.socket) -> bytes:
    """All that it is told until it is hung up on."""
    told = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            told += more
    return told


def test_a_key_that_is_trusted_is_served_under_its_name(house: House, friend: Guest) -> None:
    """Or nothing below means anything. The name is the ring's; what the peer calls itself is nobody's business."""
    friend.again().setsockopt(zmq.ROUTING_ID, b"somebody-else")
    friend.connect(house)
    assert friend.waits(b"x") == b"x"
    assert house.heard == [("friend", b"first"), ("friend", b"x")]


def test_who_is_trusted_and_was_not_let_in_in_time_is_served_when_it_dials_again(
    tmp_path: Path, guest: Callable[[str], Guest]
) -> None:
    """ZeroMQ does not try again after a handshake that failed: whoever owns the link has to."""
    friend = guest("friend")
    late = House(tmp_path / "house", links.LinkLimits(handshake_ms=100))
    late.trust("friend", friend.key)
    events = friend.watch(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_DISCONNECTED)
    friend.connect(late)
    wait_for(events, zmq.EVENT_DISCONNECTED)  # nobody has answered the question whether it may come in
    with late:
        assert friend.ask(b"is there anybody") is None
        assert friend.waits(b"first") == b"first"


def test_a_key_is_trusted_from_the_next_question_on(tmp_path: Path, guest: Callable[[str], Guest]) -> None:
    """Also where others have asked in the same moment: the ring is not read for all of them at once."""
    keyring, friend, stranger = Keyring(tmp_path / "keys"), guest("friend"), guest("stranger")
    log: list[str] = []

    def trust(line: str) -> None:
        log.append(line)
        House.trust_in(Keyring(keyring.folder.path), "friend", friend.key)

    with zmq.Context() as context, context.socket(zmq.DEALER) as asks:
        gatekeeper = Gatekeeper(context, keyring, trust)
        asks.connect(ADDRESS)
        for key in (stranger.key, friend.key):
            question = [b"1.0", b"1", links.DOMAIN.encode(), b"127.0.0.1", b"", b"CURVE", key.raw]
            asks.send_multipart([b"", *question])
        gatekeeper.answer(0)
        assert [asks.recv_multipart()[3] for _ in range(2)] == [b"400", b"200"]
        assert len(log) == 1
        gatekeeper.close()


def test_no_key_gets_nothing(house: House, friend: Guest) -> None:
    """ZeroMQ without security: hung up on, and logged; with its address, if that could be asked in time."""
    with Guest(house.keyring.folder.path.parent / "nobody") as nobody:
        nobody.socket.connect(f"tcp://127.0.0.1:{house.port}")
        assert nobody.ask(b"let me in") is None
        assert house.says("(no key): it ")
    served(house, friend)


@pytest.mark.parametrize("house", [links.LIMITS], ids=["a second"], indirect=True)
def test_who_says_nothing_is_hung_up_on(house: House, friend: Guest) -> None:
    """A second, and it is logged with its address."""
    with raw(house) as silent:
        assert len(said_to(silent)) <= 64, "our greeting"
    said = "refused 127.0.0.1 (no key): it hung up, or said nothing for too long, before it showed a key"
    assert house.says("(no key)") == said
    served(house, friend)


def test_a_password_gets_nothing(house: House, friend: Guest) -> None:
    """PLAIN, with whatever name."""
    with Guest(house.keyring.folder.path.parent / "nobody") as nobody:
        nobody.socket.plain_username, nobody.socket.plain_password = b"friend", b"friend"
        nobody.socket.connect(f"tcp://127.0.0.1:{house.port}")
        assert nobody.ask(b"let me in") is None
        assert house.says("(no key): it ")
    served(house, friend)


def test_a_key_that_nobody_trusts_gets_nothing(house: House, friend: Guest, guest: Callable[[str], Guest]) -> None:
    """It is told that it was refused, and the log has its address and its fingerprint."""
    stranger = guest("stranger")
    events = stranger.watch(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
    stranger.connect(house)
    wait_for(events, zmq.EVENT_HANDSHAKE_FAILED_AUTH)
    assert stranger.ask(b"let me in") is None
    assert house.says("refused") == f"refused 127.0.0.1 (key {stranger.key.fingerprint}): the key is unknown here"
    served(house, friend)


def test_a_name_that_is_trusted_does_not_help_another_key(house: House, guest: Callable[[str], Guest]) -> None:
    """It may call itself what it likes."""
    stranger = guest("stranger")
    stranger.socket.setsockopt(zmq.ROUTING_ID, b"friend")
    stranger.connect(house)
    assert stranger.ask(b"let me in") is None and house.heard == []
    assert "the key is unknown here" in house.says(f"(key {stranger.key.fingerprint})")


def test_a_key_that_was_revoked_gets_nothing(house: House, friend: Guest, guest: Callable[[str], Guest]) -> None:
    """The log knows its name."""
    former = guest("former")
    house.trust("former", former.key)
    house.revoke("former")
    former.connect(house)
    assert former.ask(b"let me in") is None
    assert house.says("refused").endswith(f"(key {former.key.fingerprint}): the key of 'former' was revoked")
    served(house, friend)


def test_who_takes_another_for_us_says_nothing(house: House, friend: Guest, guest: Callable[[str], Guest]) -> None:
    """A server that is not the one with that key cannot be talked to, whoever answers at its address."""
    misled = guest("misled")
    house.trust("misled", misled.key)
    misled.connect(house, key=guest("other").key)
    assert misled.ask(b"secret") is None
    assert "does not speak CURVE with the key of this node" in house.says("(no key)")
    served(house, friend)


def test_who_is_revoked_while_it_says_nothing_is_hung_up_on(
    house: House, friend: Guest, guest: Callable[[str], Guest]
) -> None:
    """A subscriber that only listens would hear everything for ever."""
    former = guest("former")
    house.trust("former", former.key)
    events = former.watch(zmq.EVENT_DISCONNECTED)
    former.connect(house)
    assert former.waits(b"hello") == b"hello"
    house.revoke("former")
    wait_for(events, zmq.EVENT_DISCONNECTED)
    former.again()
    former.connect(house)
    assert former.ask(b"again") is None
    assert "was revoked" in house.says("refused")
    assert ("former", b"again") not in house.heard
    served(house, friend)


def test_who_is_revoked_while_it_talks_is_not_heard_any_more(
    house: House, friend: Guest, guest: Callable[[str], Guest]
) -> None:
    """From the next look at the ring on, which is a twentieth of a second, no frame of its is one of anybody's."""
    former = guest("former")
    house.trust("former", former.key)
    former.connect(house)
    former.waits(b"0")
    house.revoke("former")
    assert house.roll is not None
    # Who is answered late has not been refused yet: it may still be heard.
    wait_until(lambda: former.ask(b"more") is None and house.roll is not None and house.roll.cut_count)
    count = len(house.heard)
    assert former.ask(b"still more") is None
    served(house, friend)
    assert len(house.heard) == count + 1


def test_the_next_key_of_a_name_does_not_bring_the_old_one_back(house: House, guest: Callable[[str], Guest]) -> None:
    """A stolen key is revoked, and its host gets another under the same name, all between two looks at the ring."""
    stolen, new = guest("stolen"), guest("new")
    house.trust("berlin", stolen.key)
    events = stolen.watch(zmq.EVENT_DISCONNECTED)
    stolen.connect(house)
    assert stolen.waits(b"x") == b"x"
    with house.keyring.folder.locked():  # no other change between the two
        ring = house.keyring.ring.revoking("berlin")
        text = ring.text.rstrip("\n") + f"\ntrust berlin {new.key}\n"
        house.keyring.folder.write(RING, text)
    wait_for(events, zmq.EVENT_DISCONNECTED)
    new.connect(house)
    assert new.waits(b"y") == b"y"
    assert house.heard == [("berlin", b"x"), ("berlin", b"y")]


def test_a_ring_that_is_spoilt_lets_nobody_new_in_and_nobody_go(
    house: House, friend: Guest, guest: Callable[[str], Guest]
) -> None:
    """Who mistypes a line is told, and has not taken the cluster down."""
    path = house.keyring.folder.path / RING
    other = guest("other")
    house.trust("other", other.key)
    other.connect(house)
    assert other.waits(b"before") == b"before"
    text = path.read_text()
    path.write_text(text + "what is this\n")
    other.again()
    other.connect(house)
    assert other.ask(b"let me in") is None
    assert "no new peers are admitted: " in house.says(f"{path}, line 5: expected 'trust NAME KEY'")
    served(house, friend)
    path.write_text(text)
    other.again()
    other.connect(house)
    assert other.waits(b"now") == b"now"


def test_without_a_gatekeeper_nobody_comes_in(tmp_path: Path, guest: Callable[[str], Guest]) -> None:
    """CURVE alone lets in whoever has any key at all; and one that was stopped must not do so either."""
    friend = guest("friend")
    with House(tmp_path / "house", with_gatekeeper=False) as house:
        house.trust("friend", friend.key)
        events = friend.watch(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        friend.connect(house)
        wait_for(events, zmq.EVENT_DISCONNECTED)
        assert friend.ask(b"let me in") is None


@pytest.mark.parametrize("house", [links.LIMITS], ids=["a second"], indirect=True)
def test_a_gatekeeper_that_was_stopped_lets_nobody_in(
    house: House, friend: Guest, guest: Callable[[str], Guest]
) -> None:
    """It fails closed: who is trusted waits outside until there is one again. Who is in, stays."""
    other = guest("other")
    house.trust("other", other.key)
    house.stop_gatekeeper()
    events = other.watch(zmq.EVENT_DISCONNECTED)
    other.connect(house)
    wait_for(events, zmq.EVENT_DISCONNECTED)
    assert other.ask(b"let me in") is None
    served(house, friend)
    assert [name for name, _ in house.heard if name == "other"] == []


def test_what_was_recorded_cannot_be_played_again(house: House, friend: Guest, guest: Callable[[str], Guest]) -> None:
    """All bytes of a connection that was trusted, handshake and order: the second time they are noise."""
    other, tap = guest("other"), Tap(house)
    house.trust("other", other.key)
    other.connect(house, port=tap.port)
    assert other.waits(b"pay 100") == b"pay 100"
    other.again()
    recorded = tap.join()
    assert len(recorded) > 64 + 200 + 250 and b"pay 100" not in recorded
    for pieces in (1, 7, 64, len(recorded)):
        with raw(house) as replay, suppress(ConnectionError):
            for start in range(0, len(recorded), -(-len(recorded) // pieces)):
                replay.sendall(recorded[start : start + -(-len(recorded) // pieces)])
            said_to(replay)
    # In step, too: each part when the house has answered the part before.
    with raw(house) as replay:
        for part in (recorded[:64], recorded[64 : 64 + 202], recorded[64 + 202 :]):
            replay.sendall(part)
            replay.settimeout(NOTHING_MS / 1e3)
            with suppress(OSError):
                replay.recv(65_536)
        replay.settimeout(LIMIT_S)
        said_to(replay)
    served(house, friend)
    assert [said for _, said in house.heard].count(b"pay 100") == 1


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_hung_up_on_and_gets_no_more_than_a_greeting(house: House, friend: Guest, seed: int) -> None:
    """Random bytes; greetings that are nearly right, of each mechanism; orders that come too early, or are too long."""
    noise = random.Random(seed)
    starts = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10, *(
        GREETING % mechanism.ljust(20, b"\0") for mechanism in (b"CURVE", b"NULL", b"PLAIN", b"GSSAPI", b"\xff" * 20)
    ), GREETING % b"CURVE".ljust(20, b"\0") + b"\x04\xc8\x05HELLO\x01\0"]  # fmt: skip
    for _ in range(40):
        data = noise.choice(starts) + noise.randbytes(noise.randrange(2_000))
        if noise.random() < 0.3:  # a frame that says it has exabytes
            data = noise.choice(starts) + b"\x06" + b"\x7f" * 8
        with raw(house) as connection:
            with suppress(OSError):  # hung up on before it has said all
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            told = said_to(connection)
        assert len(told) <= 64 + 200, "more than a greeting and a welcome"
    served(house, friend)
    assert {name for name, _ in house.heard} == {"friend"}


def test_two_thousand_that_say_nothing_are_hung_up_on_and_nobody_waits_for_them(
    tmp_path: Path, guest: Callable[[str], Guest]
) -> None:
    """Their descriptors come back after the time for a handshake; the good guest is served all the while."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < 2 * HALF_OPEN + 500:
        pytest.skip(f"this test has both ends of {HALF_OPEN} connections: ulimit -n is {limit}")
    with House(tmp_path / "house", links.LinkLimits(handshake_ms=1_000)) as house:
        friend = guest("friend")
        house.trust("friend", friend.key)
        friend.connect(house)
        friend.waits(b"first")
        connections = [raw(house) for _ in range(HALF_OPEN)]
        for connection in connections[::2]:
            connection.sendall((GREETING % b"CURVE".ljust(20, b"\0"))[: random.randrange(64)])
        judge(f"p99 of a round trip beside {HALF_OPEN} half-open connections", round_trips_p99_s(friend, 200), 0.5)
        watch = Stopwatch()
        for connection in connections:
            said_to(connection)
            connection.close()
        judge("until the last of them is hung up on", watch.taken_s, LIMIT_S / 2)
        served(house, friend)
        assert house.gatekeeper is not None
        while house.gatekeeper.refusals.count < HALF_OPEN:  # the limit of the test ends it
            friend.waits(b"x")
        assert house.log.qsize() <= 2, "a line of this address, and one of those not known any more"


def round_trips_p99_s(friend: Guest, count: int) -> float:
    """The 99th percentile of so many round trips."""
    taken_s = []
    for _ in range(count):
        watch = Stopwatch()
        friend.waits(b"x")
        taken_s.append(watch.taken_s)
    return sorted(taken_s)[int(count * 0.99)]
