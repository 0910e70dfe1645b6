"""Thread handles: the open handles of one thread. That thread alone opens, uses and closes them, so nothing here needs a lock.

Seed 001, 3.1 and 5.3. A handle is opened at its first use, and again at the next use when it is stale. It is closed when it is
stale, when its resource has reached `held_max` and another needs its place, and when its thread ends. A handle in a request's
variable is good until that request asks for the same again, or for `held_max` others of its resource.

A use takes 0.2 us, the end of a request with nothing to close 0.06 us. A thread that executes nothing checks nothing: handles
that become stale meanwhile stay open until its next requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appbackplane.transport.errors import text_of

from ..resource import Resource, ResourceKey, ResourceNotOpened

#: At every so many ends of requests one handle is checked for being stale. A check is commonly a `stat`, 2 us, and at 60,000
#: requests/s that is an eighth of each; every 32nd time it is half a percent. A handle that its thread has stopped using is
#: closed within 32 requests for each that the thread holds. One in use is checked at each use.
ASK_EVERY: Final = 32
#: (subject, message, cause): logged, each subject once an interval.
Report = Callable[[str, str, BaseException], None]


@dataclass(slots=True, eq=False)
class HandleEntry:
    """One handle, and when it was last used."""

    item: Hashable
    asked: ResourceKey
    resource: Resource[Any]
    handle: Any = None
    #: When it was last used, in uses of this thread.
    used: int = 0


class ThreadHandles:
    """The handles of one thread: `held["db"]` or `held["db", path]`."""

    __slots__ = ("_declared", "_ends", "_entries", "_opening", "_report", "_thread", "_to_ask", "_uses")

    def __init__(self, thread: str, declared: Mapping[str, Resource[Any]], report: Report) -> None:
        """`thread`: its name, for messages."""
        self._thread, self._declared, self._report = thread, declared, report
        #: By the argument in the brackets; the oldest first.
        self._entries: dict[Hashable, HandleEntry] = {}
        #: Entries whose `open` runs now, the innermost last.
        self._opening: list[HandleEntry] = []
        #: Entries that can become stale, in the order in which they are checked.
        self._to_ask: deque[HandleEntry] = deque()
        self._uses = 0
        #: Ends of requests since the last check.
        self._ends = 0

    def __getitem__(self, item: Hashable) -> Any:  # hot: tests/runtime/requests/test_resources.py, and see above
        """The handle, opened if need be. Raises `UnknownResource`, `ResourceNotOpened`, `InvalidArgument` (key missing or
        extra).
        """
        try:
            entry = self._entries.get(item)
        except TypeError:
            ResourceKey(item, self._declared)  # its error explains the mistake
            raise
        if entry is None or (entry.resource.is_stale is not None and self._is_stale(entry)):
            entry = self._open(item)
        self._uses = entry.used = self._uses + 1
        return entry.handle

    def request_ended(self) -> None:  # hot: after every request
        """Now and then close a handle that has become stale and is not used any more."""
        if self._to_ask:
            self._ends += 1
            if self._ends >= ASK_EVERY:
                self._ask_one()

    def close(self) -> None:
        """The thread ends: close all, the latest first."""
        for entry in reversed(list(self._entries.values())):
            self._close(entry)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _open(self, item: Hashable) -> HandleEntry:
        """Open a handle, in place of the stale one if there is one."""
        asked = ResourceKey(item, self._declared)
        resource = self._declared[asked.name]
        asked.check(resource)
        if any(each.item == item for each in self._opening):
            raise ResourceNotOpened(asked, self._thread, "its own open asks for it")
        old = self._entries.get(item)
        if old is not None:  # first, since some resources can be open only once
            self._close(old)
        self._make_room(asked, resource)
        entry = HandleEntry(item, asked, resource)
        self._opening.append(entry)
        try:
            entry.handle = resource.open(*asked.key)
        except Exception as error:
            raise ResourceNotOpened(asked, self._thread, f"{type(error).__name__}: {text_of(error)}") from error
        finally:
            self._opening.remove(entry)
        self._entries[item] = entry
        if resource.is_stale is not None:
            self._to_ask.append(entry)
        return entry

    def _ask_one(self) -> None:
        """Check the next handle in turn, and close it if it is stale."""
        self._ends = 0
        entry = self._to_ask[0]
        if self._is_stale(entry):
            self._close(entry)
        else:
            self._to_ask.rotate(-1)

    def _make_room(self, asked: ResourceKey, resource: Resource[Any]) -> None:
        """Make room for one more handle of this resource, at the expense of the least recently used."""
        own = [each for each in self._entries.values() if each.resource is resource]
        opening_count = sum(each.resource is resource for each in self._opening)
        if len(own) + opening_count < resource.held_max:
            return
        if not own:
            raise ResourceNotOpened(
                asked, self._thread, f"{opening_count} are being opened (held_max={resource.held_max})"
            )
        self._close(min(own, key=lambda each: each.used))

    def _close(self, entry: HandleEntry) -> None:
        """Close a handle. It is held no more, even if its `close` raises."""
        if self._entries.get(entry.item) is not entry:
            return  # closed to make room, when the `close` of another one asked for more handles
        del self._entries[entry.item]
        resource = entry.resource
        if resource.is_stale is not None:
            self._to_ask.remove(entry)
        handle, entry.handle = entry.handle, None
        if resource.close is not None:
            try:
                resource.close(handle)
            except BaseException as error:  # the edge, as in a request: nobody's sys.exit() ends the thread
                said = f"resource {entry.asked} of thread {self._thread} could not be closed, and is forgotten"
                self._report(f"close {entry.asked.name}", said, error)

    def _is_stale(self, entry: HandleEntry) -> bool:
        assert entry.resource.is_stale is not None
        try:
            return bool(entry.resource.is_stale(entry.handle))
        except BaseException as error:
            said = f"resource {entry.asked} of thread {self._thread} raised in its is_stale, and is treated as stale"
            self._report(f"is_stale {entry.asked.name}", said, error)
            return True
