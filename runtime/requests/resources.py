"""Resources: the table of what workers hold; who closes an original tells all of them here (seed 001, 3.1).

One a process. A worker has its part of the table (`held.py`) to itself; the table counts, and passes on that an original was
closed. It closes nothing: handles such as sqlite3's serve the thread that opened them, so each worker lets go of its own,
at its request's end, at its next use, or when it is woken while it is idle. Bounded by `held_max` for each resource and
worker. The lock is held for a few dictionary steps at opening, closing and telling, never while users' code runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec

from ..execution.clock import RealClock
from ..observation.rate_limit import RateLimit
from .held import Held, Tally, Wake
from .resource import Asked, Resource, check_declared

log = logging.getLogger("appbackplane.runtime")


class ResourceFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One resource, over all workers since the start: `opened` - `closed` are open now."""

    opened: int
    #: Of the opened: in place of one that was stale, or whose original was closed.
    reopened: int
    #: Let go of, whether or not `close` raised.
    closed: int
    #: Of the closed: to make room, at `held_max`.
    evicted: int
    open_failures: int
    close_failures: int
    stale_failures: int
    #: Their original is closed, and their worker has not come to it yet.
    to_close: int
    #: Open now, by worker.
    open: dict[str, int]


class ResourceTable:
    """What is declared, and who holds it.

    >>> import sqlite3
    >>> table = ResourceTable({"db": Resource(open=sqlite3.connect, close=sqlite3.Connection.close)})
    >>> held = table.of("worker-1")                              # in the worker's thread, as all that follows
    >>> held["db", ":memory:"].execute("select 1 + 1").fetchone()
    (2,)
    >>> table.close_original("db", ":memory:")                   # by anybody
    1
    >>> held.request_ended()
    >>> table.figures()["db"].closed
    1
    >>> held.close()
    """

    def __init__(self, declared: Mapping[str, Resource[Any]], now_ns: Callable[[], int] = RealClock.now_ns) -> None:
        """`DeclarationError` where something is not a resource. `now_ns`: for the limit on reports."""
        check_declared(declared)
        self._declared = dict(declared)
        self.has_any = bool(declared)
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}
        #: What the workers did that have ended.
        self._ended = {name: Tally() for name in declared}
        self._limit = RateLimit()

    def of(self, worker: str, wake: Wake | None = None) -> Held:
        """What this worker holds; from any thread, but only the worker may use it.

        `wake`: called when an original was closed of which it holds a copy, so that it can close it (`close_outdated`)
        even if it is idle; without it, the copy stays open until the worker's next use or request's end.
        """
        with self._lock:
            held = self._held.get(worker)
            if held is None or held.is_ended:
                held = Held(worker, self._declared, self._lock, self._report, self._leave, wake)
                self._held[worker] = held
            elif wake is not None:
                held.wake = wake
            return held

    def close_original(self, name: str, *key: Hashable) -> int:
        """Have all workers close their copies of it, or without a key of all keys; from any thread, without waiting.

        Gives how many there are; `figures` says how many are still to be closed. Asked for again, it is opened again:
        `open` raises where the original is gone for good. `UnknownResource` if it is not declared.
        """
        asked = Asked((name, *key) if key else name, self._declared)
        if key:
            asked.check(self._declared[name])

        def is_meant(each: Asked) -> bool:
            return each.name == name and (not key or each.key == asked.key)

        with self._lock:
            marked = [(held, *held.outdate(is_meant)) for held in self._held.values()]
        for held, _, is_news in marked:
            if is_news and held.wake is not None:
                try:
                    held.wake()
                except Exception as error:  # the others are told all the same; this one finds out at its next request
                    self._report(
                        f"wake {name}", f"worker {held.worker} could not be told that resource {asked} is closed", error
                    )
        return sum(count for _, count, _ in marked)

    def figures(self) -> dict[str, ResourceFigures]:
        """By resource, for status."""
        with self._lock:
            return {name: self._figures(name) for name in self._declared}

    def _figures(self, name: str) -> ResourceFigures:
        total = Tally()
        for tally in (self._ended[name], *(held.tallies[name] for held in self._held.values())):
            total.add(tally)
        open_count = {held.worker: held.open_count(name) for held in self._held.values()}
        return ResourceFigures(
            **{word: getattr(total, word) for word in Tally.__slots__},
            to_close=sum(held.open_count(name, is_outdated=True) for held in self._held.values()),
            open={worker: count for worker, count in open_count.items() if count},
        )

    def _leave(self, held: Held) -> None:
        """A worker has ended."""
        with self._lock:
            if self._held.get(held.worker) is held:
                del self._held[held.worker]
            for name, tally in held.tallies.items():
                self._ended[name].add(tally)

    def _report(self, subject: str, said: str, error: BaseException) -> None:
        """Once a subject and interval: a disk that is gone makes every worker fail at every request."""
        with self._lock:
            left_out = self._limit.admit(subject, self._now_ns())
        if left_out is not None:
            more = f" ({left_out} more since the last report)" if left_out else ""
            log.error("%s%s", said, more, exc_info=error)
