"""The twelve laws of the scheduler (DESIGN, section 4): at least three ways to break each, noticed by the law's own file."""

from __future__ import annotations

from pathlib import Path

from tests.mutation.mutation import Mutation

#: The file of each law, by its number.
LAWS = {
    int(path.name.split("_")[1]): f"tests/laws/{path.name}"
    for path in sorted((Path(__file__).parents[1] / "laws").glob("law_*.py"))
}


def law(number: int, breaks: str, file: str, text: str, replacement: str) -> Mutation:
    """One way to break a law."""
    return Mutation("laws", file, text, replacement, breaks, (LAWS[number],))


SCHEDULER = "runtime/scheduling/scheduler.py"
OBJECT_QUEUE = "runtime/scheduling/object_queue.py"
READY_QUEUES = "runtime/scheduling/ready_queues.py"
ENGINE = "runtime/execution/loop/engine.py"
ENDINGS = "runtime/execution/actions/completion.py"
PRIORITY_PUBLISHER = "runtime/execution/urgency/priority_publisher.py"
INTAKE = "runtime/execution/intake/intake.py"
ADMISSION = "runtime/execution/intake/admission.py"
DIGESTING = "runtime/execution/intake/digesting.py"
MODULES = "runtime/execution/loop/lifecycle.py"
COROUTINES = "runtime/execution/actions/coroutines.py"

