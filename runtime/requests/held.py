"""Held: the handles that one worker has open, each used and closed by that worker's thread alone.

Seed 001, 3.1 and 5.3. Opened at first use, and again at the next use where it is stale or its original was closed; let go of
for the latter two reasons at a request's end, for room when a resource has reached its bound, and at the worker's end. A
handle in a request's variable is good until that request asks for the same again, or for more others than `held_max`.

Others only mark (`outdate`, under the table's lock) and wake; nobody but the worker changes what it holds, so that a use needs
no lock: it takes 0.2 us, the end of a request with nothing to close 0.06 us.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from threading import Lock, get_ident
from typing import Any, Final

from appbackplane.transport.errors import text_of

from .resource import Asked, NotTheWorker, Resource, ResourceNotOpened

#: At every so many ends of requests one handle is asked whether it is stale. To ask is commonly a `stat`, 2 us, and at 60,000
#: requests/s that is an eighth of each; every 32nd time it is half a percent, and what a worker has stopped using is
#: let go of within 32 requests for each that it holds. What it does use is asked at each use.
ASK_EVERY: Final = 32
#: Tells a worker that something waits to be closed (`Held.close_outdated`): called by any thread, without a lock held; it must
#: not block. Not called again before the worker has looked.
Wake = Callable[[], None]
#: (subject, what is said, why): for the log, each subject once an interval.
Report = Callable[[str, str, BaseException], None]


class Tally:
    """What one worker did with one resource. Only that worker counts; whoever reads may be a step behind."""

    __slots__ = ("close_failures", "closed", "evicted", "open_failures", "opened", "reopened", "stale_failures")

    def __init__(self) -> None:
        self.opened = self.reopened = self.closed = self.evicted = 0
        self.open_failures = self.close_failures = self.stale_failures = 0

    def add(self, other: Tally) -> None:
        """Of a worker that has ended."""
        for word in Tally.__slots__:
            setattr(self, word, getattr(self, word) + getattr(other, word))


class Entry:
    """One handle."""

    __slots__ = ("asked", "handle", "is_outdated", "item", "resource", "used")

    def __init__(self, item: Hashable, asked: Asked, resource: Resource[Any]) -> None:
        self.item, self.asked, self.resource = item, asked, resource
        self.handle: Any = None
        #: Its original was closed since; set by any thread, never taken back.
        self.is_outdated = False
        #: When it was last used, in uses of this worker.
        self.used = 0


class Held:
    """What one worker holds: `held["db"]` or `held["db", path]`. Made by `ResourceTable.of`, with the table's lock."""

    __slots__ = (
        "_declared", "_ends", "_entries", "_is_ended", "_is_told", "_leave", "_lock", "_opening", "_report", "_thread",
        "_to_ask", "_uses", "tallies", "wake", "worker",
    )  # fmt: skip

    def __init__(
        self,
        worker: str,
        declared: Mapping[str, Resource[Any]],
        lock: Lock,
        report: Report,
        leave: Callable[[Held], None],
        wake: Wake | None,
    ) -> None:
        self.worker, self.wake = worker, wake
        self.tallies = {name: Tally() for name in declared}
        self._declared, self._lock, self._report, self._leave = declared, lock, report, leave
        #: By what stands in the brackets; the oldest first. Changed by the worker alone, and under the lock.
        self._entries: dict[Hashable, Entry] = {}
        #: Whose `open` runs now, the innermost last.
        self._opening: list[Entry] = []
        #: Those that can be stale, in the order in which they are asked.
        self._to_ask: deque[Entry] = deque()
        self._uses = 0
        #: Of requests, since one was asked.
        self._ends = 0
        self._is_told = self._is_ended = False
        #: The worker's, known from its first use.
        self._thread: int | None = None

    # -- by the worker ------------------------------------------------------------------------------------------------

    def __getitem__(self, item: Hashable) -> Any:  # hot: tests/runtime/requests/test_resources.py, and see above
        """The handle, opened if need be. Raises `UnknownResource`, `ResourceNotOpened`, `NotTheWorker`, and
        `InvalidArgument` for a key where there is none, or none where there is one.
        """
        try:
            entry = self._entries.get(item)
        except TypeError:
            Asked(item, self._declared)  # says what is wrong
            raise
        if (
            entry is None
            or entry.is_outdated
            or self._thread != get_ident()
            or (entry.resource.is_stale is not None and self._is_stale(entry))
        ):
            entry = self._open(item)
        self._uses = entry.used = self._uses + 1
        return entry.handle

    def request_ended(self) -> None:  # hot: after every request
        """Close what has its original closed, and now and then what has become stale and is not asked for any more."""
        if self._is_told:
            self.close_outdated()
        if self._to_ask:
            self._ends += 1
            if self._ends >= ASK_EVERY:
                self._ask_one()

    def close_outdated(self) -> None:
        """Close whatever has its original closed: what an idle worker does when it was woken."""
        self._check_thread()
        # First: who marks one that the loop has passed finds this False, and wakes the worker once more.
        self._is_told = False
        for entry in [each for each in self._entries.values() if each.is_outdated]:
            self._close(entry)

    def close(self) -> None:
        """The worker ends: close all, the latest first; in its own thread, else `NotTheWorker`. Twice is as good as once."""
        if self._is_ended:
            return
        self._check_thread()
        self._is_ended = True
        try:
            for entry in reversed(list(self._entries.values())):
                self._close(entry)
        finally:
            self._leave(self)

    # -- by the table, with its lock ----------------------------------------------------------------------------------

    @property
    def is_ended(self) -> bool:
        """Whether it was closed."""
        return self._is_ended

    def outdate(self, is_meant: Callable[[Asked], bool]) -> tuple[int, bool]:
        """Mark those meant, and those that are being opened: how many, and whether the worker is to be woken."""
        meant = [each for each in [*self._entries.values(), *self._opening] if is_meant(each.asked)]
        for entry in meant:
            entry.is_outdated = True
        is_news = bool(meant) and not self._is_told
        if is_news:  # else left alone: the worker takes it back without the lock, and would not be woken the next time
            self._is_told = True
        return len(meant), is_news

    def open_count(self, name: str, *, is_outdated: bool = False) -> int:
        """Handles of a resource that are open now; or those of them that wait to be closed."""
        found = (each for each in self._entries.values() if each.asked.name == name)
        return sum(each.is_outdated or not is_outdated for each in found)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _open(self, item: Hashable) -> Entry:
        """In place of the old one, if there is one."""
        self._check_thread()
        self._thread = get_ident()
        asked = Asked(item, self._declared)
        resource, tally = self._declared[asked.name], self.tallies[asked.name]
        asked.check(resource)
        if any(each.item == item for each in self._opening):
            raise ResourceNotOpened(asked, self.worker, "its own open asks for it")
        old = self._entries.get(item)
        if old is not None:  # before the new one is opened, for it may be something that can be had only once
            self._close(old)
        self._make_room(asked, resource, tally)
        entry = Entry(item, asked, resource)
        with self._lock:
            self._opening.append(entry)
        try:
            entry.handle = resource.open(*asked.key)
        except BaseException as error:
            with self._lock:
                self._opening.remove(entry)
            if not isinstance(error, Exception):
                raise
            tally.open_failures += 1
            raise ResourceNotOpened(asked, self.worker, f"{type(error).__name__}: {text_of(error)}") from error
        with self._lock:  # in one step: who closes the original finds it here or there
            self._opening.remove(entry)
            self._entries[item] = entry
        if resource.is_stale is not None:
            self._to_ask.append(entry)
        tally.opened += 1
        tally.reopened += old is not None
        return entry

    def _ask_one(self) -> None:
        """Whether it is stale: the next in turn."""
        self._check_thread()
        self._ends = 0
        entry = self._to_ask[0]
        if self._is_stale(entry):
            self._close(entry)
        else:
            self._to_ask.rotate(-1)

    def _make_room(self, asked: Asked, resource: Resource[Any], tally: Tally) -> None:
        """For one more of it, at the expense of the least recently used."""
        own = [each for each in self._entries.values() if each.resource is resource]
        opening_count = sum(each.resource is resource for each in self._opening)
        if len(own) + opening_count < resource.held_max:
            return
        if not own:
            raise ResourceNotOpened(
                asked, self.worker, f"{opening_count} are being opened (held_max={resource.held_max})"
            )
        self._close(min(own, key=lambda each: each.used))
        tally.evicted += 1

    def _close(self, entry: Entry) -> None:
        """Whatever its `close` does, it is held no more."""
        if self._entries.get(entry.item) is not entry:
            return  # the `close` of another one has asked for more, and this one had to make room
        with self._lock:
            del self._entries[entry.item]
        resource, tally = entry.resource, self.tallies[entry.asked.name]
        if resource.is_stale is not None:
            self._to_ask.remove(entry)
        tally.closed += 1
        handle, entry.handle = entry.handle, None
        if resource.close is not None:
            try:
                resource.close(handle)
            except BaseException as error:  # the edge, as in a request: nobody's sys.exit() ends the worker
                tally.close_failures += 1
                said = f"resource {entry.asked} of worker {self.worker} could not be closed, and is forgotten"
                self._report(f"close {entry.asked.name}", said, error)

    def _is_stale(self, entry: Entry) -> bool:
        assert entry.resource.is_stale is not None
        try:
            return bool(entry.resource.is_stale(entry.handle))
        except BaseException as error:
            self.tallies[entry.asked.name].stale_failures += 1
            said = f"resource {entry.asked} of worker {self.worker} cannot say whether it is stale, and is taken for it"
            self._report(f"is_stale {entry.asked.name}", said, error)
            return True

    def _check_thread(self) -> None:
        if self._is_ended:
            raise NotTheWorker(f"worker {self.worker} has ended, and its resources are closed")
        if self._thread is not None and self._thread != get_ident():
            raise NotTheWorker(
                f"what worker {self.worker} holds is for its own thread: use resources in the request itself, "
                "not in a thread that it has started"
            )
