"""Signals: SIGTERM tells a backplane to stop, and SIGINT tells it nothing; what operations start keeps the system's defaults.

Signals are handled here and never ignored: a program that is executed gets the default in the place of a handler, but what is
ignored stays ignored in it. A forked child has the handlers, too, and gives them up in a hook: the one of SIGTERM would only
wake the parent's sentinel, so that `terminate()` had no effect and `multiprocessing.Pool` never ended.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType
from typing import Any

#: As Python begins: Ctrl-C raises KeyboardInterrupt.
_DEFAULTS: Mapping[int, Any] = MappingProxyType(
    {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
)


def heed_orders(stop: Callable[[str], None]) -> None:
    """From now on `stop` hears why, when SIGTERM comes. Ctrl-C is the supervisor's to act on. Main thread only."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop(f"{signal.Signals(number).name} came")

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, _nothing)
    default_in_children(_DEFAULTS)


def heed_no_more() -> None:
    """SIGTERM has been heard: what it would wake is about to be gone. Main thread only."""
    signal.signal(signal.SIGTERM, _nothing)


def default_in_children(handlers: Mapping[int, Any]) -> None:
    """Have each forked child handle these signals so, from its beginning."""
    forking = threading.local()

    # Blocked until the child has its own handlers: a signal that came before them would be taken for the parent's, and lost.
    def before() -> None:
        forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)

    def in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, forking.mask)

    def in_child() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)  # whichever thread forked is the child's main thread
        signal.pthread_sigmask(signal.SIG_SETMASK, forking.mask)

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Not SIG_IGN, which what is executed would inherit."""
