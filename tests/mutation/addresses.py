"""Addresses: which object a call reaches, what the end of one means for others, and whom a monitor tells what."""

from __future__ import annotations

from tests.mutation.mutation import Mutation

SPAWNED = "runtime/objects/spawned.py"
SPAWNING = "runtime/execution/services/spawning.py"
MONITORS = "runtime/execution/services/monitors.py"
WATCHING = "runtime/execution/services/watching.py"
TESTS = (
    "tests/runtime/execution/test_spawning.py", "tests/runtime/execution/test_monitors.py",
    "tests/transport/test_address.py",
)  # fmt: skip


def address(breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to reach the wrong object, or to tell the wrong thing."""
    return Mutation("addresses", file, text, replacement, breaks, TESTS)


MUTATIONS = (
    address("a number is given twice", SPAWNED, "self.last = number = self.last + 1", "number = len(table) + 1"),
    address(
        "an address of another process reaches an object of this one",
        SPAWNED,
        "if not key.startswith(self._key) or not number.isdecimal():",
        'number = key.rpartition(".")[2]\n        if not number.isdecimal():',
    ),
    address("a table that is late is a death", MONITORS, "if is_elsewhere or not tries_left:", "if True:"),
    address("there is no bound", SPAWNED, "if len(table) >= limit:", "if len(table) > 10**9:"),
    address("what never existed has ended", SPAWNED, "not 0 < int(number) <= self.last", "not 0 < int(number)"),
    address(
        "a class with timers is spawned", SPAWNED, 'if spec.mark.kind != "operation":', 'if spec.mark.kind == "topic":'
    ),
    address(
        "an address of another system is of this one",
        "transport/resolver.py",
        'self._own = f"{directory.home}',
        'self._own = f"bank',
    ),
    address(
        "a key may look like an address",
        "runtime/objects/registry.py",
        "if key is not None and is_address_key(key):",
        "if False:",
    ),
    address("queued calls wait for ever", SPAWNING, "if not (here.has_begun or here.continues):", "if here.has_begun:"),
    address("deferred calls wait for ever", SPAWNING, "waiting += object._deferred", "pass"),
    address(
        "the end is told while it still runs",
        SPAWNING,
        "        if not object._load:\n            self._gone",
        "        if True:\n            self._gone",
    ),
    address("an object that awaits is never gone", SPAWNING, "begun += engine.inheritance.awaiting(object)", "pass"),
    address("its monitors stay", SPAWNING, "        self._monitors.owner_ended(object)\n", ""),
    address(
        "timers outlive their object",
        "runtime/execution/loop/engine.py",
        "if timer.object._component is None:  #",
        "if timer.object is None:  #",
    ),
    address(
        "a monitor tells twice",
        MONITORS,
        "        if not watch.is_over:\n            self._forget(watch)",
        "        if True:\n            self._forget(watch)",
    ),
    address(
        "a cancelled monitor keeps its place",
        MONITORS,
        "        watch.dropped()\n",
        "",
    ),
    address(
        "the call of a cancelled monitor goes on",
        MONITORS,
        "                if action.is_awaiting:\n                    self._engine",
        "                if False:\n                    self._engine",
    ),
    address(
        "a death is unreachable",
        MONITORS,
        "KILLED if is_down else UNREACHABLE",
        "UNREACHABLE",
    ),
    address(
        "a deadline is an end",
        MONITORS,
        "except DeadlineExceeded:\n                continue",
        "except KeyError:\n                continue",
    ),
    address(
        "a restart is no end",
        MONITORS,
        "elif not place.is_up or place.generation != watch.generation:",
        "elif place.generation != watch.generation:",
    ),
    address(
        "who is asked by a node asks another",
        MONITORS,
        "                if of_ours:",
        "                if of_ours and False:",
    ),
    address(
        "there is no bound of those elsewhere", MONITORS, "if self._elsewhere_count >= ELSEWHERE_MAX:", "if False:"
    ),
    address(
        "places elsewhere are never free again",
        MONITORS,
        "            self._elsewhere_count -= 1\n",
        "            pass\n",
    ),
    address(
        "who waits no more stays",
        WATCHING,
        "        super().refuse(error)\n        self._leave()\n",
        "        super().refuse(error)\n",
    ),
    address(
        "who waits cannot be cancelled",
        WATCHING,
        "        return False\n\n    def run",
        "        return self.continues or self._watch is not None\n\n    def run",
    ),
    address(
        "the end of the process tells nobody",
        "runtime/backplane_operations.py",
        "            self._monitors.stop()\n",
        "            pass\n",
    ),
)
