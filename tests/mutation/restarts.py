"""Restart rules: who starts again after a death or by order, when, with whom, and who is taken for stuck."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "restarts"
RULES = "supervisor/direction"
TESTS = "tests/supervisor/direction"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        f"{RULES}/restart.py",
        (f"{TESTS}/test_restart.py",),
        (
            "a restart at the very end of the period is forgotten",
            "at_ns >= now_ns - policy.within_ns",
            "at_ns > now_ns - policy.within_ns",
        ),
        ("there is one restart more than max", "if len(recent) >= policy.max:", "if len(recent) > policy.max:"),
        (
            "who was healthy waits as if he had not been",
            "in_a_row = 0 if up_ns >= policy.healthy_after_ns else self.in_a_row",
            "in_a_row = self.in_a_row",
        ),
        (
            "waits have no bound",
            "min(policy.backoff_max_ns, policy.backoff_ns << min(in_a_row - 1, _DOUBLINGS_MAX))",
            "policy.backoff_ns << min(in_a_row - 1, _DOUBLINGS_MAX)",
        ),
        ("chance shortens a wait to nothing", "random() * (wait_ns // 2)", "random() * wait_ns"),
        (
            "a transient one that ended well is started again",
            'policy.type == "transient" and not is_normal',
            'policy.type == "transient"',
        ),
        (
            "the hook of a temporary one is tried again",
            '    if policy.type == "temporary":\n        return history, LeaveEnded("it is temporary, so its hook is not tried',
            '    if False:\n        return history, LeaveEnded("it is temporary, so its hook is not tried',
        ),
        (
            "only those that depend on it directly start again",
            "reached(dependants[backplane], dependants.__getitem__)",
            "dependants[backplane]",
        ),
        ("one_for_all leaves the others alone", "return set(dependants) - {backplane}", "return set()"),
    ),
    *mutations(
        AREA,
        f"{RULES}/group_restart.py",
        (f"{TESTS}/test_group_restart.py",),
        (
            "a temporary one that went along is started again",
            'elif child.settings.policy.type == "temporary" and not child.departure.is_ordered:',
            "elif False:",
        ),
        (
            "a transient one that had ended stays away when its group starts again",
            'elif other.process.phase is Phase.ENDED and other.settings.policy.type == "transient":',
            "elif False:",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/group_restart.py",
        (f"{TESTS}/test_ordered_restart.py",),
        (
            "a new process meets one of the old",
            "name in children and children[name].departure.is_leaving for name",
            "False for name",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/ordered_restart.py",
        (f"{TESTS}/test_ordered_restart.py",),
        ("who waits for a restart waits beyond his limit", "if order.ends_ns <= now_ns:", "if False:"),
        (
            "one that was given up is started with its old history",
            "        child.forget_restarts()\n",
            "",
        ),
        (
            "ordered to restart at once, it is drained",
            "if is_now or one.process.phase is Phase.STARTING:",
            "if one.process.phase is Phase.STARTING:",
        ),
        ("orders have no bound", "if len(self.orders) >= ORDERS_MAX:", "if False:"),
        (
            "a temporary one that is ordered to restart stays away",
            "    child.departure.order()\n",
            "",
        ),
        (
            "an order goes on although one is not well again",
            "        elif child.process.phase in GONE:\n",
            "        elif False:\n",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/rolling.py",
        (f"{TESTS}/test_rolling.py",),
        (
            "the next one goes before the last has stayed up",
            "return Wait(settled_ns) if now_ns < settled_ns else None",
            "return None",
        ),
        (
            "two replicas are away at the same time",
            "Begin(child.name) if all(other.is_in_service for other in others) else Wait()",
            "Begin(child.name)",
        ),
        (
            "the last one that answers goes",
            "        if not others:\n            return RollingStop(",
            "        if False:\n            return RollingStop(",
        ),
        (
            "a new process that dies does not stop it",
            "if child.process.phase in GONE or tries > 1 or not child.process.is_living:",
            "if child.process.phase in GONE:",
        ),
        (
            "those that are missing come last",
            "next((name for name in left if not self._children[name].is_in_service), left[0])",
            "left[0]",
        ),
        (
            "two orders take replicas of one family",
            "return not self._families().isdisjoint(other._families())",
            "return False",
        ),
        (
            "a hook that fails in the new process does not stop it",
            "        for component, failure in child.components.failures.items():",
            "        for component, failure in ():",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/health.py",
        (f"{TESTS}/test_health.py",),
        (
            "a supervisor that was stopped finds everybody overdue",
            "self.silent_ns + min(passed_ns, passed_ns_max)",
            "self.silent_ns + passed_ns",
        ),
        ("silences add up", "        self.silent_ns = 0\n        if slot", "        if slot"),
        ("one that a debugger has released is killed", "0 if sight.is_traced else self", "self"),
        ("one that a debugger holds is killed", " or sight.is_traced:", ":"),
        ("one that has nothing to do is stuck", "elif slot.ready_count:", "else:"),
        (
            "who is starting is judged",
            " or not is_judging or _is_excused(child):\n                self._clocks",
            " or not is_judging:\n                self._clocks",
        ),
        (
            "a new generation inherits the clocks of the old",
            "clocks is None or clocks.generation != child.process.generation or",
            "clocks is None or",
        ),
        (
            "who is kept at its CPU limit is replaced",
            "return min(self.stalled_ns, self.used_ns)",
            "return self.stalled_ns",
        ),
        ("nobody waits for the stacks", "elif replaced.at_ns <= now_ns:", "else:"),
    ),
    *mutations(
        AREA,
        f"{RULES}/ordered_restart.py",
        (f"{TESTS}/test_draining.py",),
        (
            "what those had left who were taken along is not told",
            "for name in order.concerned if name",
            "for name in order.backplanes if name",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/draining.py",
        (f"{TESTS}/test_draining.py",),
        (
            "who is needed is drained before those that need it",
            "if all(other.holds_nothing() for other in before if is_going_down or other.departure.is_leaving):",
            "if True:",
        ),
        (
            "a backplane is drained while a hook runs",
            "return child.process.phase is Phase.UP and not child.components.moving",
            "return child.process.phase is Phase.UP",
        ),
        (
            "backplanes that need each other wait for each other",
            " if child.name not in reached([name], above.__getitem__)]",
            "]",
        ),
        (
            "the order of drains ends at one that is gone",
            "lambda other: () if children[other].process.is_movable else above[other]",
            "lambda other: ()",
        ),
        (
            "what was cut off counts as done",
            "has_finished=not (event.error or event.running)",
            "has_finished=True",
        ),
        ("what was refused or cut off is told again with the next order", "    child.drain.forget_unfinished()\n", ""),
        ("who was killed at his limit is not told of", '    child.drain.add_unfinished(f"{because}: killed")\n', ""),
        (
            "whom a dead one waits for finishes at leisure",
            "    if died.process.phase is not Phase.WAITING:\n",
            "    if True:\n",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/director.py",
        (f"{TESTS}/test_director.py",),
        ("anybody may register", " or registration.pid != child.process.pid:", ":"),
        (
            "a death is not told",
            "        if child.components.registration is not None:\n            self._send_directory()\n        return",
            "        return",
        ),
        (
            "who waits to be restarted is started in a system that goes down",
            "            if child.process.phase is Phase.WAITING:\n                child.process.enter(Phase.DOWN, now_ns)",
            "            if False:\n                child.process.enter(Phase.DOWN, now_ns)",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/child/process.py",
        (f"{TESTS}/test_director.py",),
        (
            "what never registers is waited for",
            "self.enter(Phase.STARTING, now_ns, deadline_ns)",
            "self.enter(Phase.STARTING, now_ns)",
        ),
        ("all generations bear one number", "        self.generation += 1\n", ""),
    ),
)
