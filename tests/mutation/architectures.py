"""Architectures: actors, objects that interleave their requests, priorities that share the time, the link beneath a flood."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

SHARES = "runtime/scheduling/time_shares.py"
SCHEDULER = "runtime/scheduling/scheduler.py"
QUEUE = "runtime/scheduling/interleaving.py"
INHERITANCE = "runtime/execution/actions/inheritance.py"
REPLIES = "runtime/execution/workers/replies.py"
ACTORS = "runtime/objects/actor_table.py"
LINK = "transport/link.py"
TIME = ("tests/runtime/scheduling/test_time_shares.py",)
INTERLEAVED = ("tests/runtime/objects/test_interleaved.py", "tests/runtime/scheduling/test_scheduler_model.py")


def shares(breaks: str, text: str, replacement: str) -> Mutation:
    """One way to give a priority another part of the time."""
    return Mutation("architectures", SHARES, text, replacement, breaks, TIME)


def interleaving(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to lose the order of an object that interleaves, or to serve it like any other."""
    return Mutation("architectures", file, text, replacement, breaks, INTERLEAVED)


def actors(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to sort requests into the wrong queue."""
    return Mutation("architectures", file, text, replacement, breaks, ("tests/runtime/objects/test_actors.py",))


def link(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to read no further from a peer."""
    tests = ("tests/transport/test_link.py", "tests/transport/test_session.py")
    return Mutation("architectures", file, text, replacement, breaks, tests)


MUTATIONS = (
    shares("a debt is forgiven with each round", "min(full, self.left[priority] + rounds * full)", "full"),
    shares(
        "time that was not used is saved up",
        "min(full, self.left[priority] + rounds * full)",
        "self.left[priority] + full",
    ),
    shares("too few rounds begin", "// self.full[priority] + 1 for", "// self.full[priority] for"),
    shares("each of several is charged all", "passed_ns // len(self._running)", "passed_ns"),
    shares(
        "idle time is charged",
        "passed_ns, self._charged_ns = now_ns - self._charged_ns, now_ns",
        "passed_ns = now_ns - self._charged_ns",
    ),
    shares("who has no share never runs", "return self.ready.take(self._everything, end)", "return None"),
    shares("nobody is ever starving", "if now_ns >= self._starvation.look_ns else None", "if False else None"),
    shares(
        "to be served does not end starving",
        "        self._starvation.served_ns[priority] = now_ns\n        object._state",
        "        object._state",
    ),
    shares(
        "to have no work counts as starving",
        "            if not depth:\n                served_ns[priority] = now_ns",
        "            pass",
    ),
    shares("the running action is not counted", "enumerate(waiting, start=2)", "enumerate(waiting, start=0)"),
    shares("no run is kept in reserve", "enumerate(waiting, start=2)", "enumerate(waiting, start=1)"),
    shares("those due before it are not counted", "- runs * run_ns", "- 2 * run_ns"),
    shares("a long run is forgotten at once", "max(self._longest_ns, self._longest_before_ns)", "self._longest_ns"),
    shares(
        "a long run is remembered for ever", "self._longest_ns, 0, now_ns", "self._longest_ns, self._longest_ns, now_ns"
    ),
    shares("long actions make all starve", ", self._run_ns_max)", ", self._bound_ns)"),
    shares("shares above 100 % are taken", "if sum(shares) != 100:", "if sum(shares) < 100:"),
    shares(
        "what is set aside is not charged",
        "        self._ends(action, now_ns)\n        super().set_aside",
        "        self._running.pop(id(action.object))\n        super().set_aside",
    ),
    interleaving(
        "its requests wait for its replies",
        SCHEDULER,
        "not object._waits or object._tails is not None):",
        "not object._waits):",
    ),
    interleaving(
        "a request finds it waiting, and stays",
        SCHEDULER,
        "elif state == WAITING and object._tails is not None:",
        "elif False:",
    ),
    interleaving(
        "those that go on come last",
        QUEUE,
        "LEVELS * action.priority + (not action.continues)",
        "LEVELS * action.priority + 1",
    ),
    interleaving(
        "the end of a level is lost",
        QUEUE,
        "before if before is not None and _level_of(before) == level else None",
        "None",
    ),
    interleaving(
        "its priority stays that of who has left",
        QUEUE,
        "    if object._head is not None:\n        object._priority",
        "    if False:\n        object._priority",
    ),
    interleaving(
        "one that waits inherits from who passes it",
        INHERITANCE,
        "() if waiting is None or object._tails is not None",
        "() if waiting is None",
    ),
    interleaving(
        "a call that comes back is refused",
        "runtime/execution/intake/intake.py",
        "return object._tails is not None or (object._twins",
        "return (object._twins",
    ),
    interleaving("an id is kept for ever", REPLIES, "            del self._expected[id]", "            pass"),
    interleaving("a late reply is taken for one in time", REPLIES, "if not expected.event.is_set:", "if False:"),
    interleaving(
        "the second reply replaces the first",
        REPLIES,
        "if expected is None or expected.event.is_set:",
        "if expected is None:",
    ),
    actors(
        "a range begins one priority too late", ACTORS, "if first <= priority)", "if first < priority or not first)"
    ),
    actors(
        "a range swallows those below it", ACTORS, "isinstance(name, int)), reverse=True)", "isinstance(name, int)))"
    ),
    actors("an actor has one worker", ACTORS, "self.concurrency = workers", "self.concurrency = 1"),
    actors("an unknown category has no error of its own", ACTORS, "if found is None:", "if False:"),
    actors(
        "another operation's actor serves it",
        "runtime/execution/intake/intake.py",
        "if spec is None or (route.actors is not None and not route.actors.has(object)):",
        "if spec is None:",
    ),
    actors(
        "each operation has actors of its own",
        "runtime/objects/registry.py",
        "            table = tables.get(declared)\n            if table is None:",
        "            table = None\n            if table is None:",
    ),
    actors(
        "the priority of the operation sorts, whatever the caller asks for",
        "runtime/execution/intake/intake.py",
        "route.actors.choose(name, arguments, priority)",
        "route.actors.choose(name, arguments, spec.priority)",
    ),
    link(
        "the bound of who connects changes",
        LINK,
        "        if not self._bound:\n            self._socket.setsockopt",
        "        if True:\n            self._socket.setsockopt",
    ),
    link("answers are not read ahead", LINK, "        self._socket.setsockopt(zmq.RCVHWM, ANSWERS_READ_AHEAD)\n", ""),
    link("topics do not keep the bound", "transport/session.py", "        self._connections.expect_others()\n", ""),
    link(
        "streams do not keep the bound",
        "transport/caller_core.py",
        "            self.connections.expect_others()\n",
        "            pass\n",
    ),
)
