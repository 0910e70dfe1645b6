"""Policies: the latency contract, locks of components, subscriptions in some states, priorities by phase."""

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
    *mutations(
        "policies",
        "runtime/execution/intake/intake.py",
        ("tests/runtime/execution/test_lifecycle.py", "tests/runtime/objects/test_state_machine.py"),
        ("a state machine hears in every state", "if spec.mark.accepted_in is not None:", "if False:"),
        (
            "a dropped message is not counted",
            "                        self._statistics.of(name).refused_count += 1\n                        continue",
            "                        continue",
        ),
        ("a state that is named is a loss to be logged", "if hearer.names_states:", "if False:"),
    ),
    *mutations(
        "policies",
        "runtime/objects/registry.py",
        ("tests/runtime/execution/test_lifecycle.py",),
        (
            "all subscriptions have the same states",
            "SERVING_STATES if spec is None else",
            "SERVING_STATES if True else",
        ),
    ),
    *mutations(
        "policies",
        "runtime/execution/actions/completion.py",
        ("tests/runtime/objects/test_state_machine.py",),
        (
            "a message that is not accepted is a failure",
            " or (isinstance(error, NotAccepted) and _is_message(action))",
            "",
        ),
        ("a cast that is not accepted is not reported", 'action.spec.mark.kind == "topic"', "True"),
    ),
    *mutations(
        "policies",
        "runtime/objects/action.py",
        ("tests/runtime/execution/test_change_priority.py",),
        (
            "a caller that waits is put off",
            "if chosen >= 0 and (chosen < called or action.peer is None):",
            "if chosen >= 0:",
        ),
        ("a cast cannot put itself off", "(chosen < called or action.peer is None)", "chosen < called"),
        (
            "a boost is forgotten",
            "action.priority_asked if action.priority_boosted < 0 else action.priority_boosted",
            "action.priority_asked",
        ),
    ),
    *mutations(
        "policies",
        "runtime/execution/actions/inheritance.py",
        ("tests/runtime/execution/test_change_priority.py",),
        ("the choice is forgotten at the next boost", "        action.priority_chosen = priority\n", ""),
        (
            "who waits behind it is put off",
            "        action.priority_own = own_priority(action)\n        self.changed(action, now_ns)",
            "        action.priority_own = action.priority = own_priority(action)",
        ),
    ),
)
