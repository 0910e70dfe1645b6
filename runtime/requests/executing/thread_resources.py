"""ThreadResources: the resources of a kernel, as the calling thread holds them. One object a kernel and process.

A worker of the kernel is an object, which different threads of the backplane serve in turn; but handles such as sqlite3's
belong to the thread that opened them. So each thread has handles of its own (`thread_handles.py`), found here by the calling
thread. They are closed by their thread at its very end, with its thread-local variables. At most `held_max` handles of each
resource and thread are open. The backplane decides which threads there are: as many as workers, beside its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from ...execution.workers.clock import RealClock
from ...observation.rate_limit import RateLimit
from ..resource import Resource, check_declared
from .thread_handles import ThreadHandles

log = logging.getLogger("appbackplane.runtime")


class _Part:
    """The handles of one thread; closes them when the thread ends."""

    def __init__(self, held: ThreadHandles) -> None:
        self.held, self._ident = held, threading.get_ident()

    def __del__(self) -> None:
        if threading.get_ident() == self._ident:  # otherwise all parts are dropped at once, and the handles with them
            self.held.close()


class ThreadResources:
    """`kernel.resources["db"]`. In a coroutine, ask anew after each `await`: it may resume in another thread.

    >>> import sqlite3
    >>> from appbackplane.runtime.requests import Resource
    >>> resources = ThreadResources({"db": Resource(open=sqlite3.connect, close=sqlite3.Connection.close)})
    >>> resources["db", ":memory:"].execute("select 1 + 1").fetchone()
    (2,)
    """

    def __init__(self, declared: Mapping[str, Resource[Any]], now_ns: Callable[[], int] = RealClock.now_ns) -> None:
        """Raises `DeclarationError` for a value that is no resource. `now_ns`: for the rate limit of reports."""
        check_declared(declared)
        self._declared = dict(declared)
        #: Whether any resource is declared.
        self.has_any = bool(declared)
        self._now_ns = now_ns
        self._local = threading.local()
        self._lock = threading.Lock()
        self._limit = RateLimit()

    def __getitem__(self, asked: Hashable) -> Any:
        """The handle of the calling thread, opened if need be. Raises the errors of `ThreadHandles`."""
        part = getattr(self._local, "part", None)
        if part is None:
            name = f"{threading.current_thread().name}-{threading.get_native_id()}"
            part = self._local.part = _Part(ThreadHandles(name, self._declared, self._report))
        assert isinstance(part, _Part)
        return part.held[asked]

    def request_ended(self) -> None:  # hot: scripts/bench requests
        """Now and then close a handle of this thread that has become stale."""
        part = getattr(self._local, "part", None)
        if part is not None:
            part.held.request_ended()

    def _report(self, subject: str, said: str, error: BaseException) -> None:
        """Log a subject once an interval: a disk that is gone makes every thread fail at every request."""
        with self._lock:
            left_out = self._limit.admit(subject, self._now_ns())
        if left_out is not None:
            more = f" ({left_out} more since the last report)" if left_out else ""
            log.error("%s%s", said, more, exc_info=error)
