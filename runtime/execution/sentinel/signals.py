"""Signals: SIGTERM stops a backplane, and SIGINT has no effect; processes that operations start keep the system's defaults.

Signals get handlers and are never ignored: an executed program gets the default in place of a handler, but a signal ignored
before stays ignored in it. A forked child inherits the handlers and resets them in a hook. The handler of SIGTERM would only
wake the parent's sentinel, so that `terminate()` had no effect and `multiprocessing.Pool` never ended.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType
from typing import Any

#: Python's handlers at start: Ctrl-C raises KeyboardInterrupt.
_DEFAULTS: Mapping[int, Any] = MappingProxyType(
    {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
)


def heed_orders(stop: Callable[[str], None]) -> None:
    """On SIGTERM call `stop` with the reason. SIGINT does nothing: the supervisor acts on Ctrl-C. Main thread only."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop(f"{signal.Signals(number).name} came")

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, _nothing)
    default_in_children(_DEFAULTS)


def heed_no_more() -> None:
    """Make SIGTERM do nothing: the sentinel that it would wake is about to close. Main thread only."""
    signal.signal(signal.SIGTERM, _nothing)


def default_in_children(handlers: Mapping[int, Any]) -> None:
    """Install these handlers in each forked child, effective from its start."""
    forking = threading.local()

    # Blocked until the child has its own handlers: an earlier signal would go to the parent's handler, and be lost.
    def before() -> None:
        forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)

    def in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, forking.mask)

    def in_child() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)  # allowed: the thread that forked is the child's main thread
        signal.pthread_sigmask(signal.SIG_SETMASK, forking.mask)

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler without effect. Not SIG_IGN, which executed programs would inherit."""
