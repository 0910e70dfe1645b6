"""Striking: a signal for the main thread, sent by another one that must know that its handler has run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from tests.waiting import EVERY_S, LIMIT_S, Limit


def strike_until(has_struck: Callable[[], object]) -> None:
    """Send SIGUSR1 to this process until it has struck. Again, where it came between two calls: compiled code hears of signals
    only in calls that they interrupt.
    """
    limit = Limit()
    while not has_struck():
        limit.check("the signal's handler does not run")
        os.kill(os.getpid(), signal.SIGUSR1)
        again = Limit(LIMIT_S / 100)
        while not has_struck() and again.left_s:
            threading.Event().wait(EVERY_S)
