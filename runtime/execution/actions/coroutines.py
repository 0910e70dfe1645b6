"""Coroutines: the awaitables of an `async def` operation, as a worker drives it.

There is no event loop: the scheduler resumes a coroutine like any other action. Awaiting yields an instruction to the worker:
a `CallRequest` (the object goes to the wait queue, law 6), a `Pause` (a timer wakes it) or `STEP_ASIDE` (higher-priority
work runs first). Any other awaitable raises an explaining TypeError inside the coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import BackplaneError
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

    __slots__ = ("action", "attempts_count", "gather", "id", "may_have_begun", "number", "sent_priority", "spec")

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

    def __await__(self) -> Generator[CallRequest, Any, Any]:
        return (yield self)


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

    As with `asyncio.TaskGroup` the first error ends the others, unless errors are returned like results.
    """

    __slots__ = ("calls", "has_ended", "results", "returns_errors", "timeout_ns", "unanswered_count")

    def __init__(self, calls: Sequence[CallRequest], *, returns_errors: bool, timeout_ns: int | None) -> None:
        """`timeout_ns`: how long all may take together; None: each has its own timeout."""
        self.calls = calls
        self.returns_errors = returns_errors
        self.timeout_ns = timeout_ns
        #: Results in the order of the calls, and how many are missing.
        self.results: list[Any] = [None] * len(calls)
        self.unanswered_count = len(calls)
        self.has_ended = False
        for number, call in enumerate(calls):
            call.gather, call.number = self, number

    def __await__(self) -> Generator[Gather, Any, list[Any]]:
        if self.calls:
            yield self
        return self.results

    def put(self, call: CallRequest, result: Any) -> bool:
        """Keep the result of a call. Returns whether it was the last."""
        self.results[call.number] = result
        self.unanswered_count -= 1
        self.has_ended = self.unanswered_count == 0
        return self.has_ended


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
