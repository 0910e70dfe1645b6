"""Slow actions: what is logged of them."""

from __future__ import annotations

import inspect

from appbackplane.runtime.observation.rate_limit import REPORT_INTERVAL_NS
from appbackplane.runtime.observation.slow_actions import FRAMES_MAX, SlowActions, stack_of

MS = 1_000_000


def test_one_an_operation_and_interval_is_reported() -> None:
    """Law 11 and DESIGN 12.10. A system in trouble must not be drowned by its own reports."""
    slow = SlowActions(50 * MS)
    first = slow.report("index.scan", "bp/index", 80 * MS, 0, None, is_running=False)
    assert first is not None
    assert first.left_out == 0
    assert slow.report("index.scan", "bp/index", 90 * MS, 1, None, is_running=False) is None
    assert slow.report("index.other", "bp/index", 90 * MS, 1, None, is_running=False) is not None
    again = slow.report("index.scan", "bp/index", 70 * MS, REPORT_INTERVAL_NS, None, is_running=False)
    assert again is not None
    assert again.left_out == 1


def test_the_sentence_names_the_culprit() -> None:
    """Operation, object, how long, how often: what the reader does next depends on each."""
    slow = SlowActions(50 * MS)
    running = slow.report("index.scan", "bp/index.3", 80 * MS, 0, None, is_running=True)
    assert running is not None
    assert running.sentence() == "slow action: index.scan on bp/index.3 has been running for 80.0 ms"
    ended = running._replace(is_running=False, left_out=3, stack="  line 5")
    assert ended.sentence() == (
        "slow action: index.scan on bp/index.3 ran 80.0 ms (3 more since the last report)\n  line 5"
    )


def test_the_stack_is_that_of_the_frame_innermost_last_and_bounded() -> None:
    """Law 11. A stack taken elsewhere shows the worker loop; this one shows the culprit."""

    def ping(depth: int) -> str:
        return pong(depth - 1) if depth else stack_of(inspect.currentframe())

    def pong(depth: int) -> str:
        return ping(depth)

    stack = ping(3 * FRAMES_MAX)
    assert stack.count("in ping") + stack.count("in pong") == FRAMES_MAX
    assert stack.endswith("stack_of(inspect.currentframe())")
    assert stack_of(None) == ""


def test_the_frames_of_the_worker_are_cut() -> None:
    """They are the same in every report, and with deep code they would take the room of those that matter."""
    source = "def run(body):\n    return body()\n"
    worker: dict[str, object] = {}
    exec(compile(source, "/somewhere/runtime/execution/method_action.py", "exec"), worker)
    run = worker["run"]
    assert callable(run)
    stack = run(lambda: stack_of(inspect.currentframe()))
    assert stack.count("File ") == 1
    assert "in <lambda>" in stack
