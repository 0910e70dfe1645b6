"""AwaitingCalls: calls that have come without some of their arguments, kept until these have come (docs/concepts/dataflow.md).

Such a call is accepted: its deadline, a cancellation, the death of its caller and a drain end it, and the throttle counts
it. It stands in no queue. When its last operand is there, it is admitted as if it had come then; so that is its place in the
order of its object. Only a peer that knows the random token of a call can fill its arguments, and only the first value of each
counts.

An operand may come before its call, by another connection. Those from backplanes are kept, within bounds of number, bytes and
time. A call whose operand had to be dropped is refused, so its caller retries it with all values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from appbackplane.transport import codec
from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.envelope import CALL, Envelope
from appbackplane.transport.errors import BackplaneError, Busy, DeadlineExceeded, InvalidArgument
from appbackplane.transport.unpacking import unpacked

from ...objects.action import LOCAL, AcceptedCalls, Outcome, ParkableAction
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.registry import Route
from ...observation.statistics import Statistics
from ..actions.completion import Completion

#: Operands kept that have come before their calls, and their bytes. A call and its operand leave their processes at about the
#: same time, so there are seldom more than a few.
EARLY_MAX = 4_096
EARLY_BYTES_MAX: Final = 64 << 20
#: How long: a call that has not come by then was cancelled, or lost with its caller.
EARLY_NS: Final = 30_000_000_000
#: Tokens remembered of calls that have ended, 100 bytes each: operands that come later are dropped, and not kept as early ones.
ENDED_MAX: Final = 8_192


class AwaitingCall(ParkableAction):
    """A call that awaits operands. It never runs: a new action takes its place."""

    __slots__ = ("asked", "missing", "number", "sender")

    def __init__(self, object: AppObject, priority: int, deadline_ns: int | None, peer: bytes, asked: Envelope) -> None:
        """`asked`: the call as it came from `peer`, whose arguments are filled in here."""
        super().__init__(object, asked.route, priority, deadline_ns)
        self.asked = asked
        self.sender = peer
        #: The missing arguments, each with the name of its source.
        self.missing: dict[str, str] = dict(asked.awaits or {})
        #: Its number in the table of deadlines.
        self.number = 0
        self.peer, self.call_id = peer, asked.id

    def run(self) -> Outcome:
        raise AssertionError(f"{self.name} awaits {self.waits_because()}: it is never queued")

    def waits_because(self) -> str:
        named = ", ".join(f"{argument!r} of {source}" for argument, source in self.missing.items())
        return f"operand {named}" if len(self.missing) == 1 else f"operands {named}"

    def reprioritise(self, priority: int) -> None:
        """Its caller gives it another priority, for the time when it is admitted."""
        self.asked.priority = self.priority = self.priority_own = priority


class AwaitingCalls:
    """The calls of one backplane that await operands. Used under the lead."""

    def __init__(self, *, statistics: Statistics, completion: Completion, accepted: AcceptedCalls) -> None:
        self._statistics = statistics
        self._completion = completion
        self._accepted = accepted
        self._by_token: dict[int, AwaitingCall] = {}
        #: Operands whose calls have not come, packed, by token and argument; the oldest first.
        self._early: dict[int, dict[str, bytes]] = {}
        self._early_numbers: dict[int, int] = {}
        self._early_bytes = 0
        #: Tokens of calls that await nothing any more. True: an early operand was dropped, so its call is refused.
        self._ended: dict[int, bool] = {}
        #: Ends of calls at their deadlines, and of early operands (as their tokens).
        self._deadlines: OutstandingCalls[AwaitingCall | int] = OutstandingCalls()
        #: In whose queues these calls stand for people who ask: an object without state for each component.
        self._objects: dict[str, AppObject] = {}
        #: Operands that were taken; and that came for a call that had ended, or a second time.
        self.received_count = self.late_count = 0

    def __len__(self) -> int:
        return len(self._by_token)

    def __iter__(self) -> Iterator[AwaitingCall]:
        return iter([*self._by_token.values()])

    def next_deadline_ns(self) -> int | None:
        """When `expire` is due; None: nothing is kept."""
        return self._deadlines.next_deadline_ns()

    def make(
        self, route: Route, peer: bytes, envelope: Envelope, priority: int, deadline_ns: int
    ) -> AwaitingCall | None:
        """The call as it is to be kept (`add`). None: its operands have all come before it, and are among its arguments now.

        Raises `InvalidArgument` for a call that may not await operands, and `Busy` if one of its operands was dropped.
        """
        self._check(route, envelope)
        token = envelope.token
        if self._ended.get(token):
            raise Busy(f"{route.name}: one of its operands came too early to be kept; send its value", retry_after=0.0)
        waiting = AwaitingCall(self._object_of(route.component), priority, deadline_ns, peer, envelope)
        for argument, packed in self._take_early(token).items():
            if argument in waiting.missing:
                del waiting.missing[argument]
                envelope.body[argument] = unpacked(packed)
                self.received_count += 1
        if waiting.missing:
            return waiting
        envelope.awaits = {}
        self._note_end(token)
        return None

    def add(self, waiting: AwaitingCall, now_ns: int) -> None:
        """Keep a call until its operands have come."""
        assert waiting.deadline_ns is not None, "a call has a deadline"
        waiting.posted_ns = now_ns
        waiting.number = self._deadlines.open(LOCAL, waiting.deadline_ns, waiting)
        self._by_token[waiting.asked.token] = waiting
        self._accepted[waiting.sender, waiting.asked.id] = waiting

    def refused(self, token: int) -> None:
        """A call that awaits operands was refused as it came: drop those that still come."""
        if token not in self._by_token:
            self._take_early(token)
            self._note_end(token)

    def receive(self, envelope: Envelope, now_ns: int, *, may_be_early: bool) -> AwaitingCall | None:
        """Take an operand. Returns the call that is complete with it, which is kept no more and is to be admitted next.

        `may_be_early`: whether it comes from a backplane, so that its call may come later, by another connection.
        """
        token, argument = envelope.id, envelope.route
        assert argument is not None
        waiting = self._by_token.get(token)
        if waiting is None:
            if may_be_early and token not in self._ended:
                self._keep_early(token, argument, envelope, now_ns)
            else:
                self.late_count += 1
            return None
        if argument not in waiting.missing:
            self.late_count += 1
            return None
        del waiting.missing[argument]
        waiting.asked.body[argument] = envelope.body
        self.received_count += 1
        if waiting.missing:
            return None
        self._remove(waiting)
        self._accepted.pop((waiting.sender, waiting.asked.id), None)
        if waiting.throttle is not None:
            waiting.throttle.ended(now_ns)
            waiting.throttle = None
        asked = waiting.asked
        asked.awaits, asked.deadline = {}, -(waiting.deadline_ns or 0)
        return waiting

    def drop(self, waiting: AwaitingCall, error: BackplaneError, now_ns: int) -> None:
        """End a call that still awaits operands."""
        self._remove(waiting)
        self._completion.refuse(waiting, error, now_ns)

    def expire(self, now_ns: int) -> None:
        """End calls at their deadlines, and forget early operands whose calls have not come."""
        for _, _, each in self._deadlines.expire(now_ns):
            if isinstance(each, int):
                self._early_numbers.pop(each, None)
                self._take_early(each)
            elif each.asked.token in self._by_token:
                self._statistics.of(each.name).expired_count += 1
                late = f"{each.name}: the deadline passed while it awaited {each.waits_because()}"
                self.drop(each, DeadlineExceeded(late), now_ns)

    def figures(self) -> dict[str, int]:
        """For the statistics."""
        return {
            "awaiting": len(self._by_token),
            "received": self.received_count,
            "late": self.late_count,
            "early": sum(map(len, self._early.values())),
        }

    # -- steps --------------------------------------------------------------------------------------------------------

    def _check(self, route: Route, envelope: Envelope) -> None:
        """Raises `InvalidArgument` for a call that may not await operands."""
        awaits, specs = envelope.awaits or {}, [*route.specs.values()]
        where = f"{route.name}: argument {next(iter(awaits))!r} is a promise"
        if envelope.kind != CALL or not envelope.id or envelope.token in self._by_token:
            raise InvalidArgument(f"{where}: a call awaits its operands once, under a token of its own")
        if any(each.is_stream for each in specs):
            raise InvalidArgument(f"{where}: an operation with a stream takes none; wait for its value and pass that")
        if any(each.batched is not None for each in specs):
            raise InvalidArgument(
                f"{where}: an operation that takes a batch takes none; wait for its value and pass that"
            )
        if any(each.streamed is not None and each.streamed[0] in awaits for each in specs):
            raise InvalidArgument(f"{where}: the operation reads a stream there; pass stream(...)")
        for argument in awaits:
            if argument in envelope.body:
                raise InvalidArgument(f"{route.name}: argument {argument!r} is given twice")
            if specs and not any(_takes(each.function, argument) for each in specs):
                raise InvalidArgument(f"{route.name}: unknown argument {argument!r}; expected {route.signature}")

    def _object_of(self, component: Component) -> AppObject:
        object = self._objects.get(component.component_name)
        if object is None:
            object = self._objects[component.component_name] = AppObject()
            object._component, object._name = component, f"{component.name}.operands"
        return object

    def _remove(self, waiting: AwaitingCall) -> None:
        token = waiting.asked.token
        self._by_token.pop(token, None)
        self._deadlines.end(waiting.number)
        self._note_end(token)

    def _note_end(self, token: int, *, is_refused: bool = False) -> None:
        self._ended[token] = is_refused
        while len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def _keep_early(self, token: int, argument: str, envelope: Envelope, now_ns: int) -> None:
        packed = codec.Encoder(has_signals=False).pack(envelope.body)
        kept = self._early.get(token)
        if kept is None:
            kept = self._early[token] = {}
            self._early_numbers[token] = self._deadlines.open(LOCAL, now_ns + EARLY_NS, token)
        if argument in kept:
            self.late_count += 1
            return
        kept[argument] = packed
        self._early_bytes += len(packed)
        while self._early_bytes > EARLY_BYTES_MAX or len(self._early) > EARLY_MAX:
            oldest = next(iter(self._early))
            self.late_count += len(self._take_early(oldest))
            self._note_end(oldest, is_refused=True)

    def _take_early(self, token: int) -> dict[str, bytes]:
        kept = self._early.pop(token, {})
        self._early_bytes -= sum(map(len, kept.values()))
        number = self._early_numbers.pop(token, 0)
        if number:
            self._deadlines.end(number)
        return kept


@cache
def _parameters(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names of its parameters; None: it takes any. Kept for each operation, as finding out takes 20 us."""
    parameters = inspect.signature(function).parameters
    is_open = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return None if is_open else frozenset(parameters)


def _takes(function: Callable[..., Any], argument: str) -> bool:
    """Whether a function has a parameter of this name."""
    parameters = _parameters(function)
    return parameters is None or argument in parameters
