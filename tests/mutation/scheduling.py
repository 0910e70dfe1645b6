"""Scheduling beyond the laws: balance, budgets, deadlines, quotas, timers, intake, draining, parking and dead callers."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "scheduling"
RULES = "tests/runtime/scheduling"
DOERS = "tests/runtime/execution"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        "runtime/scheduling/balance.py",
        (f"{RULES}/test_balance.py",),
        ("the first objects get all the calls", "objects[(start + offset) % count]", "objects[offset]"),
        ("an object that already waits in this call gets it again", "load += 1 << 61", "load += 0"),
        ("the busiest object gets the call", "if load < best_load:", "if best is None or load > best_load:"),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/cpu_budget.py",
        (f"{RULES}/test_cpu_budget.py",),
        ("many periods pay off the share of one", "periods * self._budget_ns)", "self._budget_ns)"),
        (
            "one action more than the share runs",
            "self.is_spent = used_ns >= self._budget_ns",
            "self.is_spent = used_ns > self._budget_ns",
        ),
        (
            "a limit that the kernel holds is held twice",
            "percent = None if self.is_left_to_kernel else self.limit_percent",
            "percent = self.limit_percent",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/deadline_order.py",
        (f"{RULES}/test_deadline_order.py", f"{RULES}/test_scheduler_model.py"),
        (
            "a nearer deadline does not move an object that is ready",
            "if entry is not None and due_ns(action) < entry[RANK]:",
            "if False:",
        ),
        (
            "work without a deadline starves",
            "return action.posted_ns + PATIENCE_NS if action.deadline_ns is None",
            "return _NEVER_NS if action.deadline_ns is None",
        ),
        ("deadlines of less urgent work count as well", "if here.priority == priority:", "if True:"),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/fair_order.py",
        (f"{RULES}/test_fair_order.py",),
        ("who was idle saves up", "tag = max(self._present[level], flow.finish)", "tag = flow.finish"),
        ("weights do not count", "ratio))) // flow.weight", "ratio)))"),
        ("long actions count as short ones", "flow.typical_ns / usual_ns if usual_ns", "1.0 if usual_ns"),
        ("an action passes those of other priorities", " and other.priority == action.priority", ""),
        (
            "a later action of a key gets a lower tag",
            "            ticket.flow.unused += ticket.charged\n",
            "            ticket.flow.finish -= ticket.charged\n",
        ),
        ("what is withdrawn is charged", "            ticket.flow.unused += ticket.charged\n", ""),
        ("keys are never forgotten", "if len(self._flows) >= self._flows_max:", "if False:"),
        (
            "an object whose first action changes keeps its place",
            "        if object._head is action and object._state == READY:\n            self._queues.changed(object)\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/grants.py",
        (f"{DOERS}/test_grants.py",),
        (
            "room is never taken back",
            "                self._say(peer, caller, caller.received_count + 1, now_ns)",
            "                pass",
        ),
        ("callers do not share the room", "ahead // max(1, self._busy_count)", "ahead"),
        ("long calls are granted by hundreds", "max(1, self._run_ns))", "1)"),
        ("what waits in the queue takes no room", "max(0, room - caller.load)", "room"),
        (
            "one word for each call",
            "        caller.untold_count, caller.step = 0, max(1, room >> 1)",
            "        caller.step = 1",
        ),
        (
            "a dead caller has its part for ever",
            "        if caller is not None and caller.load:\n            self._busy_count -= 1\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/outgoing/outgoing_calls.py",
        (f"{DOERS}/test_shared_queue.py",),
        (
            "an object that awaits keeps its place",
            "            pulling.credit(peer, may_send)\n            self._send_waiting(now_ns)",
            "            pulling.credit(peer, may_send)",
        ),
        (
            "what waits for room hangs when all replicas are down",
            "                    self._failed(waiting, error, now_ns, is_sent=False)",
            "                    pass",
        ),
        (
            "calls of objects are sent without room",
            "            peer = pulling.find(spec, priority) or peer",
            "            pass",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/nice.py",
        (f"{RULES}/test_nice.py",),
        ("without privilege all urgent priorities are equal", "min(NICE_MAX, nice + shift)", "max(lowest, nice)"),
        (
            "priorities beyond the table have the highest nice",
            "if priority < len(table) else table[-1]\n\n",
            "if priority < len(table) else table[0]\n\n",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/object_queue.py",
        (f"{RULES}/test_object_queue.py",),
        (
            "after the last action was taken back, the next one is lost",
            "    if object._tail is here:\n        object._tail = before\n",
            "",
        ),
        (
            "a boosted action counts for its old priority as well",
            "        object._counts[old_priority] -= 1",
            "        pass",
        ),
        (
            "an action that is put first has no part in its object's priority",
            "        object._priority = action.priority\n    else:\n        _note(object, action.priority, priorities)\n",
            "        object._priority = action.priority\n",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/quotas.py",
        (f"{RULES}/test_quotas.py",),
        ("a quota of 0 lets nothing run", "return [quota or UNLIMITED for quota in padded]", "return padded"),
        ("the last quota is not repeated", "*[configured[-1]] *", "*[SMALLEST] *"),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/ready_queues.py",
        (f"{RULES}/test_ready_queues.py", f"{RULES}/test_scheduler_model.py"),
        (
            "an object without work counts as ready",
            "        self._bury(object, priority)\n        self.count -= 1",
            "        self._bury(object, priority)",
        ),
        ("dead entries are shown to those who look", "if dead and passed.get(id(object), 0) < dead:", "if False:"),
        (
            "dead entries are never swept",
            "if self._dead[priority] > max(DEAD_MAX, len(queue) // 2):\n            living",
            "if False:\n            living",
        ),
        ("a queue of dead entries has work", "if queue and len(queue) > self._dead[priority]:", "if queue:"),
        (
            "a swept queue still counts its dead",
            "        self._dead[priority] -= 1\n        if left > 1:",
            "        if left > 1:",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/scheduler.py",
        (f"{RULES}/test_scheduler_model.py",),
        (
            "a withdrawn action counts for ever",
            "        object._load -= 1\n        self.queued_count -= 1",
            "        self.queued_count -= 1",
        ),
        (
            "an object that has stepped aside may be removed",
            "        if object._load:\n            raise",
            "        if False:\n            raise",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/scheduler.py",
        (f"{DOERS}/test_parked_actions.py",),
        (
            "who got a lock still counts as waiting",
            "        self.waiting_count -= 1\n        self.queued_count += 1",
            "        self.queued_count += 1",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/scheduler.py",
        ("tests/runtime/objects/test_state_machine.py",),
        ("deferred actions come back in the wrong order", "            others.reverse()\n", "            pass\n"),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/scheduler.py",
        (f"{RULES}/test_cpu_budget.py",),
        (
            "a spent budget is looked at when a timer falls due",
            "return earlier(self.ticks.next_ns, timer_ns)",
            "return timer_ns or self.ticks.next_ns",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/throttle.py",
        (f"{RULES}/test_throttle.py", f"{DOERS}/test_own_work.py"),
        ("a hint says an hour, or a microsecond", "min(max(seconds, RETRY_AFTER_MIN), RETRY_AFTER_MAX)", "seconds"),
        ("a timer that has fired gives its place back twice", "if timer.account is self:", "if True:"),
        ("a pause counts as a slow pace", "now_ns if self.outstanding else None", "now_ns"),
        (
            "own work has no limit",
            "        if self.outstanding >= self.limit:\n            self.refused",
            "        if False:\n            self.refused",
        ),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/scheduler.py",
        (f"{RULES}/test_ticks.py",),
        ("ticks drift", "self.next_ns += passed * self.period_ns", "self.next_ns = now_ns + self.period_ns"),
        ("a shorter period begins with the tick after next", "min(self.next_ns, now_ns + period_ns)", "self.next_ns"),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/timers.py",
        (f"{RULES}/test_timers.py",),
        (
            "after a pause a timer fires once for each time that it missed",
            "(missed + 1) * timer.interval_ns",
            "timer.interval_ns",
        ),
        ("a timer fires late", "while heap and heap[0][0] <= now_ns:", "while heap and heap[0][0] < now_ns:"),
        ("a timer that was taken back fires", "            if timer.is_over:\n                continue\n", ""),
        (
            "a timer that was taken back wakes the backplane",
            "        while heap and heap[0][2].is_over:\n            heapq.heappop(heap)\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/sentinel/draining.py",
        (f"{DOERS}/test_draining.py",),
        ("a drain ends while something runs", "if not is_busy or now_ns >= self._ends_ns:", "if True:"),
        ("calls that are on their way are refused", "return now_ns - self._quiet_since_ns >= GRACE_NS and", "return"),
        ("callers who do not know yet are refused", " and not self._expects_more(now_ns)", ""),
        (
            "what has begun cannot end, as its own calls are refused",
            "if not (action.has_begun or action.continues or _is_inside(action)):",
            "if not (action.has_begun or action.continues):",
        ),
        (
            "a drain waits for who was stopped, for ever",
            "if is_early else now_ns - FAREWELL_NS)",
            "if is_early else self._begun_ns - RECENT_NS)",
        ),
        (
            "a drain does not wait for who goes on calling",
            "if is_early else now_ns - FAREWELL_NS)",
            "if is_early else now_ns + 1)",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/parked_actions.py",
        (f"{DOERS}/test_parked_actions.py",),
        ("who is woken before he sleeps, sleeps for ever", "        if action.is_resumed:\n", "        if False:\n"),
        (
            "who stands in the way does not inherit",
            "            self._inheritance.inherit(each, action.priority, now_ns)",
            "            pass",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/parked_actions.py",
        ("tests/runtime/dispatcher/test_waiting_for_locks.py",),
        ("what has begun is taken back", "if action.has_begun or self.parked.pop", "if self.parked.pop"),
        ("nobody is left to run who accessors wait for", "            self.spares = self._blocked_count\n", ""),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/completion.py",
        (f"{DOERS}/test_inheritance.py",),
        (
            "an inherited priority stays when the urgent call is taken back",
            "        self._inheritance.left(action, now_ns)\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/inheritance.py",
        (f"{DOERS}/test_inheritance.py",),
        (
            "a call falls back although others as urgent wait",
            "        if is_interleaved or not here.continues:\n            return most_urgent\n",
            "        if is_interleaved or not here.continues:\n            return due\n",
        ),
        ("callees stay urgent", "            falling += self._awaited(each, now_ns) or ()\n", ""),
        ("what queued urgent work had boosted stays so", "            falling += self._begun(each.object)\n", ""),
        (
            "a call with a priority of its own does not inherit",
            "return min(explicit, action.priority) if has_inherited else explicit",
            "return explicit",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/parked_actions.py",
        ("tests/runtime/dispatcher/test_waiting_for_locks.py",),
        (
            "a holder stays urgent when who waits for its lock is taken back",
            "        self._inheritance.settle(in_its_way, now_ns)\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/inheritance.py",
        (f"{DOERS}/test_inheritance.py",),
        (
            "a boost is lost with a digester",
            "            action.asked.priority = priority\n",
            "            pass\n",
        ),
        (
            "what runs for nobody stays urgent",
            "        action.priority_own = max(action.priority_own, lent(alone, action.object))\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/caller_liveness.py",
        (f"{DOERS}/test_caller_liveness.py",),
        ("calls of a dead process wait on, once its successor is up", " or now.generation != place.generation", ""),
        (
            "who cannot be reached is asked again and again",
            "                self.gone(peer)\n        self._withdraw",
            "                pass\n        self._withdraw",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/loop/progress.py",
        (f"{DOERS}/test_progress.py",),
        ("what was declared to take long looks wedged", " or any(is_long(worker.action) for worker in workers)", ""),
        ("what queues behind a stuck action is not seen", "    if len(actions) == len(workers):", "    if False:"),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/intake.py",
        (f"{DOERS}/test_intake.py",),
        (
            "a priority below the lowest is taken",
            "if 0 <= asked < self._scheduler.priorities:",
            "if 0 <= asked <= self._scheduler.priorities:",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/idempotency_cache.py",
        (f"{DOERS}/test_ring_detector.py",),
        (
            "a chain that returns with its own key waits for itself",
            "        if envelope.chain:\n            check_return(",
            "        if False:\n            check_return(",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/intake.py",
        (f"{DOERS}/test_ring_detector.py",),
        (
            "a ring closed by an idempotency key waits for itself",
            "                        self._rings.attached(work, peer, id)\n",
            "                        pass\n",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/outgoing/call_cycles.py",
        (f"{DOERS}/test_ring_detector.py",),
        ("a cycle of calls waits for itself", "        if waiting != name:", "        if True:"),
    ),
    *mutations(
        AREA,
        "runtime/execution/outgoing/ring_detector.py",
        (f"{DOERS}/test_ring_detector.py",),
        ("two chains that cross wait for each other", "self._withdrawal.take_out(action, error, now_ns)", "True"),
        (
            "both calls of a ring are refused",
            "each.posted_ns <= since",
            "True",
        ),
        (
            "a search ends at the edge of a backplane",
            "        self._sender.say(peer, ",
            "        (lambda *_: None)(peer, ",
        ),
        (
            "a ring is found by every call that waits for an idempotency key",
            "        elif waiter.since_ns <= since:",
            "        else:",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/admission.py",
        (f"{DOERS}/test_admission.py",),
        (
            "the oldest request makes room",
            ">= (worst.priority, worst.posted_ns)",
            "< (worst.priority, worst.posted_ns)",
        ),
        (
            "a caller at its bound takes the places of others",
            "if share.is_full and not self._shed(component, share, action.priority):",
            "if share.is_full and not self.shed(component, action.priority):",
        ),
        ("deferred requests keep their places", "                yield from object._deferred", "                pass"),
        ("a digester keeps what it has not begun", "*([] if digester is None else [digester])", "*([])"),
    ),
    *mutations(
        AREA,
        "runtime/scheduling/throttle.py",
        (f"{DOERS}/test_admission.py",),
        (
            "no room is made for urgent work any more",
            "        self.throttle.outstanding += 1\n        self.may_be_refused(priority)",
            "        self.throttle.outstanding += 1",
        ),
        (
            "each message that parks makes the next refusal search all that is queued",
            "        if self.barren_below is not None and priority > self.barren_below:\n"
            "            self.barren_below = None\n\n    def ended",
            "        self.barren_below = None\n\n    def ended",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/inheritance.py",
        (f"{DOERS}/test_admission.py",),
        (
            "what has become less urgent is never refused",
            "                each.throttle.may_be_refused(due)",
            "                pass",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/call_changes.py",
        (f"{DOERS}/test_outgoing_calls.py",),
        (
            "the calls that a cancelled one awaits go on",
            "return self._outgoing.give_up(action, now_ns) if action.is_awaiting else ()",
            "return 0",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/workers/poll_leader.py",
        (f"{DOERS}/test_workers.py",),
        (
            "a relief runs what is no more urgent",
            "lowest = action.priority if lowest is None else max(lowest, action.priority)",
            "lowest = 1 << 30",
        ),
        (
            "nobody looks after the link while an action overruns",
            "    def overrun(self, now_ns: int) -> None:\n",
            "    def overrun(self, now_ns: int) -> None:\n        return\n\n    def _overrun(self, now_ns: int) -> None:\n",
        ),
    ),
)
