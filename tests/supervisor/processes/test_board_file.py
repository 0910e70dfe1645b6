"""Who sits where on the board, while backplanes come and go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appbackplane.runtime.execution.urgency.board import SLOTS_MAX, Board, OwnSlot
from appbackplane.supervisor.processes.board_file import BoardFile


@pytest.fixture
def board() -> Iterator[BoardFile]:
    """The board of two backplanes."""
    board = BoardFile(["index", "query"])
    yield board
    board.close()


def test_a_slot_is_given_again_once_its_owner_has_gone(board: BoardFile) -> None:
    """A system whose backplanes come and go would have used up its board in an afternoon."""
    for _ in range(2 * SLOTS_MAX):
        board.add("more")
        assert board.slots == {"index": 0, "query": 1, "more": 2}
        board.remove("more")
    board.remove("index")
    board.add("more")
    assert board.slots == {"query": 1, "more": 0}


def test_who_comes_later_is_seen(board: BoardFile) -> None:
    """The page has room for all that there may ever be, whoever has it mapped."""
    for number in range(2, SLOTS_MAX):
        board.add(f"more-{number}")
    slot = board.slots[f"more-{SLOTS_MAX - 1}"]
    OwnSlot(Board(board.fd), slot, 7).present(3)
    told = board.read(f"more-{SLOTS_MAX - 1}")
    assert told is not None
    assert (told.generation, told.highest_priority) == (7, 3)
    board.clear(f"more-{SLOTS_MAX - 1}")
    assert board.read(f"more-{SLOTS_MAX - 1}") is None


def test_a_full_board_takes_nobody(board: BoardFile) -> None:
    """Two in one slot would each be taken for the other."""
    for number in range(2, SLOTS_MAX):
        board.add(f"more-{number}")
    with pytest.raises(ValueError, match="empty"):
        board.add("one too many")
