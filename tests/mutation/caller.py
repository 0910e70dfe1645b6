"""Callers: clients, sessions, retries, the resolver, and the calls of objects."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "caller"
TESTS = "tests/transport"
DOERS = "tests/runtime/execution"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        "transport/caller_core.py",
        (f"{TESTS}/test_caller_core.py",),
        (
            "a call that was taken back is made again",
            "        return id if retried is None else retried.id",
            "        return id",
        ),
        (
            "what waits for its next attempt is counted twice",
            "            self._outstanding_bytes -= call[2]\n            if peer == WAITING:",
            "            self._outstanding_bytes -= call[2] * (peer != WAITING)\n            if peer == WAITING:",
        ),
        ("attempts are not counted", "        retried.attempts_count += 1\n", ""),
        (
            "a call whose operation has asked for items is made again",
            "            self.calls.replace(id, (token, spec, size, None))\n        return token.token",
            "            pass\n        return token.token",
        ),
        (
            "credit is believed of anybody",
            "        if found is None or found[0] != peer:\n            self.calls.late_count += 1\n            return None\n"
            "        return found[2]",
            "        if found is None:\n            self.calls.late_count += 1\n            return None\n"
            "        return found[2]",
        ),
        (
            "a call that waits for its retry is cancelled at nobody",
            "            self.retries.waited(id)\n        elif peer != UNSENT and peer != HELD:\n"
            "            self._say_cancel(peer, id)",
            "            self._say_cancel(peer, id)",
        ),
    ),
    *mutations(
        AREA,
        "transport/item_sender.py",
        (f"{TESTS}/test_item_sender.py", f"{DOERS}/test_calls_with_streams.py"),
        ("the caller runs ahead without end", "            and self._put_count + count < self._credit\n", ""),
        ("large items count as one", "            and self._ahead_bytes + bytes < BYTES_AHEAD_MAX\n", ""),
        (
            "what was read stays ahead",
            "                self._ahead_bytes -= ahead.popleft()[1]",
            "                ahead.popleft()",
        ),
        ("forged credit is believed", "credit = min(credit, self._sent_count + self._window)", "credit = credit + 0"),
        (
            "a caller without room does not say so",
            "is_blocked=is_end and not self.has_room()",
            "is_blocked=False",
        ),
        ("the end is not sent", "is_last=is_end and self._is_complete", "is_last=False"),
        ("all items have one number", "                self._sent_count += last - first\n", ""),
    ),
    *mutations(
        AREA,
        "runtime/execution/outgoing/call_with_stream.py",
        (f"{DOERS}/test_calls_with_streams.py",),
        (
            "an iterator that raises leaves its call behind",
            "                self._drop(request)  # nobody needs the answer any more\n",
            "                pass\n",
        ),
        (
            "an iterator that nobody reads is not closed",
            "            close(self._items, self._request.spec)\n",
            "            pass\n",
        ),
        (
            "an operation that is cancelled goes on with an answer",
            "            if is_own or (action is not None and cause is action.error):\n",
            "            if False:\n",
        ),
    ),
    *mutations(
        AREA,
        "runtime/execution/outgoing/streaming.py",
        (f"{DOERS}/test_streamed_arguments.py",),
        ("the end of an argument is overlooked", " and envelope.is_last:", " and False:"),
        (
            "an operation that waits for items is not woken",
            "                self._outgoing.set(request, now_ns)\n            elif buffer",
            "                pass\n            elif buffer",
        ),
        (
            "a plain operation that waits for items is not woken",
            "                action.open_gate()\n",
            "                pass\n",
        ),
        ("credit is given again and again", "            buffer.gave(credit)\n", "            pass\n"),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/reading_action.py",
        (f"{DOERS}/test_streamed_arguments.py",),
        ("a plain operation outlives its caller", "        self.open_gate()\n", "        pass\n"),
    ),
    *mutations(
        AREA,
        "runtime/execution/actions/streamed_argument.py",
        (f"{DOERS}/test_streamed_arguments.py",),
        ("anybody reads an argument", " or action.buffer is not self._buffer:", ":"),
        (
            "items before one that does not fit are lost",
            "            if not converted and self._unfit is not None:\n",
            "            if self._unfit is not None:\n",
        ),
    ),
    *mutations(
        AREA,
        "transport/pulling.py",
        (f"{TESTS}/test_pulling.py",),
        (
            "a call waits although there is room",
            "            if replica.sent < replica.may_send:",
            "            if False:",
        ),
        ("urgent calls wait behind less urgent ones", "priority < min(self.outstanding.values())", "False"),
        ("urgent calls do not wait for urgent ones", "priority < min(self.outstanding.values())", "True"),
        ("one replica gets all that there is room for", "if not has_room or count < fewest:", "if not has_room:"),
        ("the most urgent call is not the first", "(waiting.priority, id))", "(0, id))"),
        ("a boost of a waiting call is lost", "            waiting.priority = priority\n", ""),
        (
            "a call that waits is sent after its end",
            "        elif peer == UNSENT:\n            self._waiting.pop(id, None)\n",
            "",
        ),
        (
            "a call with a key waits",
            "        if spec.key is not None or spec.idempotency_key is not None or spec.awaits is not None:\n"
            "            return None\n",
            "",
        ),
        (
            "a replica that has ended is called",
            "        if self._replicas.pop(peer, None) is not None:\n            self._peers.clear()",
            "        pass",
        ),
    ),
    *mutations(
        AREA,
        "transport/connections.py",
        (f"{TESTS}/test_session.py",),
        (
            "unread answers are given up",
            "now_ns -= LAST_ANSWERS_UNREAD_NS - LAST_ANSWERS_NS",
            "now_ns -= 0",
        ),
        (
            "the last answers of a drained backplane are lost",
            "        del self._generations[name]\n        peer = self._peers.pop(name)\n        self._retired",
            "        return None\n        peer = self._peers.pop(name)\n        self._retired",
        ),
        ("answers that do not come are waited for", "if now_ns is None or at_ns <= now_ns]", "if now_ns is None]"),
    ),
    *mutations(
        AREA,
        "transport/caller_core.py",
        (f"{TESTS}/test_shared_queue.py",),
        (
            "what no replica takes hangs",
            "                failed += [(id, call, error) for id, call in ended if call is not None]",
            "                pass",
        ),
        (
            "a call that waits is cancelled at nobody",
            "        elif peer != UNSENT and peer != HELD:\n            self._say_cancel(peer, id)\n        return call[0]",
            "        else:\n            self._say_cancel(peer, id)\n        return call[0]",
        ),
        (
            "what becomes more urgent while it waits stays behind",
            "            self._pulling.boost(id, priority)",
            "            pass",
        ),
    ),
    *mutations(
        AREA,
        "transport/retrying.py",
        (f"{TESTS}/test_caller_core.py",),
        (
            "what waits for a place does not hear of a new directory",
            "        if not is_sent:\n            self._unplaced",
            "        if is_sent:\n            self._unplaced",
        ),
        (
            "an operation that is not idempotent is done twice",
            "is_repeatable = not is_sent or is_idempotent or spec.idempotency_key is not None",
            "is_repeatable = True",
        ),
        (
            "a call with an idempotency key is not made again",
            "is_idempotent or spec.idempotency_key is not None",
            "is_idempotent",
        ),
        ("calls that no longer wait are kept", "        self._unplaced.pop(id, None)\n", "        pass\n"),
        (
            "what has waited long falls behind what has waited once",
            "sorted((order(call[2]), id) for",
            "sorted((0, id) for",
        ),
        (
            "the ids of waits earn retries",
            "        self.extra_ids_count += 1\n",
            "",
        ),
    ),
    *mutations(
        AREA,
        "transport/retrying.py",
        (f"{TESTS}/test_retrying.py",),
        ("retries have no budget", "        if is_sent and not self.account.take(", "        if False and ("),
        ("what has not left spends the budget", "if is_sent and not self.account.take", "if not self.account.take"),
        ("an attempt begins after the deadline", "if now_ns + wait_ns >= spec.ends_ns:", "if False:"),
        ("waits do not grow", "BACKOFF_NS << min(attempt - 1, 32)", "BACKOFF_NS"),
        (
            "callers that failed together come back together",
            "asked_ns + int(random * backoff_ns)",
            "asked_ns + backoff_ns",
        ),
        ("what the callee asked for is forgotten", "return asked_ns + int(", "return int("),
        ("what was earned by calls never decays", "self._earned * math.exp(-windows) + fresh", "self._earned + fresh"),
        (
            "who refuses for good is asked again",
            "if error.is_refused and error.status is Status.UNAVAILABLE and error.retry_after is None:",
            "if False:",
        ),
        ("what is no use is tried again", "return error.status in RETRIED and (is_repeatable", "return (is_repeatable"),
        ("what was refused is given up", "(is_repeatable or error.is_refused)", "is_repeatable"),
    ),
    *mutations(
        AREA,
        "transport/resolver.py",
        (f"{TESTS}/test_resolver.py",),
        ("the first place gets all calls", "return up[turn % len(up)]", "return up[0]"),
        (
            "a key wanders to another place while its own restarts",
            "        name = _place_of(names, key)\n        if not self._takes",
            "        name = _place_of(tuple(filter(self._is_up, names)) or names, key)\n        if not self._takes",
        ),
        (
            "who is being drained gets new calls",
            "(not self.directory.backplanes[name].is_draining or route.startswith(_OWN))",
            "True",
        ),
        (
            "a place that is not ready gets calls though others are",
            "if self.directory.backplanes[name].is_ready) or up",
            "if True) or up",
        ),
        (
            "a new place moves all keys",
            'zlib.crc32(f"{name}\\0{key}".encode(errors="surrogatepass"))',
            'zlib.crc32(f"{name}".encode()) ^ len(key)',
        ),
        (
            "a key that names a replica goes elsewhere",
            "return named if named in names else home(names, key)",
            "return home(names, key)",
        ),
        (
            "a route that nobody knows goes to another node",
            "if word not in addressing.RESERVED and self.directory.node:",
            "if self.directory.node:",
        ),
    ),
    *mutations(
        AREA,
        "transport/calls.py",
        (f"{TESTS}/test_calls.py",),
        ("anybody may answer", "if call is None or (peer is not None and call[0] != peer):", "if call is None:"),
        ("a call ends twice", "        del self._calls[id]\n        if self.pulling", "        if self.pulling"),
        ("late answers are not counted", "            self.late_count += 1\n", ""),
        ("a nearer deadline is overlooked", "if count == 1 or deadline_ns < self._nearest_ns:", "if count == 1:"),
        ("calls outlive those who held them", "if call[0] == peer]", "if call[0] is not peer]"),
        ("a sweep loses deadlines", "if id in calls]\n        heapq", "if id not in calls]\n        heapq"),
        (
            "a call ends before its deadline",
            "            if call[1] > now_ns:",
            "            if call[1] > now_ns + 1_000:",
        ),
    ),
    *mutations(
        AREA,
        "transport/session.py",
        (f"{TESTS}/test_session.py",),
        ("an older directory is taken up", "if known is None or directory.version > known.version or", "if True or"),
        ("the directory of a new supervisor is refused", " or (is_fetched and directory != known)", ""),
        ("anybody may send a directory", "and peer == self._connections.peer(self.core.home):", "and True:"),
        (
            "calls wait on for a generation that has died",
            "        for name in ended:",
            "        for name in ():",
        ),
        (
            "a place that refused a subscription is not asked again",
            "            heapq.heappush(self._ask_again, (self._now_ns + SUBSCRIBE_RETRY_NS, ask))",
            "            pass",
        ),
        (
            "what a peer did not read is never offered again",
            "        if core.is_stalled and (wake is None",
            "        if False and (wake is None",
        ),
        (
            "a directory that was missed is never fetched",
            "                self.start(None, self._now_ns, REFRESH_LIMIT_NS)",
            "                pass",
        ),
        ("who closes does not wait for what was published", "        self._unproven.update(peers)\n", ""),
        (
            "waiters for a subscription hang when the system has gone",
            "        self._events += [Ended(waiter, None, error) for waiter in waiters]\n",
            "",
        ),
        (
            "a node that has just started is given up",
            "                if due_ns < token.ends_ns:",
            "                if False:",
        ),
        (
            "who asks again forgets his deadline",
            "                if due_ns < token.ends_ns:",
            "                if True:",
        ),
        (
            "nobody wakes to ask again",
            "            wake = again_ns if wake is None",
            "            wake = wake if wake is None",
        ),
        (
            "who closes leaves a start that is to ask again",
            "        self._end_fetches(error)\n        for name",
            "        for name",
        ),
        (
            "a system that goes leaves a start that is to ask again",
            "        self._end_fetches(error)\n        self.directory",
            "        self.directory",
        ),
    ),
    *mutations(
        AREA,
        "transport/session.py",
        (f"{TESTS}/test_caller_core.py",),
        (
            "the end of a client forgets who waits for another attempt",
            "        for peer in (*self._connections.peers(), WAITING, UNSENT, HELD):",
            "        for peer in self._connections.peers():",
        ),
    ),
    *mutations(
        AREA,
        "transport/frame_reader.py",
        (f"{TESTS}/test_session.py",),
        (
            "answers beyond some frames are lost",
            "max(HELD_FRAMES_MAX, HELD_FRAMES_PER_CALL * calls_count)",
            "HELD_FRAMES_MAX",
        ),
        (
            "one bad frame ends the client",
            "        except MalformedFrame:\n            self.malformed_count += 1\n",
            "        except MalformedFrame:\n            raise\n",
        ),
    ),
    *mutations(
        AREA,
        "transport/caller_core.py",
        (f"{TESTS}/test_session.py",),
        ("no answers are read ahead", "if len(self.calls) > self.connections.answers_ahead:", "if False:"),
        (
            "who is taken back works on",
            "        elif peer != UNSENT and peer != HELD:\n            self._say_cancel(peer, id)",
            "",
        ),
        (
            "a call that found no room is open",
            "            self.end(id)\n            raise self._busy(peer)",
            "            raise self._busy(peer)",
        ),
        (
            "bytes of calls that have ended count",
            "            self._outstanding_bytes -= ended[2]\n        return ended",
            "            pass\n        return ended",
        ),
        (
            "nobody is told that a call is overdue",
            "            ended.append((call[0], DeadlineExceeded(because)))\n            self._say_cancel(peer, id)",
            "            ended.append((call[0], DeadlineExceeded(because)))",
        ),
    ),
    *mutations(
        AREA,
        "transport/hearing.py",
        (f"{TESTS}/test_hearing.py",),
        (
            "a new generation is not asked",
            "if self._places.get(name) != generation]\n        self._places",
            "if name not in self._places]\n        self._places",
        ),
        (
            "a topic stands before all have answered",
            "        return [] if self._unanswered.get(topic) else self._waiting.pop(topic, [])",
            "        return self._waiting.pop(topic, [])",
        ),
        (
            "a topic is given up while somebody listens",
            "        if subscribers:\n            return []\n        del",
            "        del",
        ),
    ),
    *mutations(
        AREA,
        "transport/inbox.py",
        (f"{TESTS}/test_inbox.py",),
        (
            "what was dropped is not told",
            "lost=following.lost + oldest.lost + 1",
            "lost=following.lost + oldest.lost",
        ),
        (
            "bytes of what was taken count",
            "        self._bytes -= size\n        return",
            "        return",
        ),
    ),
    *mutations(
        AREA,
        "transport/call_checks.py",
        (f"{TESTS}/test_call_checks.py",),
        ("an argument that is given twice is lost", "        if name in keywords:", "        if False:"),
        ("a timeout may be NaN", "or not 0 < seconds <= TIMEOUT_MAX_S:", "or seconds <= 0 or seconds > TIMEOUT_MAX_S:"),
        ("True is a priority", " or isinstance(priority, bool)", ""),
    ),
    *mutations(
        AREA,
        "transport/directory.py",
        (f"{TESTS}/test_session.py", f"{TESTS}/test_resolver.py"),
        ("a route is idempotent though one place says no", "if route not in once_only)", "if True)"),
        ("the dead are up", "is_up=r.backplane not in down,", "is_up=True,"),
    ),
    *mutations(
        AREA,
        "runtime/execution/outgoing/outgoing_calls.py",
        (f"{DOERS}/test_object_retries.py",),
        (
            "objects make again what must not be done twice",
            "is_idempotent = type(route) is str and self._routing.is_idempotent(route)",
            "is_idempotent = True",
        ),
    ),
    *mutations(
        AREA,
        "transport/retrying.py",
        (f"{DOERS}/test_object_retries.py",),
        (
            "objects never give up before the deadline",
            "if not spec.is_retried or not is_retryable",
            "if not is_retryable",
        ),
    ),
    *mutations(
        AREA,
        "transport/frame_reader.py",
        (f"{TESTS}/test_interrupts.py",),
        (
            "whose answers a signal took away waits for the deadline",
            "            self.lost_from.append(lost.sender)\n",
            "",
        ),
        (
            "a frame that a signal left unread is forgotten",
            "received = self._received = self._link.receive()",
            "received = self._link.receive()",
        ),
    ),
    *mutations(
        AREA,
        "transport/waiting.py",
        (f"{TESTS}/test_interrupts.py",),
        (
            "a signal handler waits for the thread that it interrupts",
            "                    self._sleepers.add(me)\n",
            "",
        ),
        ("a thread that has waited may not call again", "            self._sleepers.discard(me)\n", ""),
    ),
)
