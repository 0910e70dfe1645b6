"""Signals: as bytes on a descriptor, so that the loop receives them with everything else and never in between.

A handler that does not raise would let poll run on (TRAPS 11), and one that raises would interrupt anything: the
wake-up descriptor does neither. SIGHUP means that the terminal has closed, unless our parent had it ignored (nohup).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

#: Signals that order a shutdown.
ORDERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalPipe:
    """Signals that have come and were not read yet."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> list[signal.Signals]:
        """Unread signals, in the order they came."""
        try:
            return [signal.Signals(number) for number in os.read(self.fd, 512)]
        except BlockingIOError:
            return []


def of_supervisor() -> list[signal.Signals]:
    """Signals that a supervisor handles: all but those that our parent had ignored."""
    return [number for number in (*ORDERS, signal.SIGCHLD) if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def as_events(numbers: Iterable[signal.Signals]) -> Iterator[SignalPipe]:
    """Main thread only. Restores the former handlers at the end."""
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = {number: signal.signal(number, _heard) for number in numbers}
    before_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)  # full: the loop has plenty to read
    try:
        yield SignalPipe(read_fd)
    finally:
        signal.set_wakeup_fd(before_fd)
        for number, handler in before.items():
            with suppress(TypeError):  # None: it was not set from Python, and cannot be put back from it
                signal.signal(number, handler)
        os.close(read_fd)
        os.close(write_fd)


def _heard(number: int, frame: FrameType | None) -> None:
    """Do nothing: the byte on the descriptor is enough."""
