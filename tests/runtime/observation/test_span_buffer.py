"""The span buffer: bounded, and what finds no room is counted; only our own errors' words are kept."""

from __future__ import annotations

import pytest

from appbackplane.runtime import Action, AppObject, Outcome
from appbackplane.runtime.observation.span_buffer import SPANS_MAX, EndedAction, EndedWait, SpanBuffer
from appbackplane.runtime.observation.span_ids import SpanIds
from appbackplane.transport.errors import Busy, InvalidArgument, Status

UNSAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class Doing(Action):
    """Something that is done."""

    def run(self) -> Outcome:
        return Outcome.DONE


class Told(Exception):
    """An error whose words are computed by a user's code."""

    def __str__(self) -> str:
        raise AssertionError("asked for words, with the lead")


def doing(**fields: object) -> Action:
    action = Doing(AppObject(), "some.thing", 3)
    for name, value in fields.items():
        setattr(action, name, value)
    return action


@pytest.fixture
def woken() -> list[None]:
    return []


@pytest.fixture
def buffer(woken: list[None]) -> SpanBuffer:
    return SpanBuffer(SpanIds(7), lambda: woken.append(None))


def test_an_action_is_kept_with_its_times(buffer: SpanBuffer) -> None:
    """In the thread that exports it, the action itself may be gone, or run again."""
    buffer.record(doing(started_ns=500, queued_ns=200, wait_ns=400, run_ns=90, error=Busy("full")), 900)
    (ended,) = buffer.take(10)
    assert isinstance(ended, EndedAction)
    assert (ended.queued_ns, ended.started_ns, ended.ended_ns, ended.run_ns) == (200, 500, 900, 90)
    assert (ended.outcome, ended.message) == (Status.RESOURCE_EXHAUSTED, "full")


def test_a_refused_action_was_in_the_queue_alone(buffer: SpanBuffer) -> None:
    """It has never begun: a span that began at 0 would be fifty years long."""
    buffer.record(doing(wait_ns=300), 1_000)
    (ended,) = buffer.take(10)
    assert isinstance(ended, EndedAction)
    assert (ended.queued_ns, ended.started_ns, ended.ended_ns) == (700, 1_000, 1_000)


def test_what_is_not_sampled_costs_no_room(buffer: SpanBuffer) -> None:
    """Or the buffer would be full of what nobody wants."""
    action = doing(trace=UNSAMPLED)
    buffer.record(action, 900)
    buffer.waited(action, "some.call", None, 100, 200)
    assert (buffer.take(10), buffer.lost_count) == ([], 0)


def test_own_operations_of_a_backplane_have_no_spans(buffer: SpanBuffer) -> None:
    """Or a collector would show little else: statistics are asked for every second."""
    action = doing()
    action.name = "backplane.main.statistics"
    buffer.record(action, 900)
    assert buffer.take(10) == []


def test_foreign_errors_are_named_and_not_asked(buffer: SpanBuffer) -> None:
    """`str()` runs a user's code, which may take long, or take the lead."""
    buffer.record(doing(error=Told()), 900)
    (ended,) = buffer.take(10)
    assert isinstance(ended, EndedAction)
    assert (ended.outcome, ended.message) == (Status.INTERNAL, "Told")


class Odd(InvalidArgument):
    """An error of ours whose fields are a user's code."""

    @property
    def message(self) -> str:  # type: ignore[override]
        raise KeyError("message")

    @message.setter
    def message(self, said: str) -> None:
        """Forget it."""


@pytest.mark.parametrize(
    ("error", "length"),
    [(Odd("x"), None), (InvalidArgument("x" * 100_000), 400), (InvalidArgument("b\udcff.txt"), 400)],
)
def test_words_of_errors_are_bounded_and_can_be_sent(buffer: SpanBuffer, error: Exception, length: int | None) -> None:
    """A megabyte for each of 8,192 spans is the machine; a file name that is no Unicode would lose all that is sent with it."""
    buffer.record(doing(error=error), 900)
    buffer.waited(doing(), "some.call", error, 100, 200)  # type: ignore[arg-type]
    for ended in buffer.take(10):
        assert len(ended.message.encode()) < (length or 100)


def test_what_is_lost_is_counted_in_spans(buffer: SpanBuffer) -> None:
    """As what is exported: an action that ran has a queue and a run."""
    for _ in range(SPANS_MAX):
        buffer.record(doing(), 900)
    buffer.record(doing(run_ns=5), 900)
    buffer.waited(doing(), "some.call", None, 100, 200)
    assert (buffer.lost_count, buffer.spans_count()) == (4, 2 * SPANS_MAX)


def test_a_wait_is_kept_with_what_it_was_for(buffer: SpanBuffer) -> None:
    """It belongs to the run of its action."""
    action = doing()
    buffer.waited(action, "some.call", Busy("no"), 100, 200)
    buffer.record(action, 900)
    wait, whole = buffer.take(10)
    assert isinstance(wait, EndedWait) and isinstance(whole, EndedAction)
    assert (wait.what, wait.started_ns, wait.ended_ns, wait.message) == ("some.call", 100, 200, "no")
    assert wait.span == whole.span


def test_beyond_the_bound_spans_are_lost_and_counted(buffer: SpanBuffer, woken: list[None]) -> None:
    """The exporter is slow or dead: memory stays, and nobody waits. It is woken once, when there is half of the room."""
    for _ in range(SPANS_MAX + 5):
        buffer.record(doing(), 900)
    assert (buffer.lost_count, len(woken)) == (10, 1)
    assert len(buffer.take(SPANS_MAX * 2)) == SPANS_MAX
    buffer.record(doing(), 900)
    assert (len(buffer.take(5)), buffer.lost_count) == (1, 10)