MUTATIONS = (
    law(
        1, "last come, first served", SCHEDULER,
        "object_queue.append(object, action, self.priorities)", "object_queue.prepend(object, action, self.priorities)",
    ),
    law(1, "two workers in one object", SCHEDULER, "if state == IDLE:", "if state in (IDLE, RUNNING):"),
    law(
        1, "an object keeps its turn", READY_QUEUES,
        "append(object)\n        self.count += 1", "appendleft(object)\n        self.count += 1",
    ),
    law(
        2, "an urgent action does not count for its object", OBJECT_QUEUE,
        "    if priority < object._priority:\n        object._priority = priority", "",
    ),
    law(
        2, "a ready object is not moved when it is raised", SCHEDULER,
        "elif state == READY and object._priority < old_priority:", "elif False:",
    ),
    law(
        2, "an object stays urgent", OBJECT_QUEUE,
        "while counts is not None and not counts[object._priority]:", "while False:",
    ),
    law(
        2, "a withdrawn action leaves its priority behind", SCHEDULER,
        "elif object._priority != old_priority:\n                self.ready.move(object, old_priority)",
        "elif object._priority < old_priority:\n                self.ready.move(object, old_priority)",
    ),
    law(3, "quotas are not spent", READY_QUEUES, "left[priority] -= 1", "pass"),
    law(3, "other default quotas", "runtime/scheduling/quotas.py", "following // 2", "following // 3"),
    law(
        3, "the search begins at the bottom", READY_QUEUES,
        "in enumerate(self.queues):\n            while", "in reversed([*enumerate(self.queues)]):\n            while",
    ),
    law(
        3, "priority 0 is limited", "runtime/scheduling/quotas.py", "quotas = [UNLIMITED]\n", "quotas = [200]\n"
    ),
    law(
        4, "a tick leaves the quotas", SCHEDULER,
        "            self.quotas.reset()\n            self.tick_count += 1", "            self.tick_count += 1",
    ),
    law(
        4, "a tick leaves the CPU account", SCHEDULER,
        "self.budget.reset(self.ticks.advance(now_ns))", "self.ticks.advance(now_ns)",
    ),
    law(
        4, "no virtual tick", SCHEDULER, "if is_spent or not self._are_quotas_spent(end):", "if True:"
    ),
    law(
        4, "a virtual tick although some have quota left", SCHEDULER,
        "return not any(depth and left[priority] for priority, depth in enumerate(depths))", "return True",
    ),
    law(
        4, "a virtual tick resets the CPU account", SCHEDULER,
        "            self.virtual_tick_count += 1", "            self.virtual_tick_count += 1; self.budget.reset()",
    ),
    law(
        4, "a virtual tick without budget", SCHEDULER,
        "if is_spent or not self._are_quotas_spent(end):", "if not self._are_quotas_spent(end):",
    ),
    law(5, "the budget does not bind", SCHEDULER, "is_spent = self.budget.is_spent", "is_spent = False"),
    law(
        5, "waiting counts as CPU", ENGINE,
        "self.scheduler.budget.charge(cpu_ns)", "self.scheduler.budget.charge(run_ns)",
    ),
    law(
        5, "debts are forgiven", "runtime/scheduling/cpu_budget.py",
        "max(0, self.used_ns - periods * self._budget_ns)", "0",
    ),
    law(5, "nobody looks at the tick", SCHEDULER, "if self.ready.count and self.budget.is_spent:", "if False:"),
    law(
        5, "an exemption by default", SCHEDULER,
        "end = min(end, self.budget.exempt)", "end = min(end, self.budget.exempt + 1)",
    ),
    law(
        6, "a reply queues behind strangers", SCHEDULER,
        "        action.continues = True\n        self._put_first(action)", "        self.post(action, now_ns)",
    ),
    law(
        6, "requests run while their object waits", SCHEDULER,
        "if head is not None and (head.continues or not object._waits or object._tails is not None):", "if head is not None:",
    ),
    law(
        6, "who waits can be removed", "runtime/execution/services/host.py", "self._scheduler.check_removable(each)", "pass"
    ),
    law(
        6, "reentrant calls queue behind ordinary ones", SCHEDULER,
        "        if action.continues:\n            if object._waits and",
        "        if action.continues:\n            if False and",
    ),
    law(
        6, "reentrant calls overtake each other", SCHEDULER,
        "                object_queue.insert(object, action, self.priorities)\n                if",
        "                object_queue.prepend(object, action, self.priorities)\n                if",
    ),
    law(
        7, "the socket is looked at when there is nothing else to do", ENGINE,
        "if now_ns - self._drained_ns >= DRAIN_INTERVAL_NS or not scheduler.ready.count:",
        "if not scheduler.ready.count:",
    ),
    law(7, "the digester is no more urgent than its request", DIGESTING, "max(0, priority - 1)", "priority"),
    law(7, "the digester goes before everything", DIGESTING, "name,\n            max(0, priority - 1)", "name,\n            0"),
    law(
        7, "everything is digested", INTAKE,
        "elif route.has_digest and key is None:", "elif route.has_digest:",
    ),
    law(
        7, "a request vanishes with its digester", DIGESTING,
        'self._turn_away(peer, envelope, told, then_ns)', "pass",
    ),
    law(
        8, "timers run at once", "runtime/execution/loop/engine.py",
        "action.throttle, timer.account = timer.account, None\n            self.inheritance.post(action, now_ns)",
        "action.timer = timer\n            action.run()",
    ),
    law(8, "timers pile up", "runtime/scheduling/timers.py", "if timer.is_pending:", "if False:"),
    law(8, "hooks run beside the scheduler", MODULES, "self._post(action, now_ns)", "action.run(); ended(action)"),
    law(
        8, "topics run at once", INTAKE,
        "            else:\n                self._inheritance.post(action, now_ns)",
        "            else:\n                action.run()",
    ),
    law(9, "no limit", "runtime/scheduling/throttle.py", "return self.outstanding >= self.limit", "return False"),
    law(
        9, "places are lost", "runtime/scheduling/throttle.py",
        'the pace of completions."""\n        self.outstanding -= 1', 'the pace of completions."""',
    ),
    law(9, "nobody is asked to make room", ADMISSION, "component.make_room(action)", "False"),
    law(
        9, "who makes room is not told", ADMISSION,
        "if not self._withdrawal.take_out(action, error, self._clock.now_ns()):", "if not self._scheduler.withdraw(action):",
    ),
    law(9, "room is made at the cost of anybody", ADMISSION, " and action.priority > below", ""),
    law(9, "urgent work makes no room", "runtime/objects/component.py", "self.shed(below=request.priority) > 0", "False"),
    law(
        9, "one caller may have all places", "runtime/scheduling/throttle.py",
        "self.limit - self.limit // KEPT_OF", "self.limit",
    ),
    law(
        9, "no hint", ADMISSION,
        'return Busy(f"{action.name}: {because}", retry_after=throttle.retry_after())',
        'return Busy(f"{action.name}: {because}", retry_after=None)',
    ),
    law(9, "a refusal is not counted", ADMISSION, "self._statistics.of(action.name).refused_count += 1", "pass"),
    law(10, "a checkpoint never yields", COROUTINES, "        if should_yield():", "        if False:"),
    law(10, "a checkpoint always yields", COROUTINES, "        if should_yield():", "        if True:"),
    law(
        10, "other backplanes are not seen", PRIORITY_PUBLISHER,
        "if self._slot is not None and self._slot.has_above(priority):", "if False:",
    ),
    law(10, "equal work elsewhere counts", "runtime/execution/urgency/board.py", "> 255 - priority", ">= 255 - priority"),
    law(
        10, "a callee runs at its own priority", "runtime/execution/outgoing/outgoing_calls.py",
        "envelope.priority = priority = self._inheritance.call_priority(action, spec.priority)",
        "priority = spec.priority",
    ),
    law(
        10, "what is awaited does not inherit", "runtime/execution/actions/inheritance.py",
        "                self.inherit(waiting, action.priority, now_ns)", "                pass",
    ),
    law(
        10, "the chain ends after one link", "runtime/execution/actions/inheritance.py",
        "self._sender.say(peer, boost(call.id, priority), now_ns)", "pass",
    ),
    law(
        10, "who runs is not boosted by what queues behind", PRIORITY_PUBLISHER,
        "if object._head is not None and object._priority < highest:", "if False:",
    ),
    law(10, "nothing is lent", INTAKE, "if lends is not None and", "if False and"),
    law(
        10, "who steps aside goes to the end", SCHEDULER,
        "            self.queued_count += 1\n            object_queue.prepend",
        "            self.queued_count += 1\n            object_queue.append",
    ),
    law(
        10, "what has run stays on the board", PRIORITY_PUBLISHER,
        "        slot.present(highest)", "        highest is None or slot.present(highest)",
    ),
    law(11, "CPU is taken for run time", ENDINGS, "account.cpu_ns += action.cpu_ns", "account.cpu_ns += action.run_ns"),
    law(11, "waiting is not counted", ENGINE, "action.wait_ns += started_ns - action.posted_ns", "pass"),
    law(
        11, "awaiting counts as waiting in a queue", SCHEDULER,
        "        action.posted_ns = now_ns\n        action.continues = True", "        action.continues = True",
    ),
    law(
        11, "nothing is slow", ENGINE,
        "if run_ns >= self.reports.slow_actions.threshold_ns and not is_long(action):", "if False:",
    ),
    law(
        11, "no stack", "runtime/execution/sentinel/sentinel.py",
        "frame = sys._current_frames().get(worker.ident)", "frame = None",
    ),
    law(12, "routes may come later", "runtime/objects/registry.py", "if self.is_static:", "if False:"),
    law(
        12, "served in every state", "runtime/objects/registry.py",
        "any(state is now for state in self._states)", "True",
    ),
    law(
        12, "topics are heard in every state", INTAKE,
        "if state not in hearer.states:", "if False:",
    ),
    law(12, "timers run on", MODULES, "if to is ModuleState.DOWN:", "if False:"),
    law(12, "any move is allowed", "runtime/objects/module_state.py", "if to not in MOVES[now]:", "if False:"),
)  # fmt: skip
