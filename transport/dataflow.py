"""Dataflow: the caller's side of calls that await results of other calls, or promises.

Such a call leaves at once, and names the arguments that it awaits. The callees of these are asked to send their results
straight there (FORWARD), so that none makes a round trip through the caller. A result that was not sent so, because its callee
had replied already, is sent by the caller (OPERAND). A reply says how many were sent. The callee of the waiting call takes the
first value of each argument, and ignores any other: so the caller may repeat what may be lost, as after a callee's death.

Some calls are kept here until all operands are there (HELD): those to other hosts, and those that could not be placed yet or
were refused. Values are kept packed until the call that awaited them has ended. Pure, as the caller core to which it belongs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from . import codec, envelope
from .addressing import SUPERVISOR
from .call_spec import CallSpec
from .errors import BackplaneError, Busy, FailedPrecondition, InvalidArgument, OperandFailed, text_of
from .pseudo_peers import pseudo_peer
from .pulling import UNSENT
from .retrying import WAITING, is_retryable
from .unpacking import unpacked

if TYPE_CHECKING:
    from .caller_core import CallerCore, OpenCall

#: Stands for the callee of a call that is kept here until its operands are there. A link names no peer so.
HELD: Final = pseudo_peer("held")
#: Calls that wait for one source: as many as a client may have outstanding.
AWAITING_MAX: Final = 4_096
#: The error for the caller of a call that has ended, with the token of the call.
EndedCall = tuple[object, BackplaneError]


def random_token() -> int:
    """A word that nobody guesses: who knows it may fill the arguments of one call."""
    return (int.from_bytes(os.urandom(8), "big") >> 1) or 1


class OperandSource:
    """Where a value comes from: an outstanding call, or a promise."""

    __slots__ = ("awaiting", "error", "followers", "follows", "forwards", "id", "name", "packed", "token")

    def __init__(self, token: object, id: int, name: str) -> None:
        """`token`, `id`: of the call in its session; None and 0 for a promise."""
        self.token = token
        self.id = id
        self.name = name
        #: The calls that wait for it, by their identity and the argument.
        self.awaiting: dict[tuple[int, str], DependentCall] = {}
        #: FORWARDs to the callee of one attempt of the call, oldest first: (id of the attempt, callee, call, argument).
        self.forwards: list[tuple[int, bytes, DependentCall, str]] = []
        #: Of a promise: the source that fills it. Of any source: the promises that it fills.
        self.follows: OperandSource | None = None
        self.followers: list[OperandSource] = []
        self.packed: bytes | None = None
        self.error: BackplaneError | None = None

    @property
    def has_ended(self) -> bool:
        return self.packed is not None or self.error is not None


class DependentCall:
    """A call that was begun before all of its operands were there."""

    __slots__ = (
        "arguments",
        "asked",
        "id",
        "is_doomed",
        "is_held",
        "peer",
        "sources",
        "spec",
        "token",
        "values",
        "via",
        "word",
    )

    def __init__(self, token: object, spec: CallSpec, arguments: bytes) -> None:
        """`arguments`: those that were there when it was made, packed."""
        self.token = token
        self.spec = spec
        self.arguments = arguments
        #: The id that its caller knows.
        self.id = 0
        self.sources: dict[str, OperandSource] = {}
        self.values: dict[str, bytes] = {}
        #: Arguments whose sources were asked to send them on; and the peers that have said that they did.
        self.asked: set[str] = set()
        self.via: dict[str, bytes] = {}
        #: Whether it is kept here; else its callee, which knows it by this word.
        self.is_held = False
        #: Whether one of its operands has failed, while it was about to end anyway.
        self.is_doomed = False
        self.peer = b""
        self.word = 0

    @property
    def is_complete(self) -> bool:
        return len(self.values) == len(self.sources)

    def missing(self) -> list[str]:
        """Its missing arguments, for people."""
        return [f"{name!r} of {source.name}" for name, source in self.sources.items() if name not in self.values]

    def body(self) -> dict[str, Any]:
        """All arguments, once they are there."""
        body: dict[str, Any] = unpacked(self.arguments)
        return body | {name: unpacked(packed) for name, packed in self.values.items()}


class Dataflow:
    """The waiting calls of one process, and the sources of their operands."""

    def __init__(self, core: CallerCore, random: Callable[[], int] = random_token) -> None:
        self._core = core
        self._random = random
        self._sources: dict[object, OperandSource] = {}
        self._calls: dict[object, DependentCall] = {}
        #: Operands that this process has sent itself, because their sources had not.
        self.carried_count = 0

    @property
    def is_used(self) -> bool:
        """Whether any call waits for operands: then each end of a call is told to `ended`."""
        return bool(self._calls) or bool(self._sources)

    # -- begin --------------------------------------------------------------------------------------------------------

    def begin(self, token: object, spec: CallSpec) -> int:
        """Begin a call with `spec.operands`; returns its id. Raises what `CallerCore.call` raises; then nothing has begun."""
        call = self._made(token, spec)
        peer = self._callee(spec)
        if peer is None:
            return self._hold(call)
        core = self._core
        spec.awaits = {name: source.name for name, source in call.sources.items()}
        spec.token = call.word = self._random()
        body = spec.body
        try:
            call.id, call.peer = core.open(peer, token, spec), peer
        except BaseException:
            spec.body, spec.awaits = body, None
            raise
        self._note(call)
        for name, source in call.sources.items():
            self._forward(source, call, name)
        return call.id

    def hold(self, token: object, spec: CallSpec) -> int:
        """As `begin`, for a call that cannot be sent now: it leaves when its operands are there."""
        return self._hold(self._made(token, spec))

    def _made(self, token: object, spec: CallSpec) -> DependentCall:
        assert spec.operands is not None
        core = self._core
        call = DependentCall(token, spec, core.pack_arguments(spec))
        made: dict[object, OperandSource] = {}
        for name, operand in spec.operands.items():
            source = self._source_of(operand)
            source = made.setdefault(source.token or source, source)
            if len(source.awaiting) >= AWAITING_MAX:
                raise Busy(f"{spec.route}: {AWAITING_MAX:,} calls wait for {source.name} already: wait for its result")
            call.sources[name] = source
        return call

    def _callee(self, spec: CallSpec) -> bytes | None:
        """The peer to send the call to at once; None: the call is kept here, as operands cannot be sent there."""
        core, resolver = self._core, self._core.resolver
        peer = core.peer_for(spec.route, spec.routing_key())
        if core.home != SUPERVISOR or resolver is None or peer == core.connections.peer(core.home):
            return None
        node = resolver.directory.node
        return None if node and core.connections.peer(node) == peer else peer

    def _hold(self, call: DependentCall) -> int:
        call.is_held = True
        call.id = self._core.hold(call.token, call.spec, len(call.arguments))
        self._note(call)
        return call.id

    def _note(self, call: DependentCall) -> None:
        call.spec.operands = None  # a promise that its user drops must not live on here
        self._core.has_flow = True
        self._calls[call.token] = call
        for name, source in call.sources.items():
            if source.token is not None:
                self._sources[source.token] = source
            source.awaiting[id(call), name] = call

    def _source_of(self, operand: Any) -> OperandSource:
        token, id, name = operand._source()
        if isinstance(token, OperandSource):
            return _root(token)
        return self._sources.get(token) or OperandSource(token, id, name)

    def _forward(self, source: OperandSource, call: DependentCall, name: str) -> None:
        """Ask the callee of `source` to send its result straight to `call`."""
        core = self._core
        if source.token is None or call.is_held:
            return
        id = core.current_id(source.id)
        peer = core.calls.peer_of(id)
        if peer is None or peer in (WAITING, UNSENT, HELD) or peer == core.connections.peer(core.home):
            return  # it is sent by this process
        backplane = core.connections.name(call.peer)
        generation = core.connections.generation(backplane)
        if generation is None:
            return
        try:
            core.put(peer, envelope.forward(id, name, backplane, generation, call.word))
        except Busy:  # it does not read: this process will send the result
            return
        call.asked.add(name)
        source.forwards.append((id, peer, call, name))

    # -- values -------------------------------------------------------------------------------------------------------

    def arrived(self, token: object, id: int, forwarded_count: int) -> None:
        """The reply to attempt `id` of a call has come; its callee has carried out so many FORWARDs, the first ones first."""
        source = self._sources.get(token)
        if source is None or not forwarded_count:
            return
        of_this = [each for each in source.forwards if each[0] == id]
        for _, peer, call, name in of_this[:forwarded_count]:
            call.via[name] = peer

    def ended(self, token: object, result: Any, error: BackplaneError | None, now_ns: int) -> list[EndedCall]:
        """A call has ended. Returns the calls that end because of this, each with its error; each is to be told here, too."""
        ended: list[EndedCall] = []
        source = self._sources.get(token)
        if source is not None:
            packed = b""
            if error is None:
                try:
                    packed = self._core.pack_value(result)
                except (
                    InvalidArgument
                ) as problem:  # it has come over the wire; but its caller may be changing it already
                    error = problem
            ended = self.fill(source, packed, now_ns) if error is None else self.fail(source, error)
            self._sources.pop(token, None)
        call = self._calls.get(token)
        if call is not None:
            self._forget(call)
        return ended

    def fill(self, source: OperandSource, packed: bytes, now_ns: int) -> list[EndedCall]:
        """A value is there: send it to the calls that still miss it. Returns calls that end in errors now."""
        ended: list[EndedCall] = []
        for each in _group(source):
            each.packed = packed
            for (_, name), call in [*each.awaiting.items()]:
                if name in call.values or self._calls.get(call.token) is not call:
                    continue
                call.values[name] = packed
                if not call.is_held:
                    if name not in call.via and (problem := self._send(call, name)) is not None:
                        ended += self._end(call, problem)
                elif call.is_complete:
                    self._forget(call)
                    call.spec.body, call.spec.awaits = call.body(), None
                    failed = self._core.release(call.id, now_ns)
                    if failed is not None:
                        ended.append((call.token, failed))
        return ended

    def fail(self, source: OperandSource, error: BackplaneError) -> list[EndedCall]:
        """A value will never come: end the calls that await it. Returns them."""
        ended: list[EndedCall] = []
        for each in _group(source):
            each.error = error
            for (_, name), call in [*each.awaiting.items()]:
                if self._calls.get(call.token) is call:  # it may await the source twice
                    ended += self._end(call, OperandFailed(call.spec.route, name, each.name, error))
        return ended

    def drop(self, promise: OperandSource) -> list[EndedCall]:
        """Nobody can assign a promise any more. Returns the calls that end because of this."""
        if promise.has_ended or promise.follows is not None:
            return []
        lost = FailedPrecondition(f"{promise.name} was dropped before it was assigned, so nobody can fill it any more")
        return self.fail(promise, lost)

    def lost(self, peer: bytes) -> list[EndedCall]:
        """A backplane has ended. What it has sent to other backplanes may be lost, so it is sent again. Returns as `fill`."""
        ended: list[EndedCall] = []
        for call in [*self._calls.values()]:
            if call.is_held or call.peer == peer:
                continue
            for name, via in [*call.via.items()]:
                if via == peer:
                    del call.via[name]
                    if name in call.values and (problem := self._send(call, name)) is not None:
                        ended += self._end(call, problem)
                        break
        return ended

    def _send(self, call: DependentCall, name: str) -> BackplaneError | None:
        """Send the value of an argument to the callee of the call. Returns the error if that is not possible."""
        try:
            self._core.put_packed(call.peer, codec.operand(call.word, name, call.values[name]))
        except (Busy, InvalidArgument) as error:
            return OperandFailed(call.spec.route, name, call.sources[name].name, error)
        self.carried_count += 1
        return None

    def _end(self, call: DependentCall, error: BackplaneError) -> list[EndedCall]:
        if not self._core.give_up(call.id):
            # It is one of several calls that end now, because their callee has died: its own end comes next.
            call.is_doomed = True
            return []
        self._forget(call)
        return [(call.token, error)]

    def _forget(self, call: DependentCall) -> None:
        """A call needs its operands no more."""
        self._calls.pop(call.token, None)
        for name, source in call.sources.items():
            source.awaiting.pop((id(call), name), None)
            # With wishes, it stays until its end: the reply counts all of them, also of calls that have ended before it came.
            if not (source.awaiting or source.followers or source.forwards) and source.token is not None:
                self._sources.pop(source.token, None)

    # -- failed attempts ----------------------------------------------------------------------------------------------

    def failed(self, call: OpenCall, token: object, error: BackplaneError) -> OpenCall | None:
        """An attempt of a call has ended in `error`. Returns the call as it may be retried by the caller core; None: it is kept
        here until its operands are there.
        """
        dependent = self._calls.get(token)
        if dependent is None or dependent.is_held:
            return call
        spec = dependent.spec
        if dependent.is_doomed:
            return (call[0], spec, call[2], None)
        if dependent.is_complete:
            self._forget(dependent)
            spec.body, spec.awaits = dependent.body(), None
            try:
                return self._core.repacked(token, spec)
            except InvalidArgument:  # together they are too large for one frame
                return (call[0], spec, call[2], None)
        # It cannot have begun, unless all that is missing here may have been sent there.
        may_have_begun = not error.is_refused and all(
            name in dependent.values or name in dependent.asked for name in dependent.sources
        )
        resolver = self._core.resolver
        is_repeatable = (
            not may_have_begun
            or spec.idempotency_key is not None
            or (resolver is not None and resolver.is_idempotent(spec.route))
        )
        if resolver is None or not spec.is_retried or not is_retryable(error, is_repeatable=is_repeatable):
            return (call[0], spec, call[2], None)
        dependent.is_held, dependent.peer = True, b""
        dependent.via.clear()
        self._core.hold(token, spec, len(dependent.arguments), dependent.id)
        return None

    # -- promises -----------------------------------------------------------------------------------------------------

    def follow(self, promise: OperandSource, operand: Any) -> None:
        """Let a promise be filled by an operand that has not ended. Raises `FailedPrecondition`, which names the circle, if
        the operand waits for the promise.
        """
        source = self._source_of(operand)
        self._check_circle(promise, source, operand._source()[2])
        for (identity, name), call in promise.awaiting.items():
            call.sources[name] = source
            source.awaiting[identity, name] = call
            self._forward(source, call, name)
        promise.awaiting.clear()
        self._core.has_flow = True
        promise.follows = source
        source.followers.append(promise)
        if source.token is not None:
            self._sources[source.token] = source

    def _check_circle(self, promise: OperandSource, source: OperandSource, name: str) -> None:
        if source is promise:
            raise FailedPrecondition(f"{promise.name} would follow itself: a circle that nobody can ever fill")
        #: Each source that was reached, with the one that awaits it, and as which argument.
        reached: dict[int, tuple[OperandSource | None, str]] = {id(source): (None, "")}
        ahead = [source]
        while ahead:
            here = ahead.pop()
            call = self._calls.get(here.token) if here.token is not None else None
            for argument, awaited in call.sources.items() if call is not None else ():
                if call is None or argument in call.values or id(awaited) in reached:
                    continue
                reached[id(awaited)] = (here, argument)
                if awaited is promise:
                    raise FailedPrecondition(
                        f"a circle that nobody can ever fill: {promise.name} would follow {name}, {_steps(promise, reached)}"
                    )
                ahead.append(awaited)

    def awaits(self, token: object) -> list[str]:
        """The missing operands of a call, for people."""
        call = self._calls.get(token)
        return [] if call is None else call.missing()


def _steps(source: OperandSource, reached: dict[int, tuple[OperandSource | None, str]]) -> str:
    """The way to a source, each step with the argument that it is awaited as."""
    steps: list[str] = []
    before, argument = reached[id(source)]
    while before is not None:
        steps.append(f"{before.name} awaits {argument!r} of {source.name}")
        source = before
        before, argument = reached[id(source)]
    return text_of(", ".join(reversed(steps)))


def _root(source: OperandSource) -> OperandSource:
    """The source that fills this one."""
    while source.follows is not None:
        source = source.follows
    return source


def _group(source: OperandSource) -> list[OperandSource]:
    """A source, and the promises that follow it, over any number of steps."""
    group = [source]
    for each in group:
        group += each.followers
    return group
