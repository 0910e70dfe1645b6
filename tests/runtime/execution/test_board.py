"""Board: what one backplane writes, all others read; what a dead one left is cleared."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from appbackplane.runtime.execution.urgency.board import LOAN_NS, SLOTS_MAX, Board, OwnSlot


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board.create(4)
    yield board
    board.close()


def test_the_most_urgent_priority_anywhere_is_seen(board: Board) -> None:
    """DESIGN 7. By one look at the row, whoever wrote it; nothing means no work."""
    slots = [OwnSlot(board, number, 1) for number in range(3)]
    assert board.most_urgent() is None
    slots[0].present(5)
    slots[2].present(0)
    assert board.most_urgent() == 0
    assert slots[1].has_above(3)
    assert not slots[1].has_above(0)
    slots[2].present(None)
    assert board.most_urgent() == 5
    assert not slots[1].has_above(5)
    assert slots[1].has_above(6)


def test_a_slot_is_read_as_it_was_written(board: Board) -> None:
    """The live view shows these."""
    slot = OwnSlot(board, 3, generation=7)
    slot.present(2)
    slot.beat(
        now_ns=11,
        finished=12,
        queued=13,
        waiting=14,
        running_since_ns=15,
        cpu_ns=16,
        throttled=17,
        slow=18,
        boosts=19,
        ready=20,
        progress_ns=21,
        failing=22,
    )
    seen = board.read(3)
    assert (seen.generation, seen.pid, seen.heartbeat_ns, seen.finished_count) == (7, os.getpid(), 11, 12)
    assert (seen.queued_count, seen.waiting_count, seen.running_since_ns, seen.cpu_ns) == (13, 14, 15, 16)
    assert (seen.ready_count, seen.progress_ns, seen.failing_count) == (20, 21, 22)
    assert (seen.throttled_count, seen.slow_count, seen.boosts_count, seen.highest_priority) == (17, 18, 19, 2)


def test_a_loan_holds_for_a_while_and_ends_by_itself(board: Board) -> None:
    """Law 10. It outlives the way of a call; and not its lender, should he die before the call has left."""
    lender, borrower = OwnSlot(board, 0, 1), OwnSlot(board, 1, 1)
    borrower.present(5)
    assert lender.is_busy_below(1, 2)
    assert not lender.is_busy_below(1, 5), "nothing is in the way of equals"
    lender.lend(1, 2, now_ns=10**12)
    assert borrower.borrowed(borrower.lent(), 10**12 + LOAN_NS // 2) == 2
    assert borrower.borrowed(borrower.lent(), 10**12 + LOAN_NS + 2048) is None
    assert borrower.lent() == 0
    borrower.present(None)
    assert not lender.is_busy_below(1, 0), "who is idle hears at once"


def test_what_a_dead_backplane_left_is_cleared(board: Board) -> None:
    """DESIGN 12.9. Or everybody would step aside for ever for work that nobody has."""
    slot = OwnSlot(board, 0, 1)
    slot.present(0)
    board.clear_slot(0)
    assert board.most_urgent() is None
    assert board.read(0).pid == 0


def test_others_see_it_through_the_descriptor(board: Board) -> None:
    """Attached by an inherited descriptor, it is the same page; and nobody can shrink it under the others."""
    other = Board(os.dup(board.fd))
    OwnSlot(board, 1, 1).present(4)
    assert other.most_urgent() == 4
    with pytest.raises(PermissionError):
        os.ftruncate(other.fd, 0)
    other.close()


@pytest.mark.parametrize("slots", [0, SLOTS_MAX + 1])
def test_too_many_backplanes_are_refused(slots: int) -> None:
    """The bound has an answer."""
    with pytest.raises(ValueError, match="a board has 1 to 256 slots"):
        Board.create(slots)
