"""Spans: which are kept, whose children they are, and what is counted as lost."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

IDS = "runtime/observation/span_ids.py"
BUFFER = "runtime/observation/span_buffer.py"
TESTS = tuple(f"tests/runtime/observation/test_{name}.py" for name in ("recorder", "span_buffer", "span_ids"))


def span(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to lose, or to invent, a span."""
    return Mutation("spans", file, text, replacement, breaks, TESTS)


MUTATIONS = (
    span("each call has another parent", IDS, "if action.span == 0:", "if action.span >= 0:"),
    span("flags are read as a number", IDS, 'in "13579bdf"', 'in "123456789abcdef"'),
    span(
        "callers are not followed",
        IDS,
        "if trace is not None and len(trace) == TRACEPARENT_LENGTH:\n            return",
        "if trace is None:\n            return",
    ),
    span("roots are sampled in runs", IDS, "(mixed ^ (mixed >> 16)) < self", "(id & _BITS) < self"),
    span("all roots are sampled", IDS, "(mixed ^ (mixed >> 16)) < self._sampled_below", "mixed >= 0"),
    span("a root says that it is sampled", IDS, "-0{int(self.is_sampled(action))}", "-01"),
    span(
        "a call becomes a root", IDS, 'return f"{trace[:36]}{span}{trace[52:]}"', 'return f"00-{span:0>32}-{span}-01"'
    ),
    span(
        "unsampled actions are kept",
        BUFFER,
        "if self._ids.is_sampled(action) and not action.name.startswith(OWN)",
        "if not action.name.startswith(OWN)",
    ),
    span(
        "own operations are kept",
        BUFFER,
        " and not action.name.startswith(OWN)",
        "",
    ),
    span(
        "unsampled waits are kept",
        BUFFER,
        "if self._ids.is_sampled(action):\n            self._put(EndedWait",
        "if True:\n            self._put(EndedWait",
    ),
    span("a refused action began in 1970", BUFFER, "if not self.started_ns:", "if self.started_ns < 0:"),
    span("no bound", BUFFER, "if count < SPANS_MAX:", "if count >= 0:"),
    span("lost ones are not counted", BUFFER, "self.lost_count += ended.spans_count", "self.lost_count += 0"),
    span("the exporter is woken by each", BUFFER, "if count == SPANS_MAX // 2:", "if count >= SPANS_MAX // 2:"),
    span(
        "a user's code gives the words",
        BUFFER,
        "text_of(sound(error).message, MESSAGE_MAX) if isinstance(error, BackplaneError) else type(error).__name__",
        "str(error)",
    ),
)
