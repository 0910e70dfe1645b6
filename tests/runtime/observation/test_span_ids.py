"""Span ids: the traceparents of calls, and which traces are sampled."""

from __future__ import annotations

import pytest

from appbackplane.runtime import Action, AppObject, Outcome
from appbackplane.runtime.observation.span_ids import SpanIds, traceparent_of

SPAN = 5 << 41
CALLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{}"


class Doing(Action):
    """Something that may call."""

    def run(self) -> Outcome:
        return Outcome.DONE


def doing(trace: str | None = None) -> Action:
    action = Doing(AppObject(), "some.thing", 3)
    action.trace = trace
    return action


def test_a_root_begins_a_trace_of_its_own_id() -> None:
    """W3C Trace Context wants 128 bits that are not all zero: the span id with zeros before it."""
    action = doing()
    assert SpanIds(SPAN).context(action) == f"00-{SPAN + 1:032x}-{SPAN + 1:016x}-01"


def test_two_actions_never_share_an_id() -> None:
    """Their calls would have one parent between them."""
    ids, first, second = SpanIds(SPAN), doing(), doing()
    assert ids.of(first) == ids.of(first) != ids.of(second)


@pytest.mark.parametrize(("flags", "is_sampled"), [("00", False), ("01", True), ("03", True), ("02", False)])
def test_a_call_is_sampled_if_its_caller_is(flags: str, is_sampled: bool) -> None:
    """Whatever the ratio here: half a trace is worth little. Bits other than the lowest mean other things."""
    ids = SpanIds(SPAN, 0.0 if is_sampled else 1.0)
    action = doing(CALLED.format(flags))
    assert ids.is_sampled(action) == is_sampled
    assert ids.context(action) == f"00-0af7651916cd43dd8448eb211c80319c-{SPAN + 1:016x}-{flags}"


@pytest.mark.parametrize("sample", [0.0, 0.01, 0.1, 0.5, 0.9, 1.0])
def test_roots_are_sampled_by_ratio(sample: float) -> None:
    """Whatever ids lie between those of two roots. What the context says is what is done."""
    for stride in (1, 2, 34, 233, 1_597):
        said = []
        for number in range(2_000):
            ids = SpanIds(SPAN + 12_345 + number * stride, sample)  # as if the ids between had been given out
            action = doing()
            said.append(ids.context(action).endswith("-01"))
            assert ids.is_sampled(action) == said[-1]
        assert abs(sum(said) - 2_000 * sample) <= 4 * (2_000 * sample * (1 - sample)) ** 0.5


@pytest.mark.parametrize(
    "trace",
    [
        "x" * 60_000,
        "00--0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
    ],
)
def test_what_is_no_traceparent_is_dropped(trace: str) -> None:
    """It would be kept for each span, and passed on; and numbers that are none lose what is sent with them."""
    assert traceparent_of(trace) is None
    assert traceparent_of(CALLED.format("01")) == CALLED.format("01")


def test_a_traceparent_that_is_none_begins_a_trace() -> None:
    """Links have checked it already; what is passed on is valid in any case."""
    assert SpanIds(SPAN).context(doing("rubbish")).startswith("00-0000")
