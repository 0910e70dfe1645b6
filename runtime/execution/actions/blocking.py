"""Blocking: a call made by a plain operation, which blocks its thread until the reply.

For users who write plain functions ("perform a synchronous call", seed 000; seed 001). Meanwhile another thread does the work
of the blocked one. Prefer an `async` operation: it waits without a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from appbackplane.transport.call_checks import TIMEOUT_MAX_S
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.errors import DeadlineExceeded

from ...objects.action import Action
from ...objects.app_object import AppObject
from ..workers.current import current
from ..workers.worker import WorkerHost
from .method_action import MethodAction

#: Waits for a gate, at most that many seconds, instead of blocking the thread; returns whether the gate opened (testing).
StandIn: TypeAlias = Callable[[threading.Lock, float], bool]
#: Longer than any call.
LIMIT_S: Final = 2 * TIMEOUT_MAX_S


def wait_at(
    gate: threading.Lock, limit_s: float, outside: StandIn | None = None, what: str = "",
    patience_s: float = 0.0, on_impatience: Callable[[], None] | None = None,
) -> bool:  # fmt: skip
    """Block this thread until the gate opens; returns whether it did in time. Other workers take over its duties meanwhile.

    `outside`: waits on behalf of a thread that runs no action (tests); None: the thread blocks. `what`: shown as the reason.
    `on_impatience`: called once if the gate is still closed after `patience_s`, at once where a stand-in waits.
    Raises `DeadlineExceeded` once the deadline of the running action has passed.
    """
    host, running = current.host, current.action
    if host is None or running is None:
        return _wait(gate, limit_s, outside, patience_s, on_impatience)
    if running.deadline_ns is None:
        return _wait_in(host, running, gate, limit_s, what, patience_s, on_impatience)
    left_s = max(0.0, (running.deadline_ns - host.now_ns()) / 1e9)
    is_open = _wait_in(host, running, gate, min(limit_s, left_s), what, patience_s, on_impatience)
    if not is_open and left_s <= limit_s:
        raise DeadlineExceeded(f"{running.name}: the deadline passed while it waited for {what}")
    return is_open


def _wait_in(
    host: WorkerHost, running: Action, gate: threading.Lock, limit_s: float, what: str,
    patience_s: float = 0.0, on_impatience: Callable[[], None] | None = None,
) -> bool:  # fmt: skip
    """As `wait_at`, without regard to the deadline of the running action."""
    host.begins_to_block(running, what)
    try:
        return _wait(gate, limit_s, host.stand_in, patience_s, on_impatience)
    finally:
        host.blocks_no_more(running)


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
    """Call an operation on behalf of the running action of `object` and return its result. Raises the call's error."""
    return call_and_block(
        object, CallSpec(route, arguments, key=key, priority=priority, timeout=timeout, is_retried=retry)
    )


def call_and_block(object: AppObject, spec: CallSpec) -> Any:
    """As `blocking_call`, for a spec."""
    host, running, component = current.host, current.action, object._component
    assert host is not None and running is not None and component is not None, "only what runs can call"
    gate = threading.Lock()
    gate.acquire()
    caller = (
        AppObject()
    )  # makes the call in the place of `object`; a new one each time: cheaper than finding a free one
    caller._component, caller._name = component, object.name
    asking = MethodAction(caller, running.name, running.priority, _ask, (spec,), running.deadline_ns)
    asking.chain = running.chain
    asking.trace, asking.principal = host.trace_of(running), running.principal
    asking.on_end = lambda _: gate.release()
    object._platform.post_own(component, asking, is_counted=False)
    _wait_in(host, running, gate, LIMIT_S, f"a call of {spec.route}")  # the call itself ends in time
    if asking.error is not None:
        if isinstance(running, MethodAction):
            running.received = asking.error  # so its caller is not told that the fault is its own (failures.py)
        raise asking.error
    return asking.result


async def _ask(caller: AppObject, spec: CallSpec) -> Any:
    return await caller._host.call(caller, spec)
