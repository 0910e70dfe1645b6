"""Blocking: a call that a plain operation makes, waiting for the answer in its thread.

For whole systems on top of the scheduler, whose users write plain functions that wait (seed 001); the backplane has a thread
more for each of them (`Host.keep_threads`). An operation that can be `async` had better be: it waits without a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import DeadlineExceeded
from appbackplane.transport.request import TIMEOUT_MAX_S

from ..objects.action import Action
from ..objects.app_object import AppObject
from .current import current
from .method_action import MethodAction

if TYPE_CHECKING:
    from .engine import Engine

#: Waits at a gate, for so many seconds, instead of a thread.
StandIn: TypeAlias = Callable[[threading.Lock, float], bool]
#: Longer than any call.
LIMIT_S: Final = 2 * TIMEOUT_MAX_S


def wait_at(
    gate: threading.Lock, limit_s: float, outside: StandIn | None = None, what: str = "",
    patience_s: float = 0.0, on_impatience: Callable[[], None] | None = None,
) -> bool:  # fmt: skip
    """Wait in this thread until the gate is opened: whether it was in time. What runs here is given up for as long.

    `outside`: who waits for a thread in which nothing runs; None: it does so itself. `what`: is waited for, for whoever asks.
    `on_impatience`: is called once if the gate is still closed after `patience_s`; where somebody stands in, nobody is patient.
    Raises `DeadlineExceeded` once nobody waits any more for what runs here.
    """
    engine, running = current.engine, current.action
    if engine is None or running is None:
        return _wait(gate, limit_s, outside, patience_s, on_impatience)
    if running.deadline_ns is None:
        return _wait_in(engine, running, gate, limit_s, what, patience_s, on_impatience)
    left_s = max(0.0, (running.deadline_ns - engine.now_ns()) / 1e9)
    is_open = _wait_in(engine, running, gate, min(limit_s, left_s), what, patience_s, on_impatience)
    if not is_open and left_s <= limit_s:
        raise DeadlineExceeded(f"{running.name}: the deadline passed while it waited for {what}")
    return is_open


def _wait_in(
    engine: Engine, running: Action, gate: threading.Lock, limit_s: float, what: str,
    patience_s: float = 0.0, on_impatience: Callable[[], None] | None = None,
) -> bool:  # fmt: skip
    """As `wait_at`, whatever the deadline of what runs."""
    with engine.lead:
        engine.parking.begins_to_block(running, engine.now_ns(), what)
    try:
        return _wait(gate, limit_s, engine.stand_in, patience_s, on_impatience)
    finally:
        with engine.lead:
            engine.parking.blocks_no_more(running)


def _wait(
    gate: threading.Lock, limit_s: float, stand_in: StandIn | None, patience_s: float,
    on_impatience: Callable[[], None] | None,
) -> bool:  # fmt: skip
    if on_impatience is not None:
        if stand_in is None and gate.acquire(timeout=min(patience_s, limit_s)):
            return True
        on_impatience()
    return gate.acquire(timeout=limit_s) if stand_in is None else stand_in(gate, limit_s)


def blocking_call(
    object: AppObject, route: str, arguments: Mapping[str, Any], *, key: str | None = None, priority: int | None = None,
    timeout: float | None = TIMEOUT_MAX_S, retry: bool = False,
) -> Any:  # fmt: skip
    """Call an operation on behalf of what runs now, of `object`, and give its result. Raises the error in which it ended."""
    engine, running = current.engine, current.action
    assert engine is not None and running is not None, "only what runs can call"
    gate = threading.Lock()
    gate.acquire()
    spec = CallSpec(route, arguments, key=key, priority=priority, timeout=timeout, is_retried=retry)
    asking = MethodAction(Caller.of(object), running.name, running.priority, _ask, (spec,), running.deadline_ns)
    asking.chain = (*running.chain, (object.name, running.name))
    asking.trace = running.trace

    def has_ended(action: Action) -> None:
        gate.release()

    asking.on_end = has_ended
    with engine.lead:
        engine.post(asking, engine.now_ns())
    _wait_in(engine, running, gate, LIMIT_S, f"a call of {route}")  # the call itself ends in time
    if asking.error is not None:
        raise asking.error
    return asking.result


class Caller(AppObject):
    """Makes the calls of an object whose operations wait in their threads."""

    @staticmethod
    def of(object: AppObject) -> Caller:
        """One for each call: it costs less than to look for one that is free."""
        caller = Caller()
        caller._component, caller._name = object._component, object.name
        return caller


async def _ask(caller: Caller, spec: CallSpec) -> Any:
    return await caller._host.call(caller, spec)
