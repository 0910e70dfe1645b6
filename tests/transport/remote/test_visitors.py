"""Visitors: what waits for the clients of one key is bounded for all of them together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appbackplane.transport.batching import PEER_BYTES_MAX
from appbackplane.transport.remote.visitors import KEY_BYTES_MAX, UNCOUNTED_BYTES, Visitors, _Visitor
from appbackplane.transport.security.keyring import Keyring
from appbackplane.transport.security.keys import PublicKey
from appbackplane.transport.security.ring import Holder
from appbackplane.transport.security.roll import CONNECTIONS_OF_KEY_MAX

ONE, OTHER = Holder("k", PublicKey(b"k" * 32)), Holder("o", PublicKey(b"o" * 32))
PIECE = bytes(1 << 20)


def name(number: int) -> str:
    """Of a connection."""
    return f"client/{number:032x}"


def gone(visitors: Visitors) -> list[str]:
    """Those that were hung up on, without a look at sockets that are not there."""
    return [id.decode() for id in visitors._gone]


@pytest.fixture
def visitors(tmp_path: Path) -> Visitors:
    """Eight connections of one key, and one of another, of which none reads; without sockets."""
    door: Any = SimpleNamespace(setsockopt=lambda *_: None)
    visitors = Visitors(door, Keyring(tmp_path))
    for number in range(9):
        visitors._visitors[name(number).encode()] = _Visitor(ONE if number < 8 else OTHER, -1, ("", number))
    return visitors


def test_the_clients_of_a_key_share_what_may_wait_and_the_slowest_goes(visitors: Visitors) -> None:
    """64 of them could have 2 GiB: each was below its own bound."""
    for _ in range(20):
        assert visitors.say(name(0), PIECE)
    waiting = 20
    while waiting < KEY_BYTES_MAX >> 20:
        assert visitors.say(name(1 + waiting % 7), PIECE)
        waiting += 1
    assert gone(visitors) == []
    assert visitors.say(name(1), PIECE), "it is not the slowest"
    assert gone(visitors) == [name(0)]
    assert visitors.say(name(8), PIECE) and len(visitors) == 8, "another key's is not concerned"


def test_the_slowest_itself_is_told_that_it_is_gone(visitors: Visitors) -> None:
    """What is said to it is not kept."""
    for _ in range(20):
        for number in range(3):
            assert visitors.say(name(number), PIECE)
    for _ in range(4):
        assert visitors.say(name(0), PIECE)
    assert not visitors.say(name(0), PIECE)
    assert gone(visitors) == [name(0)]


def test_topics_leave_the_answers_of_all_clients_of_the_key_their_half(visitors: Visitors) -> None:
    """A message is lost where an answer may not be."""
    half = KEY_BYTES_MAX // 2 // len(PIECE)
    for number in range(half):
        assert visitors.tell(name(number % 8), PIECE)
    assert visitors.tell(name(0), PIECE), "there is room for one more"
    assert not visitors.tell(name(1), PIECE)
    assert visitors.tell(name(8), PIECE) and visitors.say(name(1), PIECE)


def test_what_is_not_counted_is_below_the_bound() -> None:
    """Of as many connections as a key may have."""
    assert CONNECTIONS_OF_KEY_MAX * UNCOUNTED_BYTES < KEY_BYTES_MAX
    assert PEER_BYTES_MAX < KEY_BYTES_MAX
