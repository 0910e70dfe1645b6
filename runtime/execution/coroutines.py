"""Coroutines: what an `async def` operation may await, and how a worker drives it.

No event loop: a coroutine is resumed by the scheduler like any other action. Awaiting yields an instruction to the worker:
a `CallRequest` (the object goes to the wait queue, law 6), a `Pause` (a timer wakes it) or `STEP_ASIDE` (higher-priority
work runs first). Anything else that is awaited is refused with an explanation inside the coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any

from appbackplane.transport.call_spec import CallSpec

from .current import current


class CallRequest:
    """`await self.call(...)`. All attempts share the deadline `spec.ends_ns`, which the first one sets."""

    __slots__ = ("attempts_count", "spec")

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        self.attempts_count = 0

    def __await__(self) -> Generator[CallRequest, Any, Any]:
        return (yield self)


class Pause:
    """`await pause(seconds)`: the object stays in the wait queue until the time has come."""

    __slots__ = ("delay_ns",)

    def __init__(self, delay_ns: int) -> None:
        self.delay_ns = delay_ns

    def __await__(self) -> Generator[Pause, Any, None]:
        yield self


class Signal(Pause):
    """`await signal`: until somebody sets it (`Host.set`), or its time is over; for whole systems on top of the scheduler."""

    __slots__ = ("action", "is_set", "what")

    def __init__(self, delay_ns: int, what: str = "") -> None:
        """`what`: is waited for, for whoever asks why."""
        super().__init__(delay_ns)
        self.what = what
        self.is_set = False
        #: Who awaits it, once it is put aside. Written with the lead.
        self.action: Any = None


class _StepAside:
    __slots__ = ()

    def __await__(self) -> Generator[_StepAside, Any, None]:
        if should_yield():
            yield self


STEP_ASIDE = _StepAside()


def checkpoint() -> Awaitable[None]:
    """`await checkpoint()` in a long operation: if higher-priority work is present, it runs now, and then this goes on.

    Costs about 100 ns where there is none. Work for the same object keeps its order and does not run in between.
    """
    return STEP_ASIDE


def should_yield() -> bool:
    """Whether work of higher priority than the running action is present, in this backplane or any other.

    For long loops in plain operations: finish early, or hand the rest to `self.after(0, …)`. False outside an action.
    """
    worker = current.worker
    return worker is not None and worker.started_ns != 0 and worker.engine.presence.has_work_above(worker)


def should_stop() -> bool:
    """Whether this backplane is being drained: it finishes what it has, and goes down (docs/concepts/draining.md).

    For work that goes on by itself, one piece after the other: begin no further one, or it is waited for. False outside an
    action.
    """
    engine = current.engine
    return engine is not None and engine.modules.is_suspended
