"""Batching: which requests go together, and what each gets; users' own actions that await; objects that serve several."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

BATCHING = "runtime/execution/loop/batching.py"
ACTION = "runtime/execution/actions/batch_action.py"
DECLARED = "runtime/objects/batch.py"
OWN = "runtime/execution/actions/coroutine_action.py"
HOST = "runtime/execution/services/host.py"
TWINS, SHARED = "runtime/objects/twins.py", "runtime/execution/actions/shared_queues.py"
APP_OBJECT = "runtime/objects/app_object.py"
TESTS = (
    "tests/runtime/execution/test_batching.py", "tests/runtime/execution/test_coroutine_action.py",
    "tests/runtime/objects/test_twins.py",
)  # fmt: skip


def batch(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to serve the wrong requests together."""
    return Mutation("batching", file, text, replacement, breaks, TESTS)


MUTATIONS = (
    batch("no bound", BATCHING, "if len(found) + 1 == action.requests_max:", "if len(found) + 1 > 9_999:"),
    batch("another operation is passed", BATCHING, " or here.name != action.name", ""),
    batch("late ones are served", BATCHING, " or is_late:", ":"),
    batch("it never waits", BATCHING, "if not is_complete and wait_ns > 0:", "if wait_ns > 10**12:"),
    batch("it waits for ever", BATCHING, "age_ns = now_ns - action.arrived_ns", "age_ns = 0"),
    batch(
        "a full batch waits",
        BATCHING,
        "                return found, True\n            is_late",
        "                return found, False\n            is_late",
    ),
    batch(
        "other work waits, too",
        BATCHING,
        "                return found, True\n            found.append",
        "                return found, False\n            found.append",
    ),
    batch("they stay in the queue", BATCHING, "self._scheduler.withdraw(each)", "each.priority"),
    batch(
        "urgent ones run at the first one's priority",
        BATCHING,
        "min(action.priority, each.priority)",
        "action.priority",
    ),
    batch(
        "the companions are not answered",
        BATCHING,
        "if each.peer is not None or each.error is not None:",
        "if each.error is not None:",
    ),
    batch("the companions are not booked", BATCHING, "            self._completion.book(each, now_ns)\n", ""),
    batch("their time is not counted", BATCHING, "each.run_ns, each.cpu_ns = run_ns", "each.run_ns, each.cpu_ns = 0"),
    batch("a cancelled one takes the others along", BATCHING, "if action.thrown is None:", "if True:"),
    batch("an exit answers nobody", ACTION, "except BaseException as error:", "except Exception as error:"),
    batch(
        "an error among the results is a result", ACTION, "if isinstance(result, BaseException):", "if result is self:"
    ),
    batch("too few results", DECLARED, "if len(returned) != count:", "if len(returned) > count:"),
    batch(
        "a text is a list of results",
        DECLARED,
        "if not isinstance(returned, (list, tuple)):",
        "if not hasattr(returned, '__len__'):",
    ),
    batch("an error of one is its result", DECLARED, "if isinstance(result, BaseException):", "if result is function:"),
    batch("an own action is posted twice", HOST, "known.posted_ns = 1  #", "known.posted_ns = 0  #"),
    batch(
        "an own action is posted once only",
        OWN,
        "        if outcome is DONE:\n            self.own.posted_ns = 0",
        "        if outcome is DONE:\n            self.own.posted_ns += 0",
    ),
    batch("an own action that never began keeps what it holds", OWN, "        self.own.refuse(error)\n", ""),
    batch(
        "any outcome is an answer", OWN, "if self.error is None and self.result is not DONE:", "if self.error is self:"
    ),
    batch("the answer is the outcome", OWN, "            self.result = self.own.result\n", ""),
    batch("a device is told nothing", OWN, "            self.own.error = self.error\n", ""),
    batch("there is no bound of twins", TWINS, "if len(twins) >= object.concurrency:", "if len(twins) > 99:"),
    batch("each twin has its own attributes", TWINS, "vars(twins[0])", "dict(vars(twins[0]))"),
    batch("twins are seen", APP_OBJECT, "if each._twins is None or each._twins[0] is each)", ")"),
    batch("state machines have twins", TWINS, "if isinstance(object, StateMachine):", "if object.concurrency < 0:"),
    batch("slots have twins", TWINS, "    if own:\n", "    if not own and count < 0:\n"),
    batch("an idle queue stays idle", SHARED, "if idle._state != IDLE or", "if idle._state == IDLE or"),
    batch(
        "what has begun is taken over",
        SHARED,
        "while action is not None and action.continues:",
        "while action is None:",
    ),
    batch("the wait before counts for nothing", SHARED, "    action.wait_ns += now_ns - action.posted_ns\n", ""),
    batch(
        "the cancelled first takes the others along unserved",
        ACTION,
        "if not self.companions:",
        "if self.thrown is not None or not self.companions:",
    ),
    batch("companions are told that they never began", ACTION, "return self.is_companion", "return False"),
    batch(
        "an exactly full batch waits",
        BATCHING,
        "return found, len(found) + 1 == action.requests_max",
        "return found, False",
    ),
    batch(
        "a near deadline passes in the wait",
        BATCHING,
        "wait_ns = min(wait_ns, one.deadline_ns - now_ns - DEADLINE_ROOM_NS)",
        "wait_ns += 0",
    ),
    batch(
        "a new near deadline passes in the wait",
        BATCHING,
        "each.deadline_ns is not None and each.deadline_ns - DEADLINE_ROOM_NS < ends_ns",
        "False",
    ),
    batch(
        "ordinary requests pass one that awaits",
        BATCHING,
        "_waits > action.is_awaiting:",
        "_waits > 99:",
    ),
    batch(
        "timers wait behind one queue",
        "runtime/execution/loop/engine.py",
        "object = self.registry.queue_of(timer.object)",
        "object = timer.object",
    ),
)
