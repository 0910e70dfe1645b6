"""Batching: which requests go together, and what each of them gets; and users' own actions that await."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

BATCHING = "runtime/execution/loop/batching.py"
ACTION = "runtime/execution/actions/batch_action.py"
DECLARED = "runtime/objects/batch.py"
OWN = "runtime/execution/actions/coroutine_action.py"
TESTS = tuple(f"tests/runtime/execution/test_{name}.py" for name in ("batching", "coroutine_action"))


def batch(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to serve the wrong requests together."""
    return Mutation("batching", file, text, replacement, breaks, TESTS)


MUTATIONS = (
    batch("no bound", BATCHING, "if len(found) + 1 == action.requests_max:", "if len(found) + 1 > 9_999:"),
    batch("another operation is passed", BATCHING, " or here.name != action.name", ""),
    batch("late ones are served", BATCHING, " or is_late:", ":"),
    batch("it never waits", BATCHING, "age_ns < action.wait_max_ns:", "age_ns < 0:"),
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
    batch("an own action is posted twice", OWN, "own.posted_ns = 1  #", "own.posted_ns = 0  #"),
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
    batch("a device is told nothing", OWN, "    own.error = action.error\n", ""),
)
