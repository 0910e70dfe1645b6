"""Coroutines: the awaitables of an `async def` operation, as a worker drives it.

There is no event loop: the scheduler resumes a coroutine like any other action. Awaiting yields an instruction to the worker:
a `CallRequest` (the object goes to the wait queue, law 6), a `Pause` (a timer wakes it) or `STEP_ASIDE` (higher-priority
work runs first). Any other awaitable raises an explaining TypeError inside the coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import BackplaneError, InvalidArgument, OperandFailed
from appbackplane.transport.item_buffer import ItemBuffer
from appbackplane.transport.item_sender import ItemSender

from ..workers.current import current

if TYPE_CHECKING:
    from .method_action import MethodAction


class CallRequest:
    """`await self.call(...)`. All attempts share the deadline `spec.ends_ns`, which the first one sets.

    `action` and `id` are written under the lead: the action that awaits it, once it has begun, and its present id in the call
    table; 0: it has not begun, or has ended.
    """

    __slots__ = (
        "action", "attempts_count", "feeds", "gather", "id", "may_have_begun", "missing_count", "number", "operands",
        "sent_priority", "spec",
    )  # fmt: skip
    #: What the packer refuses where it is no whole argument of a call (transport/codec.py).
    is_unsent_call: ClassVar[bool] = True

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        self.attempts_count = 0
        #: Whether the work of an attempt may have begun; and the priority of the last one.
        self.may_have_begun = False
        self.sent_priority = 0
        self.action: MethodAction | None = None
        self.id = 0
        #: The calls that are awaited together with it, and its number among them.
        self.gather: Gather | None = None
        self.number = 0
        #: Its arguments that are calls themselves; None: there are none. The calls begin with it, and it when they have ended.
        self.operands: dict[str, CallRequest] | None = None
        #: How many of these have not ended; below 0: one has failed. And the calls whose operand it is, each with the argument.
        self.missing_count = 0
        self.feeds: list[tuple[CallRequest, str]] = []

    def __await__(self) -> Generator[CallRequest | Gather, Any, Any]:
        if self.operands is None:
            return (yield self)
        gather = Gather([self], returns_errors=False, timeout_ns=None)
        yield gather
        return gather.results[0]


class LongRequest(CallRequest):
    """A call that its action awaits several times, and does something else in between. Its end is kept until it looks."""

    __slots__ = ("is_awaited", "told_priority")

    def __init__(self, spec: CallSpec) -> None:
        super().__init__(spec)
        #: Whether its action is in the wait queue for it. Written under the lead.
        self.is_awaited = False
        #: The priority of its action that its callee was told last.
        self.told_priority = -1

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended, in a result or an error."""
        raise NotImplementedError

    @property
    def is_ready(self) -> bool:
        """Whether its action has something to do: the wait for it is over."""
        raise NotImplementedError

    @property
    def has_begun(self) -> bool:
        """Whether any item has passed so far: from then on the call is not retried."""
        raise NotImplementedError

    def end(self, result: Any) -> None:
        """The call has ended in its reply."""
        raise NotImplementedError

    def end_in(self, error: BackplaneError) -> None:
        """The call has ended in an error. Only the first end counts."""
        raise NotImplementedError


class StreamRequest(LongRequest):
    """The call behind `self.stream(...)`. Awaiting it begins the call, or waits for its next items (call_stream.py)."""

    __slots__ = ("buffer",)

    def __init__(self, spec: CallSpec) -> None:
        super().__init__(spec)
        assert spec.window is not None
        self.buffer = ItemBuffer(spec.route, spec.window)

    @property
    def has_ended(self) -> bool:
        """Whether its last item, or an error, has come."""
        return self.buffer.has_ended

    @property
    def is_ready(self) -> bool:
        """Whether there are items, or the end."""
        return self.buffer.is_ready

    @property
    def has_begun(self) -> bool:
        """Whether an item has come."""
        return self.buffer.has_begun

    def end(self, result: Any) -> None:
        """The number of items has come."""
        self.buffer.end(result)

    def end_in(self, error: BackplaneError) -> None:
        """It has ended in an error, behind the items that have come."""
        self.buffer.end_in(error)


