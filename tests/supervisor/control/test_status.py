"""What is told of a system: what was gathered, and no slot of the dead."""

from __future__ import annotations

from appbackplane.runtime.execution.urgency.board import OwnSlot
from appbackplane.supervisor.control.status import StatisticsGathering
from appbackplane.supervisor.processes.board_file import BoardFile


def test_a_gathering_is_complete_with_its_last_answer() -> None:
    """One that does not answer counts by its limit, as None."""
    gathering = StatisticsGathering({"a", "b"})
    assert not gathering.take("a", {"x": 1})
    assert gathering.take("b", None)
    assert gathering.answers == {"a": {"x": 1}, "b": None}


def test_the_slot_of_the_dead_is_cleared() -> None:
    """Its "urgent work is present" would make every other backplane hurry for ever."""
    board = BoardFile(["query", "index"])
    OwnSlot(board._board, board.slots["index"], generation=1).present(0)
    assert board._board.most_urgent() == 0
    assert board.read("index") is not None
    assert board.read("query") is None
    board.clear("index")
    assert board.read("index") is None
    assert board._board.most_urgent() is None
    board.close()
