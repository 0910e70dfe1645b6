"""Outbox: one frame a peer at the end of a turn, in order, bounded, and nothing dropped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.transport import batching
from appbackplane.transport.batching import (
    BATCH_BYTES_MAX,
    BATCH_MAX,
    PEER_BYTES_MAX,
    RESERVE_BYTES,
    Outbox,
    SendResult,
)
from appbackplane.transport.codec import Encoder, batch, decode
from appbackplane.transport.envelope import reply

encoder = Encoder()


def packed(id: int, size: int = 0) -> bytes:
    """A reply of about so many bytes."""
    return encoder.encode(reply(id, b"x" * size))


class Wire:
    """Takes frames as long as it is told to."""

    def __init__(self) -> None:
        self.frames: list[tuple[bytes, list[int]]] = []
        self.bytes: list[int] = []
        self.answers: dict[bytes, list[SendResult]] = {}

    def send(self, peer: bytes, frame: bytes) -> SendResult:
        """As a link does."""
        answers = self.answers.get(peer)
        sent = answers.pop(0) if answers else SendResult.SENT
        if sent is SendResult.SENT:
            self.frames.append((peer, [envelope.id for envelope in decode(frame)]))
            self.bytes.append(len(frame))
        return sent


def test_all_for_one_peer_leaves_as_one_frame() -> None:
    """DESIGN 5. Coalescing is where throughput comes from: five times as many calls a second."""
    outbox, wire = Outbox(), Wire()
    for id in range(3):
        assert outbox.add(b"a", packed(id))
    outbox.add(b"b", packed(9))
    assert outbox.flush(wire.send) == []
    assert wire.frames == [(b"a", [0, 1, 2]), (b"b", [9])]
    assert not outbox


def test_those_who_do_not_read_are_offered_nothing_when_told_so() -> None:
    """One frozen peer with a full queue made every answer to every other one take ten times as long."""
    outbox, wire = Outbox(), Wire()
    wire.answers[b"frozen"] = [SendResult.FULL]
    outbox.add(b"frozen", packed(1))
    outbox.flush(wire.send)
    outbox.add(b"frozen", packed(2))
    outbox.add(b"a", packed(3))
    outbox.flush(wire.send, with_stalled=False)
    assert wire.frames == [(b"a", [3])]
    assert outbox.stalled == {b"frozen"}
    outbox.flush(wire.send)
    assert wire.frames[1:] == [(b"frozen", [1, 2])]
    assert not outbox and not outbox.stalled


def test_a_frame_is_cut_at_its_bounds() -> None:
    """A frame without end would delay its peer, and beyond its limit it would be refused whole."""
    outbox, wire = Outbox(), Wire()
    for id in range(BATCH_MAX + 1):
        outbox.add(b"a", packed(id))
    outbox.flush(wire.send)
    assert [len(ids) for _, ids in wire.frames] == [BATCH_MAX, 1]
    wire = Wire()
    for id, size in enumerate([BATCH_BYTES_MAX // 2, BATCH_BYTES_MAX // 2, 3 * BATCH_BYTES_MAX, 1]):
        outbox.add(b"a", packed(id, size))
    outbox.flush(wire.send)
    assert wire.frames == [(b"a", [0]), (b"a", [1]), (b"a", [2]), (b"a", [3])]


def test_a_peer_that_does_not_read_keeps_its_order_and_holds_up_nobody_else() -> None:
    """Backpressure is a peer's own: the others' frames leave."""
    outbox, wire = Outbox(), Wire()
    wire.answers[b"slow"] = [SendResult.FULL]
    outbox.add(b"slow", packed(1))
    outbox.add(b"quick", packed(2))
    assert outbox.flush(wire.send) == []
    assert wire.frames == [(b"quick", [2])]
    assert outbox.stalled == {b"slow"} and outbox
    outbox.add(b"slow", packed(3))
    outbox.flush(wire.send)
    assert wire.frames[1:] == [(b"slow", [1, 3])]
    assert not outbox.stalled


def test_what_waits_for_one_peer_is_bounded_and_the_adder_is_told() -> None:
    """A peer that is frozen for an hour must not cost us our memory."""
    outbox = Outbox()
    large = packed(1, 1 << 20)
    count = 0
    while outbox.add(b"a", large):
        count += 1
        assert count * len(large) <= PEER_BYTES_MAX + len(large)
    assert count == PEER_BYTES_MAX // len(large)
    assert outbox.add(b"b", large), "another peer has room of its own"


def test_above_the_bound_there_is_room_for_words_and_that_is_bounded_too() -> None:
    """Who is told that his answer did not fit does not wait for it; who never reads may not grow for that either."""
    outbox = Outbox()
    large, word = packed(1, 1 << 20), packed(2, 200)
    while outbox.add(b"a", large):
        pass
    while outbox.add(b"a", word):
        pass
    count = 0
    while outbox.add_instead(b"a", word):
        count += 1
    assert abs(count * len(word) - RESERVE_BYTES) <= 2 * len(word)
    assert outbox.add_instead(b"b", word), "where there is room it is an envelope like any other"


def test_an_unreachable_peer_is_reported_once_and_forgotten() -> None:
    """Its calls are failed by whoever hears of it; kept envelopes would be reported for ever."""
    outbox, wire = Outbox(), Wire()
    wire.answers[b"gone"] = [SendResult.UNREACHABLE]
    outbox.add(b"gone", packed(1))
    assert outbox.flush(wire.send) == [b"gone"]
    assert outbox.flush(wire.send) == [] and not outbox


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from([0, 10, 400_000])), max_size=30),
    st.lists(st.sampled_from([SendResult.SENT, SendResult.FULL]), max_size=30),
)
def test_whatever_stalls_everything_arrives_once_and_in_order(
    posts: list[tuple[bytes, int]], answers: list[SendResult]
) -> None:
    """The rule of the file, against a wire that is full at the worst moments."""
    outbox, wire = Outbox(), Wire()
    wire.answers = {b"a": list(answers), b"b": list(reversed(answers))}
    expected: dict[bytes, list[int]] = {}
    for id, (peer, size) in enumerate(posts):
        assert outbox.add(peer, packed(id, size))
        expected.setdefault(peer, []).append(id)
        if id % 3 == 0:
            outbox.flush(wire.send)
    for _ in range(len(answers) + 1):
        outbox.flush(wire.send)
    arrived: dict[bytes, list[int]] = {}
    for peer, ids in wire.frames:
        arrived.setdefault(peer, []).extend(ids)
    assert arrived == expected
    assert not outbox and all(size <= BATCH_BYTES_MAX + 500_000 for size in wire.bytes)
    assert batching.BATCH_BYTES_MAX < PEER_BYTES_MAX


def test_what_has_left_makes_room_and_what_has_not_takes_it() -> None:
    """A peer would be refused for ever for what it has read long ago."""
    outbox, wire, size = Outbox(), Wire(), BATCH_BYTES_MAX // 2 + 1
    for id in range(3):
        assert outbox.add(b"p", packed(id, size))
    wire.answers[b"p"] = [SendResult.SENT, SendResult.FULL]
    outbox.flush(wire.send)
    assert outbox.room(b"p") == PEER_BYTES_MAX - len(packed(1, size)) - len(packed(2, size))
    outbox.flush(wire.send)
    assert outbox.room(b"p") == PEER_BYTES_MAX
    assert [ids for _, ids in wire.frames] == [[0], [1], [2]]


def test_what_waits_for_the_dead_is_let_go() -> None:
    """32 MiB for each of them, and nobody will ever read it."""
    outbox, wire = Outbox(), Wire()
    outbox.add(b"p", packed(1, 100))
    wire.answers[b"p"] = [SendResult.FULL]
    outbox.flush(wire.send)
    outbox.forget(b"p")
    assert not outbox and not outbox.stalled
    assert outbox.room(b"p") == PEER_BYTES_MAX


def test_a_frame_at_which_a_signal_strikes_is_offered_again_before_all_others() -> None:
    """The same object: only the link knows how much of it has left. Whatever was put meanwhile comes behind it."""
    outbox, offered = Outbox(), list[tuple[bytes, bytes]]()

    def send(peer: bytes, frame: bytes) -> SendResult:
        offered.append((peer, frame))
        if len(offered) == 2:
            raise KeyboardInterrupt
        return SendResult.FULL if len(offered) == 1 else SendResult.SENT

    outbox.add(b"slow", packed(1))
    outbox.add(b"cut", packed(2))
    with pytest.raises(KeyboardInterrupt):
        outbox.flush(send)
    outbox.add(b"cut", packed(3))
    outbox.flush(send)
    assert [peer for peer, _ in offered] == [b"slow", b"cut", b"cut", b"cut", b"slow"]
    assert offered[2][1] is offered[1][1] and offered[3][1] == batch([packed(3)])
    assert not outbox and outbox.room(b"cut") == PEER_BYTES_MAX
