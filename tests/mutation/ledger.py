"""Ledger: each request, each batch of rows and each call with an idempotency key is done and told exactly once."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "ledger"
RULES = "runtime/requests"
TESTS = "tests/runtime/requests"
MODEL = (f"{TESTS}/test_ledger.py", f"{TESTS}/test_ledger_model.py")
OPERATIONS = (f"{TESTS}/test_operations.py",)
DOERS = "tests/runtime/execution"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        f"{RULES}/contexts/local_context.py",
        OPERATIONS,
        (
            "operations share one owner",
            "        if self.element is not None or host is None or action is None:\n",
            "        if True:\n",
        ),
        (
            "requests of one action share one owner",
            "        key = id(action), executed\n",
            "        key = id(action), None\n",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/ledger/ledger.py",
        OPERATIONS,
        (
            "an operation takes along what nobody was to ask for",
            "            is_all = not owner.name\n",
            "            is_all = True\n",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/ledger/synchronized_ledger.py",
        OPERATIONS,
        (
            "what an operation leaves stays",
            "            count = self._ledger.disown(part, self.now_ns())\n",
            "            count = 0\n",
        ),
        (
            "an operation that failed is warned of, too",
            "            if count and not has_failed:\n",
            "            if count:\n",
        ),
    ),
    *mutations(
        AREA,
        f"{RULES}/ledger/ledger.py",
        MODEL,
        (
            "one that was lost ends a second time",
            "        if held is None or element.worker != worker or element not in held.elements:\n            return False",
            "        if held is None:\n            return False",
        ),
        (
            "no owner hears that nothing more will come",
            "        account.existing_count -= 1\n        element.state = State.REJOINABLE\n",
            "        element.state = State.REJOINABLE\n",
        ),
        (
            "who ended last rejoins first",
            "        account.done.append(element)\n",
            "        account.done.appendleft(element)\n",
        ),
        (
            "the rejoin pool never empties",
            "        self.rejoinable[element.lane] -= 1\n        self._join",
            "        self._join",
        ),
        (
            "a request that was lost never ends",
            "                self._end(element, None, Failure(LOST + why), now_ns)",
            "                pass",
        ),
        (
            "what is given back goes to the end",
            "            self.ready.put_back(element)",
            "            self.ready.add(element)",
        ),
        ("who is patient holds up those who post", "            and not self.posters.count\n        )", "        )"),
        (
            "who waits for room is not let in when there is some",
            "        if self.posters.count:\n            self._admit_posters()\n        return held.elements.copy()",
            "        return held.elements.copy()",
        ),
        (
            "a worker takes more than its time",
            "                if budget_ns <= 0 or bytes_max <= 0:",
            "                if False:",
        ),
        (
            "who waits longest is handed the last",
            "            self.handed.append((account.waiters.popleft(), self._take_done(account)))",
            "            self.handed.append((account.waiters.pop(), self._take_done(account)))",
        ),
        ("a failure counts as a success", "        self.failed_total += 1\n", ""),
    ),
    *mutations(
        AREA,
        f"{RULES}/ledger/ledger.py",
        MODEL,
        ("a request that was withdrawn is admitted", "        self.posters.remove(element)\n", ""),
        (
            "who comes now passes who waits for room",
            " or (self.posters.count and self.posters.goes_before(element)):",
            ":",
        ),
        (
            "who waited for room is counted twice",
            "            self.posted_total -= 1  # it was counted when it began to wait\n",
            "",
        ),
        (
            "those who wait for what will not come wait on",
            "            self.handed.append((account.waiters.popleft(), None))",
            "            account.waiters.popleft()",
        ),
        ("an owner that has nothing is kept", "        self.owners.close_if_empty(account)", "        pass"),
    ),
    *mutations(
        AREA,
        f"{RULES}/ledger/owners.py",
        (f"{TESTS}/test_ledger_model.py", f"{TESTS}/test_disowning.py"),
        (
            "what was given up comes back",
            "return element.is_rejoined and element.turn > self.dropped_to",
            "return element.is_rejoined",
        ),
        ("nothing exists of an owner that has posted", "        account.existing_count += 1\n", ""),
    ),
    *mutations(
        AREA,
        f"{RULES}/ledger/ledger.py",
        (f"{TESTS}/test_disowning.py", f"{TESTS}/test_ledger_model.py"),
        (
            "what nobody rejoins fills the rejoin pool",
            "            self.rejoinable[element.lane] -= 1\n            element.state",
            "            element.state",
        ),
        (
            "what has not begun of a failed owner is executed",
            "        if because and account",
            "        if not because and account",
        ),
        ("an entry that was withdrawn is never free again", "                self.entries.remove(element.lane)\n", ""),
    ),
    *mutations(
        AREA,
        "runtime/observation/applied.py",
        (f"{DOERS}/test_applying.py",),
        ("a batch before the last is applied again", "        if batch < last.batch:", "        if False:"),
        ("a batch that is sent again is applied again", "        return last.first\n", "        return 0\n"),
        (
            "rows that were not told count as told",
            "there = entry.count if not entry.segment else min(entry.count, present(entry))",
            "there = entry.count",
        ),
        ("an entry that was torn is believed", " or zlib.crc32(told) != check:", ":"),
        (
            "rows of a slice are applied again after the next",
            "first=entry.first + count, count=0",
            "first=entry.first, count=0",
        ),
        (
            "a group more than there is room for is taken",
            "if entry.time_ns - self._last[oldest].time_ns < IDLE_NS:",
            "if False:",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/records/applying.py",
        (f"{DOERS}/test_applying.py",),
        ("rows that are there are applied again", "rows[done - first : done - first + SLICE]", "rows[:SLICE]"),
        (
            "rows beyond a gap are applied",
            "if not first <= done < first + len(rows):",
            "if not done < first + len(rows):",
        ),
        ("messages of another generation count", "    if header.generation != generation:\n        return 0\n", ""),
        ("messages before an entry count as its own", "return max(0, number + 1 - since)", "return number + 1"),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/intake.py",
        (f"{DOERS}/test_idempotency_cache.py",),
        (
            "an urgent call with the key of a bulk call waits as long as that one",
            "                    self._inheritance.inherit(work, priority, now_ns)\n",
            "                    pass\n",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/call_changes.py",
        (f"{DOERS}/test_idempotency_cache.py",),
        (
            "the work stays urgent when the urgent one of its callers has gone",
            "                self._inheritance.settle([action], now_ns)\n",
            "                pass\n",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/idempotency_cache.py",
        (f"{DOERS}/test_idempotency_cache.py",),
        (
            "another call with the same key gets the reply of the first",
            "        if record.digest != digest:",
            "        if False:",
        ),
        (
            "what failed for now is never done",
            "if has_begun and (told is None or told.status not in NOT_NOW):",
            "if has_begun:",
        ),
        (
            "who asks while it runs waits for ever",
            "        record.waiters[peer, id] = KeyWaiter(priority, deadline_ns, self._clock.now_ns())\n",
            "",
        ),
        (
            "keys of different objects are one",
            "self._of.get((route, envelope.key, key))",
            "self._of.get((route, None, key))",
        ),
        (
            "the work ends with its first caller although others wait",
            "            if record.waiters:  # the work now belongs to the next call",
            "            if False:  # the work now belongs to the next call",
        ),
        (
            "work that passes to the next call ends at the deadline of the first",
            "                    action.deadline_ns = waiter.deadline_ns\n",
            "                    pass\n",
        ),
        (
            "what has begun is taken back",
            "            elif action.account is None:\n                return False",
            "            elif True:\n                return False",
        ),
        (
            "replies are kept for ever",
            "            if now_ns - record.ended_ns >= self.policy.keep_ns:",
            "            if False:",
        ),
        ("replies fill the memory", "len(self._ended) > self.policy.count or self._bytes > self.policy.size", "False"),
        (
            "the order of arguments makes another call",
            "return [[True], *sorted(pairs, key=lambda pair: pair[0])]",
            "return [[True], *pairs]",
        ),
    ),
)
