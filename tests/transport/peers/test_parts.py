"""Parts: what is cut up comes together again, by key and line; and whoever sends nonsense gets nothing kept for it."""

from __future__ import annotations

import random

import pytest

from appbackplane.transport.codec import FRAME_BYTES_MAX
from appbackplane.transport.peers.parts import HEAD_BYTES, LINES_MAX, Joining, Took, part
from tests.sizes import reachable_bytes

KEY, OTHER = b"k" * 32, b"o" * 32


def cut(frame: bytes, size: int, line: int) -> list[bytes]:
    pieces = [frame[at : at + size] for at in range(0, len(frame), size)]
    return [
        part(line, piece, is_last=number == len(pieces) - 1, is_to_tell=False) for number, piece in enumerate(pieces)
    ]


def test_frames_of_several_lines_come_together_each_by_itself() -> None:
    """As they come in turns at one door."""
    chance, joining = random.Random(1), Joining()
    frames = {(key, line): chance.randbytes(1_000 * line) for key in (KEY, OTHER) for line in (1, 2)}
    queues = {whose: cut(frame, 300, whose[1]) for whose, frame in frames.items()}
    came = {}
    while any(queues.values()):
        whose = chance.choice([each for each, queue in queues.items() if queue])
        whole = joining.take(whose[0], queues[whose].pop(0))
        if whole is not None:
            came[whose] = whole
    assert came == frames
    assert not joining.owed and not joining.malformed_count


def test_a_frame_without_a_head_is_one_as_it_is() -> None:
    """Of a node that cuts nothing up."""
    assert Joining().take(KEY, b"\x91\x01") == b"\x91\x01"


def test_who_asks_is_told_the_bytes_of_his_line_so_far() -> None:
    """As often as he asks, the latest; and again, when what was told may be lost."""
    joining = Joining()
    assert joining.take(KEY, part(7, b"", is_last=False, is_to_tell=True)) is None
    assert joining.owed == {(KEY, 7): HEAD_BYTES}
    assert joining.take(KEY, part(7, b"abc", is_last=True, is_to_tell=True)) == b"abc"
    assert joining.owed == {(KEY, 7): 2 * HEAD_BYTES + 3}
    joining.owed.clear()
    joining.tell_again(KEY)
    joining.tell_again(OTHER)
    assert joining.owed == {(KEY, 7): 2 * HEAD_BYTES + 3}
    assert joining.take(KEY, Took(5, 123).packed()) == Took(5, 123)


def test_a_frame_that_is_too_long_is_let_go_and_the_next_one_comes() -> None:
    """16 MiB and no more, in whatever parts."""
    joining, piece = Joining(), bytes(1 << 20)
    for _ in range(FRAME_BYTES_MAX // len(piece) + 3):
        assert joining.take(KEY, part(1, piece, is_last=False, is_to_tell=False)) is None
    assert joining.take(KEY, part(1, b"the end", is_last=True, is_to_tell=False)) is None
    assert joining.malformed_count == 1
    assert joining.take(KEY, part(1, b"next", is_last=True, is_to_tell=False)) == b"next"


def test_what_is_kept_of_one_key_is_bounded() -> None:
    """Lines that are begun and never go on; parts of nothing; parts of a byte."""
    joining = Joining()
    for line in range(1_000):
        joining.take(KEY, part(line, b"x", is_last=False, is_to_tell=True))
    assert len(joining.owed) == LINES_MAX
    for _ in range(100_000):
        joining.take(KEY, part(1, b"", is_last=False, is_to_tell=False))
        joining.take(KEY, part(1, b"x", is_last=False, is_to_tell=False))
    assert 100_000 < reachable_bytes(joining) < 1 << 20
    joining.take(OTHER, part(1, b"x", is_last=False, is_to_tell=True))
    joining.keep(lambda key: key == OTHER)
    assert joining.owed.keys() == {(OTHER, 1)}


def test_a_line_that_speaks_is_kept_however_many_others_do() -> None:
    """Or what it is told would be too little for ever, and the sender's window shut."""
    joining = Joining()
    piece = part(0, b"x", is_last=True, is_to_tell=True)
    for line in range(1, 20):
        joining.take(KEY, piece)
        joining.take(KEY, part(line, b"x", is_last=True, is_to_tell=False))
    assert joining.owed == {(KEY, 0): 19 * len(piece)}


@pytest.mark.parametrize(
    "frame", [b"\xc1", b"\xc1\x00\x00", b"\xc1\xff" + bytes(8), b"\xc1\x04" + bytes(8), b"\xc1\x04" + bytes(17)]
)
def test_what_makes_no_sense_is_counted(frame: bytes) -> None:
    """And changes nothing."""
    joining = Joining()
    assert joining.take(KEY, frame) is None
    assert joining.malformed_count == 1 and not joining.owed
