"""Overload: which requests are admitted where more are offered than can be served."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

LIMIT = "runtime/scheduling/adaptive_limit.py"
CONTROL = "runtime/execution/intake/overload_control.py"
TESTS = (
    "tests/runtime/scheduling/test_adaptive_limit.py", "tests/runtime/execution/test_overload_control.py",
)  # fmt: skip


def overload(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to refuse the wrong requests, or none."""
    return Mutation("overload", file, text, replacement, breaks, TESTS)


MUTATIONS = (
    overload("urgent ones are refused at once", LIMIT, "if priority <= EXEMPT or not", "if not"),
    overload("urgent ones are refused late", LIMIT, "and action.priority > EXEMPT and now_ns", "and now_ns"),
    overload(
        "nothing is refused early", LIMIT, "self._ahead(priority) < self.room(priority)", "self._ahead(priority) >= 0"
    ),
    overload("nothing is ever late", LIMIT, "> self.aim_ns\n", "> 1_000 * self.aim_ns\n"),
    overload("time in the socket is forgotten", LIMIT, " + action.wait_ns > self.aim_ns", " > self.aim_ns"),
    overload("more urgent ones are counted on", LIMIT, "rate -= self._arriving[urgent]", "rate -= 0"),
    overload("the less urgent stand in the way", LIMIT, "in range(priority + 1):", "in range(8):"),
    overload(
        "the estimate never falls", LIMIT, "if self._late > LATE_MAX * self._ended:", "if not self.rate and self._late:"
    ),
    overload("the estimate never grows", LIMIT, "self.rate * GROWTH if self._early else self.rate", "self.rate"),
    overload(
        "the estimate grows for nothing",
        LIMIT,
        "self.rate * GROWTH if self._early else self.rate",
        "self.rate * GROWTH",
    ),
    overload(
        "idle time counts as service", LIMIT, "self._busy_ns += now_ns - self._busy_since_ns\n            for", "for"
    ),
    overload(
        "a late one is refused twice",
        LIMIT,
        "                queue.popleft()  # it has begun",
        "                break  # it",
    ),
    overload(
        "the refused count as served", LIMIT, "if action.started_ns:\n            self._ended += 1", "self._ended += 1"
    ),
    overload("an end is not counted", LIMIT, "self.queued[action.priority_asked] -= 1", "self._total -= 0"),
    overload(
        "calls from within are refused", CONTROL, "if self.shared is None or peer is LOCAL:", "if self.shared is None:"
    ),
    overload("the backplane's limit rules all", CONTROL, "limit = self.limits.get(route)\n", "limit = self.shared\n"),
    overload(
        "an aim below the run time is not reported",
        CONTROL,
        "if account.typical_ns > limit.aim_ns:",
        "if account.typical_ns < 0:",
    ),
)
