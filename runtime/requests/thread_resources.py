"""ThreadResources: what the thread that asks holds of the kernel's resources.

A worker of the kernel is an object, which one thread of the backplane serves now and another later; but handles such as
sqlite3's belong to the thread that opened them. So each thread has its own part of the table, found here by who asks. It is
closed by its thread, at the very end of it: a thread's own variables are let go of by itself, last of all.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from .held import Held
from .resources import ResourceTable


class _Part:
    """Of one thread."""

    def __init__(self, held: Held) -> None:
        self.held, self._ident = held, threading.get_ident()

    def __del__(self) -> None:
        if threading.get_ident() == self._ident:  # or the table itself is dropped, and its handles with it
            self.held.close()


class ThreadResources:
    """`kernel.resources["db"]`. In a coroutine, ask anew after each `await`: it may go on in another thread."""

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        #: Whether a worker can hold anything.
        self.has_any = table.has_any
        self._local = threading.local()

    def __getitem__(self, asked: Hashable) -> Any:
        """The handle of this thread, opened if need be. Raises what resources.py says."""
        return self._part().held[asked]

    def request_ended(self) -> None:  # hot: scripts/bench requests
        """Let go of what is not valid any more."""
        part = getattr(self._local, "part", None)
        if part is not None:
            part.held.request_ended()

    def _part(self) -> _Part:
        part = getattr(self._local, "part", None)
        if part is None:
            part = self._local.part = _Part(
                self._table.of(f"{threading.current_thread().name}-{threading.get_native_id()}")
            )
        assert isinstance(part, _Part)
        return part
