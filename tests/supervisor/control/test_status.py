"""What is told of a system: three questions, three answers, and none that is guessed."""

from __future__ import annotations

from appbackplane.runtime.execution.board import BoardSlot, OwnSlot
from appbackplane.supervisor.config import RestartPolicy
from appbackplane.supervisor.control.status import SILENT_NS, Gathering, health
from appbackplane.supervisor.direction.child import Child, Phase
from appbackplane.supervisor.processes.board_file import BoardFile

NOW_NS = 100 * SILENT_NS


def slot(*, heartbeat_ns: int = NOW_NS, running_since_ns: int = 0, queued_count: int = 0) -> BoardSlot:
    """What a backplane says of itself."""
    return BoardSlot(1, 1, heartbeat_ns, 0, queued_count, 0, running_since_ns, 0, 0, 0, 0, None)


def living() -> Child:
    """One that is up."""
    child = Child("query", RestartPolicy())
    child.enter(Phase.UP, 0)
    return child


def test_no_answer_means_unknown_and_not_dead() -> None:
    """Whoever takes silence for death restarts what works hard."""
    assert health(living(), None, NOW_NS) == "unknown"
    assert health(living(), slot(heartbeat_ns=0), NOW_NS) == "unknown"
    assert health(living(), slot(heartbeat_ns=NOW_NS - SILENT_NS - 1), NOW_NS) == "unknown"
    assert health(living(), slot(heartbeat_ns=NOW_NS - SILENT_NS), NOW_NS) == "idle"


def test_who_has_left_a_question_unanswered_and_has_not_beaten_since_says_nothing() -> None:
    """A figure that is missing and a health that says "busy" would contradict each other."""
    assert health(living(), slot(heartbeat_ns=NOW_NS - 2, queued_count=1), NOW_NS, NOW_NS - 1) == "unknown"
    assert health(living(), slot(heartbeat_ns=NOW_NS, queued_count=1), NOW_NS, NOW_NS - 1) == "busy"


def test_busy_is_work_that_runs_or_waits() -> None:
    """Each of them alone."""
    assert health(living(), slot(running_since_ns=1), NOW_NS) == "busy"
    assert health(living(), slot(queued_count=1), NOW_NS) == "busy"


def test_dead_is_known_from_the_process_alone() -> None:
    """Whatever its slot still says."""
    child = living()
    child.enter(Phase.FAILED, NOW_NS)
    assert health(child, slot(running_since_ns=1), NOW_NS) == "dead"


def test_a_gathering_is_complete_with_its_last_answer() -> None:
    """One that does not answer counts by its limit, as None."""
    gathering = Gathering({"a", "b"})
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
