"""A witness: how much of the time a machine that others use, too, kept somebody waiting who had asked for next to nothing.

What compares times with what a model said they would be can be judged only where the machine gives what the model counts on.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

#: It asks for the CPU this often, and for this much of it (6 % of a core).
EVERY_S, WORK_S = 0.008, 0.000_5
#: A timer and a wake-up are this late by themselves.
OWN_S = 0.001


class Witness:
    """While it is entered, it looks. `kept_waiting` is the share of the time that was taken from it, 0.0 to 1.0."""

    def __init__(self) -> None:
        """Looks at nothing yet."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="witness", daemon=True)
        self._late_s = self._seen_s = 0.0

    def __enter__(self) -> Witness:
        """Looks."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Has looked."""
        self._is_over.set()
        self._thread.join()

    @property
    def kept_waiting(self) -> float:
        """So far."""
        return self._late_s / self._seen_s if self._seen_s else 0.0

    def _look(self) -> None:
        while not self._is_over.is_set():
            began_s, used_s = time.monotonic(), time.thread_time()
            self._is_over.wait(EVERY_S)
            while time.thread_time() - used_s < WORK_S:
                pass
            took_s = time.monotonic() - began_s
            self._seen_s += took_s
            self._late_s += max(0.0, took_s - EVERY_S - WORK_S - OWN_S)
