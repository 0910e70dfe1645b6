"""Coroutines: the awaitables of an `async def` operation, as a worker drives it.

There is no event loop: the scheduler resumes a coroutine like any other action. Awaiting yields an instruction to the worker:
a `CallRequest` (the object goes to the wait queue, law 6), a `Pause` (a timer wakes it) or `STEP_ASIDE` (higher-priority
work runs first). Any other awaitable raises an explaining TypeError inside the coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.item_buffer import ItemBuffer

from .current import current

if TYPE_CHECKING:
    from .method_action import MethodAction


class CallRequest:
    """`await self.call(...)`. All attempts share the deadline `spec.ends_ns`, which the first one sets.

    `action` and `id` are written under the lead: the action that awaits it, once it has begun, and its present id in the call
    table; 0: it has not begun, or has ended.
    """

    __slots__ = ("action", "attempts_count", "gather", "id", "number", "spec")

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        self.attempts_count = 0
        self.action: MethodAction | None = None
        self.id = 0
        #: The calls that are awaited together with it, and its number among them.
        self.gather: Gather | None = None
        self.number = 0

    def __await__(self) -> Generator[CallRequest, Any, Any]:
        return (yield self)


class StreamRequest(CallRequest):
    """The call behind `self.stream(...)`. Awaiting it begins the call, or waits for its next items (call_stream.py)."""

    __slots__ = ("buffer", "is_awaited", "told_priority")

    def __init__(self, spec: CallSpec) -> None:
        super().__init__(spec)
        assert spec.window is not None
        self.buffer = ItemBuffer(spec.route, spec.window)
        #: Whether its action is in the wait queue for it. Written under the lead.
        self.is_awaited = False
        #: The priority of its action that its callee was told last.
        self.told_priority = -1


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