class SendingRequest(LongRequest):
    """A call with a streamed argument. Awaiting it begins the call, or sends the fetched items, and waits until there is room
    for more (call_with_stream.py).
    """

    __slots__ = ("error", "fetched", "is_complete", "is_over", "result", "sender")

    def __init__(self, spec: CallSpec, sender: ItemSender) -> None:
        super().__init__(spec)
        self.sender = sender
        #: Packed items that its action has fetched and the holder of the lead has not put into `sender` yet; and whether there
        #: are no more.
        self.fetched: list[bytes] = []
        self.is_complete = False
        self.is_over = False
        self.result: Any = None
        self.error: BackplaneError | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its answer has come."""
        return self.is_over

    @property
    def is_ready(self) -> bool:
        """Whether there is room for an item, or the answer has come."""
        return self.is_over or self.sender.has_room()

    @property
    def has_begun(self) -> bool:
        """Whether its operation has asked for items."""
        return self.sender.has_credit

    def end(self, result: Any) -> None:
        """Its reply has come."""
        if not self.is_over:
            self.result, self.is_over = result, True

    def end_in(self, error: BackplaneError) -> None:
        """It has failed."""
        if not self.is_over:
            self.error, self.is_over = error, True


class Gather:
    """`await self.gather(...)`: several calls, of which the action awaits all; its object is in the wait queue once.

    As with `asyncio.TaskGroup` the first error ends the others, unless errors are returned like results. The calls that are
    operands of these calls are made with them, each before the calls that need its result.
    """

    __slots__ = ("_ready", "calls", "has_ended", "results", "returns_errors", "timeout_ns", "unanswered_count")

    def __init__(self, calls: Sequence[CallRequest], *, returns_errors: bool, timeout_ns: int | None) -> None:
        """`timeout_ns`: how long all may take together; None: each has its own timeout."""
        #: The calls that were given, and behind them the calls that are their operands, over any number of steps.
        self.calls = _with_operands(calls)
        self.returns_errors = returns_errors
        self.timeout_ns = timeout_ns
        #: Results in the order of the calls that were given, and how many of all calls have not ended.
        self.results: list[Any] = [None] * len(calls)
        self.unanswered_count = len(self.calls)
        self.has_ended = False
        for number, call in enumerate(self.calls):
            call.gather, call.number = self, number
        self._ready = [call for call in self.calls if not call.missing_count]

    def __await__(self) -> Generator[Gather, Any, list[Any]]:
        if self.calls:
            yield self
        return self.results

    def take_ready(self) -> list[CallRequest]:
        """The calls that are to begin now, since their operands are there."""
        ready, self._ready = self._ready, []
        return ready

    def put(self, call: CallRequest, result: Any) -> bool:
        """Keep the result of a call, or its error. Returns whether it was the last; else `take_ready` may have more calls.

        The error of an operand ends the calls that need it as well.
        """
        ended: list[tuple[CallRequest, Any]] = [(call, result)]
        for each, outcome in ended:  # it grows
            self.unanswered_count -= 1
            if each.number < len(self.results):
                self.results[each.number] = outcome
            for fed, argument in each.feeds:
                if fed.missing_count < 0:
                    continue  # another operand has failed
                if isinstance(outcome, BackplaneError):
                    fed.missing_count = -1
                    ended.append((fed, _failed_operand(fed, argument, each, outcome)))
                    continue
                fed.spec.body[argument] = outcome
                fed.missing_count -= 1
                if not fed.missing_count:
                    self._ready.append(fed)
        self.has_ended = self.unanswered_count == 0
        return self.has_ended

    def error_of(self, call: CallRequest, error: BackplaneError) -> BackplaneError:
        """The error for the action that awaits these calls: it names the operand on the way to the call that was given."""
        while call.number >= len(self.results):
            fed, argument = call.feeds[0]
            call, error = fed, _failed_operand(fed, argument, call, error)
        return error


def with_operands(request: CallRequest) -> CallRequest:
    """The request, with the calls among its arguments as its operands (`self.call("y.g", left=self.call("x.f"))`)."""
    body = request.spec.body
    operands = {name: value for name, value in body.items() if type(value) is CallRequest}
    if operands:
        request.operands = operands
        request.spec.body = {name: value for name, value in body.items() if name not in operands}
    return request


def _with_operands(calls: Sequence[CallRequest]) -> list[CallRequest]:
    """The calls, and behind them those that are their operands. Raises `InvalidArgument` for one that has begun elsewhere."""
    found = [*calls]
    seen = {id(call) for call in calls}
    for call in found:  # it grows
        for argument, operand in (call.operands or {}).items():
            if operand.gather is not None or operand.attempts_count:
                raise InvalidArgument(
                    f"{call.spec.route}: argument {argument!r} is a call of {operand.spec.route} that was awaited already: "
                    "pass its result"
                )
            operand.feeds.append((call, argument))
            call.missing_count += 1
            if id(operand) not in seen:
                seen.add(id(operand))
                found.append(operand)
    return found


def _failed_operand(call: CallRequest, argument: str, operand: CallRequest, error: BackplaneError) -> OperandFailed:
    return OperandFailed(call.spec.route, argument, operand.spec.route, error)


class Pause:
    """`await pause(seconds)`: the object stays in the wait queue until the time has come. `action`, `id`: as of a call."""

    __slots__ = ("action", "delay_ns", "id")

    def __init__(self, delay_ns: int) -> None:
        self.delay_ns = delay_ns
        self.action: MethodAction | None = None
        self.id = 0

    def __await__(self) -> Generator[Pause, Any, None]:
        yield self


class OneShotEvent(Pause):
    """`await signal`: wait until `Platform.set` or a timeout; a one-shot event for systems built on top of the scheduler."""

    __slots__ = ("is_set", "what")

    def __init__(self, delay_ns: int, what: str = "") -> None:
        """`delay_ns`: the timeout. `what`: the reason shown by `why`."""
        super().__init__(delay_ns)
        self.what = what
        self.is_set = False


class _StepAside:
    __slots__ = ()

    def __await__(self) -> Generator[_StepAside, Any, None]:
        if should_yield():
            yield self


STEP_ASIDE = _StepAside()


def checkpoint() -> Awaitable[None]:
    """`await checkpoint()` in a long operation: higher-priority work, if present, runs now; then the operation goes on.

    Costs about 100 ns if there is none. Work for the same object keeps its order and does not run in between.
    """
    return STEP_ASIDE


def should_yield() -> bool:
    """Whether work of higher priority than the running action is present, in this backplane or any other.

    For long loops in plain operations: finish early, or hand the rest to `self.after(0, …)`. False outside an action.
    """
    worker = current.worker
    return worker is not None and worker.started_ns != 0 and worker.host.has_work_above(worker)


def should_stop() -> bool:
    """Whether this backplane is being drained: it finishes its work and goes down (docs/concepts/draining.md).

    For work that continues by itself, piece by piece: begin no further piece, or the drain waits for it. False outside an
    action.
    """
    host = current.host
    return host is not None and host.is_draining
