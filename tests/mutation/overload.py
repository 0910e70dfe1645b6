"""Overload: which requests are admitted where more are offered than can be served."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

LIMIT = "runtime/scheduling/adaptive_limit.py"
CONTROL = "runtime/execution/intake/overload_control.py"
THROTTLE = "transport/caller_throttle.py"
CORE = "transport/caller_core.py"
SESSION = "transport/session.py"
OUTGOING = "runtime/execution/outgoing/outgoing_calls.py"
TESTS = (
    "tests/runtime/scheduling/test_adaptive_limit.py", "tests/runtime/execution/test_overload_control.py",
)  # fmt: skip

CALLERS_TESTS = (
    "tests/transport/test_caller_throttle.py", "tests/transport/test_refused_here.py",
    "tests/runtime/execution/test_calls_refused_here.py", "tests/runtime/execution/test_overload_control.py",
)  # fmt: skip


def overload(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to refuse the wrong requests, or none."""
    return Mutation("overload", file, text, replacement, breaks, TESTS)


def caller(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way in which callers refuse the wrong calls, or none, or for ever."""
    return Mutation("overload", file, text, replacement, breaks, CALLERS_TESTS)


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
    caller("callers refuse nothing", THROTTLE, "now_ns - gate.sent_ns < PROBE_NS", "now_ns < gate.sent_ns"),
    caller("no call leaves to ask", THROTTLE, " and now_ns - gate.sent_ns < PROBE_NS", ""),
    caller(
        "callers refuse urgent calls",
        THROTTLE,
        "if not EXEMPT < asked < PRIORITIES_MAX:",
        "if not EXEMPT <= asked < PRIORITIES_MAX:",
    ),
    caller("less urgent calls pass", THROTTLE, "if urgent < priority and other.share", "if urgent < 0 and other.share"),
    caller(
        "nothing is sent beyond the accepted",
        THROTTLE,
        "accepted + beyond_per_s * interval_ns",
        "accepted + 0 * interval_ns",
    ),
    caller(
        "long calls count as refused",
        THROTTLE,
        "accepted = max(self.answered, self.sent - self.refused)",
        "accepted = self.answered",
    ),
    caller(
        "late refusals count twice",
        THROTTLE,
        "accepted = max(self.answered, self.sent - self.refused)",
        "accepted = self.sent - self.refused",
    ),
    caller(
        "callers refuse for ever", THROTTLE, "return now_ns - self.refused_ns >= INTERVAL_MAX_NS", "return now_ns < 0"
    ),
    caller(
        "a dead service is still spared",
        THROTTLE,
        "for at in [at for at in self._callees if at[0] == peer]:",
        "for at in []:",
    ),
    caller(
        "the table grows without end",
        THROTTLE,
        "if len(self._callees) >= CALLEES_MAX and",
        "if len(self._callees) < 0 and",
    ),
    caller(
        "casts count as accepted",
        THROTTLE,
        "        if self._random() < share:\n",
        "        gate.asked += 1\n        if self._random() < share:\n",
    ),
    caller("a full component counts as overloaded", CORE, "elif not self._is_pulled(spec):", "elif True:"),
    caller(
        "retries of refused calls are free",
        CORE,
        "self.open_later(refusal, token, now_ns, spec, is_sent=True)",
        "self.open_later(refusal, token, now_ns, spec)",
    ),
    caller(
        "a reply that there is is refused",
        CORE,
        "if self.throttle.is_used and is_order and",
        "if self.throttle.is_used and",
    ),
    caller(
        "casts pass",
        SESSION,
        "if refusal is not None:\n            raise refusal",
        "if refusal is None:\n            pass",
    ),
    caller(
        "a submitted call raises at once",
        SESSION,
        "if refusal.overloaded_at is None:\n                raise",
        "if True:\n                raise",
    ),
    caller("an idle service is not sent more", THROTTLE, "if self.idle > IDLE_MAX:", "if self.idle < 0:"),
    caller("the margin never falls", THROTTLE, "max(MARGIN, MARGIN_DECAY * self.margin)", "self.margin"),
    caller(
        "no refusal tells of idle time",
        "transport/codec.py",
        "idle = fields[4] if type(fields[4]) is int else 0",
        "idle = 0",
    ),
    overload("idle time is not known", LIMIT, "self.idle += (max(", "self.idle += 0 * (max("),
    caller(
        "objects spare a dead service",
        OUTGOING,
        "        self.throttle.lost(peer)\n        return peer",
        "        return peer",
    ),
    caller(
        "retries of objects are free",
        OUTGOING,
        "is_sent=is_placed or error.overloaded_at is not None",
        "is_sent=is_placed",
    ),
    caller(
        "casts of objects pass",
        OUTGOING,
        "if refusal is not None:\n                    raise refusal",
        "if refusal is None:\n                    pass",
    ),
    caller(
        "a status of begun work tells of overload",
        "transport/envelope.py",
        "(error.overloaded_at, error.idle) if is_refused else (None, 0)",
        "(error.overloaded_at, error.idle)",
    ),
    caller(
        "late refusals are no refusals",
        "runtime/execution/actions/completion.py",
        "error.overloaded_at, error.idle = action.priority_asked, limit",
        "error.overloaded_at, error.idle = None, limit",
    ),
    caller(
        "early refusals are no refusals",
        CONTROL,
        "error.overloaded_at, error.idle = priority",
        "error.overloaded_at, error.idle = None",
    ),
)
