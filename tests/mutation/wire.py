"""Wire: frames, envelopes, outboxes, links and what another host may send."""

from __future__ import annotations

from tests.mutation.mutation import Mutation, mutations

AREA = "wire"
TESTS = "tests/transport"

MUTATIONS: tuple[Mutation, ...] = (
    *mutations(
        AREA,
        "runtime/execution/intake/sources.py",
        ("tests/runtime/execution/test_sources.py", "tests/runtime/execution/test_admission.py"),
        (
            "a client poses as another",
            "return self._routing.by_pid.get(pid) if pid else None",
            'return "web"',
        ),
        ("a backplane cannot name a source", "        if said is not None:\n            return said\n", ""),
        ("all other hosts are one caller", 'if source.startswith("node:") else peer', "if False else peer"),
        ("a new backplane stays a client", "        self._clients.clear()\n", "        pass\n"),
    ),
    *mutations(
        AREA,
        "runtime/execution/intake/intake.py",
        ("tests/runtime/execution/test_sources.py", "tests/runtime/execution/test_admission.py"),
        ("a client speaks for anybody", "            principal = None\n", "            pass\n"),
        ("a refused source is served", '        if rule == "refuse":', "        if False:"),
    ),
    *mutations(
        AREA,
        "runtime/peers/inward.py",
        ("tests/runtime/peers/test_inward.py",),
        ("one call of another host fills a callee", "unread.bytes + size > UNREAD_BYTES_MAX or ", ""),
        (
            "items of a shared frame are not counted",
            "size = len(self._encoder.pack(envelope.body)) if arrival.is_shared else arrival.bytes",
            "size = 0 if arrival.is_shared else arrival.bytes",
        ),
        (
            "items of a shared frame cost the whole frame",
            "size = len(self._encoder.pack(envelope.body)) if arrival.is_shared else arrival.bytes",
            "size = arrival.bytes",
        ),
        ("a key of another host fills a callee", " or usage.unread + size > UNREAD_OF_KEY_MAX", ""),
        (
            "what was read counts as unread",
            "self._usage[held.holder].unread -= held.unread.credited(credited.credit)",
            "pass",
        ),
        (
            "unread items of a call that has ended count",
            "            usage.unread -= held.unread.bytes\n",
            "            pass\n",
        ),
    ),
    *mutations(
        AREA,
        "runtime/peers/outward.py",
        ("tests/runtime/peers/test_outward.py",),
        (
            "items without room leave a hole",
            "            self._end(id)\n            error = Busy",
            "            error = Busy",
        ),
    ),
    *mutations(
        AREA,
        "transport/codec.py",
        (f"{TESTS}/test_codec.py",),
        ("a batch of sixteen is no array", "    if count < 16:", "    if count <= 16:"),
        ("a frame may be of any size", "    if len(frame) > FRAME_BYTES_MAX:", "    if False:"),
        (
            "an id beyond 32 bits is cut",
            'packed = b"".join((_HEADS[kind], packed_id, rest))',
            'packed = b"".join((_HEADS[kind], _pack_id(_UINT32, id & _ID_MAX), rest))',
        ),
        ("a frame holds any number of envelopes", " or len(rows) > ENVELOPES_MAX", ""),
        (
            "the key of idempotency is lost on its way",
            "            idempotency_key = fields[9]\n",
            "            pass\n",
        ),
        (
            "a route may be a number",
            "if type(route) is not str or type(body) is not dict:",
            "if type(body) is not dict:",
        ),
        ("the end of an argument is lost", "fields[3] == LAST", "fields[3] == BLOCKED"),
        ("a window may be 0", "(type(window) is int and window >= 1)", "type(window) is int"),
        ("a deadline may be a string", " and _is_int_or_nil(deadline)", ""),
        ("a status may have three fields", "        and len(body) == 4\n", "        and len(body) >= 3\n"),
        ("what was not begun looks as if it had", "is_refused=fields[3] == REFUSED", "is_refused=False"),
        (
            "a handler's exception looks like a bad argument",
            "        return is_called and self._can_pack(value)",
            "        return False",
        ),
        (
            "a handler's exception loses a frame",
            "        if _can_unpack(frame):",
            "        if False:",
        ),
        (
            "a retry bears the id of the call before",
            "return packed[:before] + numbered + packed[start.tell() :]",
            "return packed",
        ),
        (
            "one who asks too much is not told",
            "if start.read_array_header() != 1 or",
            "if start.read_array_header() == 1 or",
        ),
    ),
    *mutations(
        AREA,
        "transport/envelope.py",
        (f"{TESTS}/test_codec.py",),
        (
            "a deadline by the clock counts as a duration",
            "return now_ns + deadline if deadline >= 0 else -deadline",
            "return now_ns + abs(deadline)",
        ),
        (
            "a hint that is no number spoils the answer",
            "    error = sound(error)\n",
            "",
        ),
        ("a remote traceback fills the frame", "text_of(error.trace, TRACE_MAX)", "error.trace"),
    ),
    *mutations(
        AREA,
        "transport/errors.py",
        (f"{TESTS}/test_errors.py",),
        ("an unknown status ends the reader", "    except (ValueError, KeyError):", "    except KeyError:"),
        ("a message may be of any length", "    if len(text) > length_max:", "    if False:"),
        (
            "what no encoding knows cannot be told",
            'return text.encode(errors="backslashreplace").decode()',
            "return text",
        ),
    ),
    *mutations(
        AREA,
        "transport/batching.py",
        (f"{TESTS}/test_batching.py",),
        (
            "who does not read fills our memory",
            "        elif pending.bytes + len(packed) > PEER_BYTES_MAX:\n",
            "        elif False:\n",
        ),
        ("what was sent is still counted", "        pending.bytes -= pending.frame_bytes\n", ""),
        (
            "what a full socket did not take is lost",
            "            return sent\n        del envelopes",
            "            pass\n        del envelopes",
        ),
        (
            "what is taken out is not what was sent",
            "        del envelopes[: pending.frame_count]\n",
            "        del envelopes[-pending.frame_count :]\n",
        ),
        (
            "a frame grows beyond its bound",
            "if count and (size + len(packed) > BATCH_BYTES_MAX or count == BATCH_MAX):",
            "if count and count == BATCH_MAX:",
        ),
        ("a frame at which a signal struck is made anew", "        frame = pending.frame\n", "        frame = None\n"),
        ("another frame goes before one at which a signal struck", "            self._offered = peer\n", ""),
        (
            "who reads again still counts as stalled",
            "                self.stalled.discard(peer)\n            if sent",
            "                pass\n            if sent",
        ),
        ("what waits for the dead is kept", "        self._pending.pop(peer, None)\n", ""),
    ),
    *mutations(
        AREA,
        "transport/unpacking.py",
        (f"{TESTS}/test_unpacking.py", f"{TESTS}/test_codec.py", f"{TESTS}/test_foreign_frames.py"),
        (
            "an extension value is a plain list where it arrives",
            "    return tuple.__new__(msgpack.ExtType, (code, data))",
            "    return [code, data]",
        ),
        (
            "keys that were tuples end the whole batch",
            "    if type(key) is dict:  # a frozen",
            "    if False:  # a frozen",
        ),
        (
            "the collector stays off",
            "        if is_on:\n            gc.enable()",
            "        if False:\n            gc.enable()",
        ),
        ("a timestamp is an integer beyond 64 bits", "SECONDS: Final = 1", "SECONDS: Final = 2"),
        ("values from this host are not counted", "        if self._values > VALUES_MAX:", "        if False:"),
        ("names are not counted", "        self._count(1 + len(value))", "        self._count(1)"),
        ("names that are integers are not counted", "        self._count(1 + len(pairs))", "        self._count(1)"),
        ("the collector looks through large frames", "        gc.disable()  # a signal", "        pass  # a signal"),
        ("large frames are not counted", " if len(frame) > UNCOUNTED_BYTES else None", " if False else None"),
    ),
    *mutations(
        AREA,
        "transport/foreign_frames.py",
        (f"{TESTS}/test_foreign_frames.py",),
        (
            "lists from another host are not counted",
            "        if self._containers > CONTAINERS_MAX:",
            "        if False:",
        ),
        ("names from another host are not counted", "        if self._names > NAMES_MAX:", "        if False:"),
        (
            "keys that collide hold the reader up",
            "            if any(map(int.__eq__, hashes, hashes[SAME_HASH_MAX:])):",
            "            if False:",
        ),
        (
            "what stands behind a batch is overlooked",
            "            if self._unpacker.tell() != len(self._frame):",
            "            if False:",
        ),
        (
            "large frames are not counted at all",
            "        if len(frame) <= UNCOUNTED_BYTES:",
            "        if len(frame) <= codec.FRAME_BYTES_MAX:",
        ),
    ),
    *mutations(
        AREA,
        "transport/link.py",
        (f"{TESTS}/test_link.py",),
        ("a stranger takes the place of who lives", "(zmq.ROUTER_HANDOVER, 0)", "(zmq.ROUTER_HANDOVER, 1)"),
        ("who connects again is ignored for ever", "{self._token or os.urandom(8).hex()}", "{self._token}"),
        ("who is not there looks as if he had heard", "            (zmq.ROUTER_MANDATORY, 1),\n", ""),
        ("a path that is too long is cut", "        if len(os.fsencode(path)) > PATH_BYTES_MAX:", "        if False:"),
        (
            "large frames fill the memory",
            "        return sum(bytes for _, bytes in large) + size <= LARGE_BYTES_MAX",
            "        return True",
        ),
        ("the socket file stays", "            path.unlink(missing_ok=True)", "            pass"),
        ("a message that a signal cut is left open", "        self._send(leaving, _NOBLOCK)\n", ""),
        ("a message that a signal cut leaves twice", "        return leaving is frame\n", "        return False\n"),
        ("a frame that a signal took away is not missed", "        raise FrameLost(sender)", "        return False"),
        (
            "a message of many parts is taken for one",
            "        if part.more:\n",
            "        if False:\n",
        ),
        (
            "all of a message of many parts is dropped at once",
            "if self._drop_parts() == PARTS_DROPPED_MAX:",
            "while self._drop_parts() == PARTS_DROPPED_MAX:\n                pass\n            if False:",
        ),
    ),
    *mutations(
        AREA,
        "transport/remote/greeting.py",
        (f"{TESTS}/remote/test_greeting.py",),
        ("an old client is welcome", "    if hello.protocol < PROTOCOL_OLDEST:", "    if False:"),
        (
            "a client that is too new is welcome",
            "    if hello.oldest > PROTOCOL:",
            "    if hello.oldest > PROTOCOL + 1:",
        ),
    ),
    *mutations(
        AREA,
        "transport/peers/window.py",
        (f"{TESTS}/peers/test_window.py",),
        ("the window never shrinks", "            if queue_ns > QUEUE_NS:", "            if False:"),
        ("the window shuts for ever", " or not self._marks:\n            return True", ":\n            return True"),
        (
            "a reader may say that he has read what was never sent",
            "        if not 0 <= total <= self.sent:",
            "        if total < 0:",
        ),
    ),
    *mutations(
        AREA,
        "transport/topics.py",
        (f"{TESTS}/test_topics.py",),
        (
            "the topic above is heard below",
            'pattern[:-2]) if pattern.endswith(".*")',
            'pattern[:-1]) if pattern.endswith(".*")',
        ),
        ("a gap is one too long", "number - last.number - 1", "number - last.number"),
        (
            "who has subscribed since is not found",
            '        """Subscribe; a repetition has no effect."""\n        self._found.clear()\n',
            '        """Subscribe; a repetition has no effect."""\n',
        ),
        (
            "numbers that a new process gives count as a gap",
            "        for pair in [pair for pair in self._last if pair[0] == publisher]:\n            del self._last[pair]",
            "        pass",
        ),
    ),
)
