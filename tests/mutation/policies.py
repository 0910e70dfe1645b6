"""Policies: the latency contract of a backplane, and the locks of a component."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        "policies",
        "runtime/execution/loop/late_actions.py",
        ("tests/runtime/execution/test_late_actions.py",),
        ("what goes on is late again", "        if action.started_ns:\n            return\n", ""),
        (
            "the companions of a batch do not count",
            "if isinstance(action, BatchAction):",
            "if False and isinstance(action, BatchAction):",
        ),
        ("the time allowed is too long", "now_ns) > self.limit_ns)", "now_ns) >= self.limit_ns)"),
        ("time in the socket does not count", " - action.posted_ns + action.wait_ns", " - action.posted_ns"),
        ("reports are as rare as those of other problems", "RateLimit(REPORT_INTERVAL_NS)", "RateLimit()"),
        ("an action of the same object is a stranger", "if last.object is action.object:", "if False:"),
        ("any action before it took all the time", "if 2 * last.run_ns >= waited_ns:", "if True:"),
        ("any renewed budget is the cause", "scheduler.renewed_ns > now_ns - waited_ns", "scheduler.renewed_ns"),
    ),
    *mutations(
        "policies",
        "runtime/scheduling/scheduler.py",
        ("tests/runtime/execution/test_late_actions.py",),
        (
            "any tick renews the budget",
            "            if self.budget.is_spent:\n                self.renewed_ns",
            "            if True:\n                self.renewed_ns",
        ),
    ),
    *mutations(
        "policies",
        "runtime/execution/workers/component_lock.py",
        ("tests/runtime/execution/test_component_lock.py",),
        ("exactly the limit is too long", "held_ns > self._limit_ns", "held_ns >= self._limit_ns"),
        ("an action waits for itself", "if holder is not None and holder is action:", "if False:"),
        ("all long holds are reported", "left_out = self._reported.admit(self.name, now_ns)", "left_out = 0"),
        ("two locks have one name", "if name in component._locks:", "if False:"),
    ),
)
