"""Slow actions: what is logged of them."""

from __future__ import annotations

import inspect

from appbackplane.runtime.observation.rate_limit import REPORT_INTERVAL_NS
from appbackplane.runtime.observation.slow_actions import FRAMES_MAX, SlowActions, as_text, frames_of

MS = 1_000_000


def stack_here() -> str:
    """The stack of the caller, as a report shows it."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return as_text(frames_of(frame.f_back))


def test_one_an_operation_and_interval_is_reported() -> None:
    """Law 11 and DESIGN 12.10. A system in trouble must not be drowned by its own reports."""
    slow = SlowActions(50 * MS)
    first = slow.report("index.scan", "bp/index", 80 * MS, 0, None, is_running=False)
    assert first is not None
    assert "more" not in first
    assert slow.report("index.scan", "bp/index", 90 * MS, 1, None, is_running=False) is None
    assert slow.report("index.other", "bp/index", 90 * MS, 1, None, is_running=False) is not None
    again = slow.report("index.scan", "bp/index", 70 * MS, REPORT_INTERVAL_NS, None, is_running=False)
    assert again is not None
    assert "(1 more since the last report)" in again


def test_the_sentence_names_the_culprit() -> None:
    """Operation, object, how long, how often: what the reader does next depends on each."""
    slow = SlowActions(50 * MS)
    running = slow.report("index.scan", "bp/index.3", 80 * MS, 0, None, is_running=True)
    assert running == "slow action: index.scan on bp/index.3 has been running for 80.0 ms"
    for _ in range(3):
        assert slow.report("index.scan", "bp/index.3", 80 * MS, 1, None, is_running=True) is None
    frame = inspect.currentframe()
    ended = slow.report("index.scan", "bp/index.3", 80 * MS, REPORT_INTERVAL_NS, frame, is_running=False)
    assert ended is not None
    said, _, stack = ended.partition("\n")
    assert said == "slow action: index.scan on bp/index.3 ran 80.0 ms (3 more since the last report)"
    assert "in test_the_sentence_names_the_culprit" in stack


def test_the_stack_is_that_of_the_frame_innermost_last_and_bounded() -> None:
    """Law 11. A stack taken elsewhere shows the worker loop; this one shows the culprit."""

    def ping(depth: int) -> str:
        return pong(depth - 1) if depth else stack_here()

    def pong(depth: int) -> str:
        return ping(depth)

    stack = ping(3 * FRAMES_MAX)
    assert stack.count("in ping") + stack.count("in pong") == FRAMES_MAX
    assert stack.endswith("stack_here()")


def test_the_frames_of_the_worker_are_cut() -> None:
    """They are the same in every report, and with deep code they would take the room of those that matter."""
    source = "def run(body):\n    return body()\n"
    worker: dict[str, object] = {}
    exec(compile(source, "/somewhere/runtime/execution/actions/method_action.py", "exec"), worker)
    run = worker["run"]
    assert callable(run)
    stack = run(lambda: stack_here())
    assert stack.count("File ") == 1
    assert "in <lambda>" in stack
