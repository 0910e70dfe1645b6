"""Answers: none is lost without a word, however little its reader reads; and no memory grows."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.runtime.peers.answers import MESSAGE_MAX, Answers, Packed
from appbackplane.runtime.peers.breaks import ADDRESSES_MAX, HEARD_NS, Breaks
from appbackplane.transport import codec
from appbackplane.transport.batching import RESERVE_BYTES, Outbox, SendResult
from appbackplane.transport.envelope import REPLY, STATUS, Envelope, status
from appbackplane.transport.errors import Status, Unavailable

A = "tcp://a"
#: Eight of these leave no room for a ninth, nor for much else.
LARGE = bytes((4 << 20) - 64)


class Wires:
    """Stands for the lines: real queues, and a peer that reads when it is told to."""

    def __init__(self) -> None:
        self.outboxes = Outbox(), Outbox()
        self.standing = {A}
        self.given_up: list[str] = []

    def say(self, address: str, packed: bytes, *, is_bulk: bool = False) -> bool:
        """As lines do."""
        return address in self.standing and self.outboxes[is_bulk].add(address.encode(), packed)

    def say_instead(self, address: str, packed: bytes, *, is_bulk: bool) -> bool:
        """As lines do."""
        return self.outboxes[is_bulk].add_instead(address.encode(), packed)

    def stands(self, address: str) -> bool:
        """As lines do."""
        return address in self.standing

    def give_up(self, address: str, because: str) -> None:
        """As lines do."""
        self.given_up.append(address)
        self.standing.discard(address)
        for outbox in self.outboxes:
            outbox.forget(address.encode())

    def read(self) -> list[Envelope]:
        """All that waits, urgent first."""
        envelopes: list[Envelope] = []

        def take(_peer: bytes, frame: bytes) -> SendResult:
            envelopes.extend(codec.decode(frame))
            return SendResult.SENT

        for outbox in self.outboxes:
            outbox.flush(take)
        return envelopes


class Around:
    """A node that is asked by `a`."""

    def __init__(self) -> None:
        self.wires, self.breaks = Wires(), Breaks()
        self.delivered: Packed = []
        self.answers = Answers(
            {"a": A}.get, self.wires, self.breaks, deliver=self.delivered.extend, say_to_client=lambda *_: False
        )

    def fill(self, *, is_bulk: bool = False) -> int:
        """Answer until there is no room; how many answers had some."""
        id = 0
        while not self.answers.unsaid_count:
            id += 1
            self.answers.to_node("a", Envelope(REPLY, id, body=LARGE), is_bulk)
        return id - 1


@pytest.fixture
def around() -> Around:
    """With a line that stands."""
    return Around()


def ends(envelopes: list[Envelope]) -> dict[int, Any]:
    """By number: the status of what did not fit, and of the others how large they are."""
    return {each.id: Status(each.body[0]) if each.kind == STATUS else len(each.body) for each in envelopes}


@pytest.mark.parametrize("is_bulk", [False, True])
def test_an_answer_for_a_full_line_ends_its_call_all_the_same(around: Around, is_bulk: bool) -> None:
    """Its caller would wait to his deadline for what is known to be lost. It has run: nothing says that it has not."""
    count = around.fill(is_bulk=is_bulk)
    said = around.wires.read()
    assert ends(said) == dict.fromkeys(range(1, count + 1), len(LARGE)) | {count + 1: Status.RESOURCE_EXHAUSTED}
    assert not said[-1].is_refused
    assert around.wires.given_up == []


def test_of_a_status_for_a_full_line_the_essence_is_said(around: Around) -> None:
    """What it ended in, when to come again, and that it has not begun; not a page of traceback."""
    count = around.fill()
    error = Unavailable("x" * 5_000, retry_after=1.5)
    error.trace = "y" * 60_000
    around.answers.to_node("a", status(count + 9, error, is_refused=True), False)
    last = around.wires.read()[-1]
    assert (last.id, last.is_refused, last.body[0], last.body[2:]) == (count + 9, True, Status.UNAVAILABLE, [1.5, None])
    assert len(last.body[1]) < MESSAGE_MAX + 40


def test_who_does_not_even_read_words_is_hung_up_on_and_told_when_he_is_back(around: Around) -> None:
    """Memory is bounded, by bytes; and what is lost with the line is known to be lost at both ends."""
    around.breaks.stands(A)
    count = around.fill()
    for id in range(RESERVE_BYTES):
        if around.wires.given_up:
            break
        around.answers.to_node("a", Envelope(REPLY, count + id, body=bytes(1 << 10)), False)
    assert around.wires.given_up == [A]
    assert 4_096 < id < RESERVE_BYTES // 64
    assert around.wires.read() == []
    assert around.breaks.broke(A), "as its endpoint says of what its lines have lost"
    assert around.breaks.stands(A), "BROKEN goes first"


def test_an_answer_that_finds_no_line_is_owed(around: Around) -> None:
    """It was asked on a line of the other's. When this node's own stands, for the first time perhaps, that is said on it."""
    around.wires.standing.clear()
    around.answers.to_node("a", Envelope(REPLY, 1, body="lost"), False)
    assert around.breaks.stands(A)
    assert not Breaks().stands(A), "where nothing was lost there is nothing to say"


def test_processes_of_this_system_are_answered_at_the_end_of_the_turn(around: Around) -> None:
    """With the number of the call beside it, for who finds that it does not fit."""
    around.answers.to_process(b"client/1", Envelope(REPLY, 7, body="one"))
    around.answers.to_process(b"client/1", Envelope(REPLY, 8, body=2))
    assert around.delivered == []
    around.answers.deliver()
    around.answers.deliver()
    assert [(peer, id, codec.decode(codec.batch([packed]))[0].body) for peer, id, packed in around.delivered] == [
        (b"client/1", 7, "one"),
        (b"client/1", 8, 2),
    ]


@pytest.mark.parametrize(
    ("envelope", "is_refused"),
    [
        (Envelope(REPLY, 7, body=2**64), False),
        (Envelope(STATUS, 7, body=[2**64, "", None, None]), False),
        (Envelope(STATUS, 7, body=[14, "", 2**64, None]), False),
        (Envelope(STATUS, 7, is_refused=True, body=[14, "x" * codec.ENVELOPE_BYTES_MAX, None, None]), True),
    ],
    ids=["a reply", "the number of a status", "its retry_after", "its length"],
)
def test_of_an_answer_that_cannot_be_packed_its_caller_hears(
    around: Around, envelope: Envelope, is_refused: bool
) -> None:
    """It is on no books any more: he would wait to his deadline. Whether the work has begun is said all the same."""
    around.answers.to_process(b"client/1", envelope)
    around.answers.deliver()
    around.answers.to_node("a", envelope, False)
    (there,) = around.wires.read()
    ((_, _, packed),) = around.delivered
    (here,) = codec.decode(codec.batch([packed]))
    for each in (here, there):
        assert (each.kind, each.id, each.is_refused, each.body[0]) == (STATUS, 7, is_refused, Status.INVALID_ARGUMENT)


def test_a_peer_that_cries_wolf_is_heard_now_and_then() -> None:
    """Each word looks through all calls outstanding: a hostile one could say it a hundred thousand times a second."""
    breaks = Breaks()
    acted = [ns for ns in range(0, 10 * HEARD_NS, HEARD_NS // 100) if breaks.heard("a", ns) or breaks.due(ns)]
    assert len(acted) == 10
    assert breaks.heard("b", 0), "each by itself"
    assert breaks.due(11 * HEARD_NS) == ["a"], "and its last word is not lost"
    assert breaks.due(12 * HEARD_NS) == []


def test_so_many_addresses_are_remembered() -> None:
    """Nodes come and go, for years."""
    breaks = Breaks()
    for number in range(2 * ADDRESSES_MAX):
        breaks.owe(f"tcp://{number}")
    assert len(breaks._stands) == ADDRESSES_MAX
    assert breaks.stands(f"tcp://{2 * ADDRESSES_MAX - 1}")
