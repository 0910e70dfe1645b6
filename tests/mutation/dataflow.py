"""Dataflow: which value goes where, who sends it, what may be lost, and what nobody can fill."""

from __future__ import annotations

from tests.mutation.mutation import mutations

TESTS = ("tests/runtime/execution/test_dataflow.py",)

MUTATIONS = (
    *mutations(
        "dataflow",
        "transport/dataflow.py",
        TESTS,
        ("a wish that came too late is taken for one carried out", "of_this[:forwarded_count]", "of_this"),
        (
            "nobody is asked to send a result on",
            "            core.put(peer, envelope.forward(",
            "            str((peer, ",
        ),
        (
            "a value lost with its callee is not sent again",
            "                if via == peer:",
            "                if via != via:",
        ),
        (
            "the wishes of calls that have ended are not counted",
            "source.awaiting or source.followers or source.forwards",
            "source.awaiting or source.followers",
        ),
        (
            "a circle is not seen",
            "                if awaited is promise:",
            "                if awaited is not awaited:",
        ),
        (
            "a failed operand is not passed on",
            "if error is None else self.fail(source, error)",
            "if error is None else []",
        ),
        (
            "a promise that follows keeps its calls",
            "            source.awaiting[identity, name] = call\n            self._forward",
            "            self._forward",
        ),
        (
            "what may have begun is repeated",
            "may_have_begun = not error.is_refused and all(",
            "may_have_begun = error.is_refused and all(",
        ),
        (
            "a dropped promise lives on in the call",
            "        call.spec.operands = None  # a",
            "        # a",
        ),
        (
            "a call ends twice with its operand",
            "        if not self._core.give_up(call.id):",
            "        if self._core.give_up(-1):",
        ),
    ),
    *mutations(
        "dataflow",
        "runtime/execution/intake/awaiting_calls.py",
        TESTS,
        (
            "a second value counts",
            "        if argument not in waiting.missing:\n            self.late",
            "        if False:\n            self.late",
        ),
        (
            "a call begins with its first operand",
            "        if waiting.missing:\n            return None",
            "        if False:\n            return None",
        ),
        (
            "a complete call keeps its place in the limit",
            "            waiting.throttle.ended(now_ns)",
            "            pass",
        ),
        (
            "early operands are lost",
            "            if may_be_early and token not in self._ended:",
            "            if False:",
        ),
        ("a stranger's operands are kept", "            if may_be_early and token", "            if token"),
        (
            "a call waits for an operand that was dropped",
            "            self._note_end(oldest, is_refused=True)",
            "            self._note_end(oldest)",
        ),
    ),
    *mutations(
        "dataflow",
        "runtime/execution/actions/coroutines.py",
        ("tests/runtime/execution/test_operand_calls.py",),
        (
            "a call begins before its operands",
            "[call for call in self.calls if not call.missing_count]",
            "[*self.calls]",
        ),
        (
            "a result is not given to the call that needs it",
            "                fed.spec.body[argument] = outcome",
            "                pass",
        ),
        (
            "the failure of an operand is not named",
            "            call, error = fed, _failed",
            "            call, _ = fed, _failed",
        ),
        (
            "a call that was awaited is an operand",
            "            if operand.gather is not None or",
            "            if False and",
        ),
        (
            "a call fails twice with its operands",
            "                if fed.missing_count < 0:",
            "                if fed.missing_count > 9:",
        ),
    ),
    *mutations(
        "dataflow",
        "runtime/execution/outgoing/forwarding.py",
        TESTS,
        ("a reply does not count what was sent on", "            sent_count += 1", "            pass"),
        ("wishes are kept for ever", "        self._count -= len(wanted)", "        pass"),
        ("another generation gets the value", " or place.generation != generation:", ":"),
    ),
)
