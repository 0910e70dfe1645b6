"""Outlet: the items of one stage that wait for the next stage or are there, and the credits that bound them. Pure.

A chunk takes one credit for each of its items when it is sent, and gives them back when its action has ended: when everything
that was made of its items has ended, too. So the credits of an edge bound the memory behind it, however slow the consumer is.
Chunks of one lane are sent in order. Where the order matters (`by`), chunks that came back wait until the lane has answered
all others, and are then sent again in their order; and each says which one it follows, since a chunk that was sent before it is
known that another one came back must not be served first. Thread-safe: the lanes of a stage may run in several threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

#: Most items of a chunk. Three stages that do next to nothing carried 5,000 items a second in chunks of 1, 76,000 of 16,
#: 280,000 of 64 and 870,000 of 256, in one interpreted process. An urgent action waits for the end of a chunk: with functions
#: of 10 us for 2.6 ms. Larger chunks would make it longer, for little gain.
CHUNK_MAX = 256
#: The share of its credits that one chunk takes at most, so that the producer fills one while others are under way.
CHUNKS_MIN = 4


class Origin:
    """Where items came from: the chunk of the stage before, or a piece of the source. It ends with the last of its items."""

    __slots__ = ("has_failed", "is_ended", "left", "position", "waiting")

    def __init__(self, position: Any = None) -> None:
        #: Parts of chunks that carry its items and have not ended.
        self.left = 0
        self.is_ended = False
        #: Whether some of its items cannot be sent any more from here: the caller has to send them again.
        self.has_failed = False
        #: The position behind its items in the source; None: it has none.
        self.position = position
        #: Set when it ends (`OneShotEvent`); of each action that waits for it.
        self.waiting: list[Any] = []


class Chunk:
    """Items that are sent in one call."""

    __slots__ = ("follows", "items", "number", "origins", "since_ns", "target")

    def __init__(self, target: LaneQueue, number: int, since_ns: int) -> None:
        self.target = target
        self.number = number
        #: When the first of its items was put into the outlet.
        self.since_ns = since_ns
        #: The chunk of its lane that was sent before it; None: the lane has answered all that were.
        self.follows: int | None = None
        self.items: list[Any] = []
        #: One for each part that came from another origin.
        self.origins: list[Origin] = []


class LaneQueue:
    """One lane of the next stage, or all of them if the items have no key."""

    __slots__ = (
        "again", "count", "held_until_ns", "is_broken", "is_ready", "key", "outstanding_count", "parts", "sent", "trials",
    )  # fmt: skip

    def __init__(self, key: str | None) -> None:
        self.key = key
        #: Items that have not been sent yet: (items, origin, when they were put here), and how many.
        self.parts: deque[tuple[list[Any], Origin, int]] = deque()
        self.count = 0
        #: Chunks that came back, by their numbers.
        self.again: list[Chunk] = []
        self.outstanding_count = 0
        #: The number of the chunk that was sent last.
        self.sent = 0
        #: Whether its order is broken: a chunk came back, and later ones may be served meanwhile.
        self.is_broken = False
        #: How often in a row a chunk came back, and until when nothing is sent.
        self.trials = 0
        self.held_until_ns = 0
        self.is_ready = False


class StageOutlet:
    """The edge from a stage to the next one."""

    def __init__(self, credits: int, keys: Sequence[str | None], *, chunk_max: int = CHUNK_MAX) -> None:
        """`keys`: the lanes of the next stage; [None]: any of them takes any item."""
        self.credits = credits
        self._chunk_most = chunk_max
        self.chunk_max = max(1, min(chunk_max, credits // CHUNKS_MIN))
        self._targets = [LaneQueue(key) for key in keys]
        self.is_ordered = keys[0] is not None
        self._mutex = threading.Lock()
        self._ready: deque[LaneQueue] = deque()
        self._outstanding: dict[int, Chunk] = {}
        self._numbers = 0
        self._is_sending = False
        #: Items that have taken credits, and items that wait for some.
        self.used_count = 0
        self.waiting_count = 0
        #: Totals of items: ended, lost with the process that had them, and sent again though they may have been processed.
        self.ended_count = 0
        self.lost_count = 0
        self.resent_count = 0

    @property
    def room(self) -> int:
        """How many further items the credits are good for; never below 0."""
        return max(0, self.credits - self.used_count - self.waiting_count)

    def put(self, parts: Iterable[tuple[int, list[Any]]], origin: Origin, now_ns: int) -> bool:
        """Queue items: for each lane its number and a list that is not empty. They count as the origin's until they end.

        Returns whether there were any.
        """
        has_any = False
        with self._mutex:
            for number, items in parts:
                target = self._targets[number]
                size = self.chunk_max
                for part in (
                    [items] if len(items) <= size else [items[at : at + size] for at in range(0, len(items), size)]
                ):
                    target.parts.append((part, origin, now_ns))
                    origin.left += 1
                target.count += len(items)
                self.waiting_count += len(items)
                self._is_ready(target)
                has_any = True
        return has_any

    def spread(self, lanes: int) -> None:
        """The next stage serves so many chunks at a time: make them so small that the credits suffice for `CHUNKS_MIN` each."""
        self.chunk_max = max(1, min(self._chunk_most, self.credits // (CHUNKS_MIN * lanes)))

    def begin_sending(self) -> bool:
        """Whether the caller is to start the sender: something is queued, and the sender sleeps."""
        with self._mutex:
            if self._is_sending or not self._ready or self.used_count >= self.credits:
                return False
            self._is_sending = True
            return True

    def take(self, now_ns: int) -> tuple[Chunk | None, bool]:
        """A chunk to send now, which has its credits; and whether the sender is to look for another one at once."""
        with self._mutex:
            chunk = self._next(now_ns)
            self._is_sending = chunk is not None and bool(self._ready)
            return chunk, self._is_sending

    def ended(self, chunk: Chunk) -> list[Origin]:
        """The action of a chunk has ended: its credits are free. Returns the origins that have ended with it."""
        with self._mutex:
            self._give_back(chunk)
            chunk.target.trials = 0
            self.ended_count += len(chunk.items)
            return self._end(chunk)

    def lost(self, chunk: Chunk) -> list[Origin]:
        """The process that had the chunk has died, and it is not sent again. Returns as `ended`."""
        with self._mutex:
            self._give_back(chunk)
            self.lost_count += len(chunk.items)
            return self._end(chunk)

    def given_up(self, chunk: Chunk) -> list[Origin]:
        """The chunk came back, and this process goes down: the origins end as failed. Returns as `ended`."""
        with self._mutex:
            self._give_back(chunk)
            for origin in chunk.origins:
                origin.has_failed = True
            return self._end(chunk)

    def came_back(self, chunk: Chunk, until_ns: int, *, has_begun: bool) -> None:
        """The chunk was not served: it is sent again, ahead of later ones, but not before `until_ns`.

        `has_begun`: whether some of its items may have been processed, so that they come twice.
        """
        with self._mutex:
            target = chunk.target
            self._give_back(chunk)
            self.resent_count += len(chunk.items) if has_begun else 0
            self._again(chunk)
            target.trials += 1
            target.held_until_ns = until_ns

    def came_early(self, chunk: Chunk) -> None:
        """The lane has not had the chunk before this one: it is sent again behind that."""
        with self._mutex:
            self._give_back(chunk)
            self._again(chunk)

    def divide(self, chunk: Chunk) -> None:
        """The chunk as a whole cannot be sent: each half of it is tried next. It has two items or more."""
        with self._mutex:
            self._give_back(chunk)
            half = len(chunk.items) // 2
            for items in (chunk.items[:half], chunk.items[half:]):
                part = Chunk(chunk.target, chunk.number, chunk.since_ns)
                part.items, part.origins = items, list(chunk.origins)
                self._again(part)
            for origin in chunk.origins:
                origin.left += 1

    def oldest_ns(self) -> int | None:
        """When the oldest item that has not ended was put here; None: there is none."""
        with self._mutex:
            since = [chunk.since_ns for chunk in self._outstanding.values()]
            for target in self._targets:
                since += [target.again[0].since_ns] if target.again else []
                since += [target.parts[0][2]] if target.parts else []
            return min(since, default=None)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _is_ready(self, target: LaneQueue) -> None:
        if not target.is_ready:
            target.is_ready = True
            self._ready.append(target)

    def _again(self, chunk: Chunk) -> None:
        target = chunk.target
        target.again.append(chunk)
        target.again.sort(key=lambda each: each.number)
        target.is_broken = True
        self.waiting_count += len(chunk.items)
        self._is_ready(target)

    def _next(self, now_ns: int) -> Chunk | None:
        for _ in range(len(self._ready)):
            target = self._ready[0]
            chunk = self._chunk_of(target, now_ns)
            if chunk is not None:
                if not target.again and not target.parts:
                    target.is_ready = False
                    self._ready.popleft()
                else:
                    self._ready.rotate(-1)
                return chunk
            self._ready.rotate(-1)
        return None

    def _chunk_of(self, target: LaneQueue, now_ns: int) -> Chunk | None:
        if now_ns < target.held_until_ns:
            return None
        room = self.credits - self.used_count
        if target.again:
            if self.is_ordered and target.is_broken and target.outstanding_count:
                return None  # a later chunk that is served meanwhile must not be followed by an earlier one
            target.is_broken = False
            chunk = target.again[0]
            if len(chunk.items) > room:
                return None
            target.again.pop(0)
        else:
            size = min(target.count, self.chunk_max, room)
            # As TCP avoids silly windows: credits that come back in crumbs would make crumbs of all chunks for ever.
            if size < min(target.count, self.chunk_max) and self.used_count and size < self.chunk_max // 2:
                return None
            if size <= 0:
                return None
            chunk = self._cut(target, size)
        self.waiting_count -= len(chunk.items)
        self.used_count += len(chunk.items)
        chunk.follows = target.sent if target.outstanding_count else None
        target.sent = chunk.number
        target.outstanding_count += 1
        self._outstanding[id(chunk)] = chunk
        return chunk

    def _cut(self, target: LaneQueue, size: int) -> Chunk:
        self._numbers += 1
        chunk = Chunk(target, self._numbers, target.parts[0][2])
        target.count -= size
        while size:
            items, origin, since_ns = target.parts.popleft()
            if len(items) > size:
                target.parts.appendleft((items[size:], origin, since_ns))
                items = items[:size]
                origin.left += 1
            size -= len(items)
            if chunk.items:
                chunk.items += items
            else:
                chunk.items = items
            chunk.origins.append(origin)
        return chunk

    def _give_back(self, chunk: Chunk) -> None:
        del self._outstanding[id(chunk)]
        self.used_count -= len(chunk.items)
        chunk.target.outstanding_count -= 1

    def _end(self, chunk: Chunk) -> list[Origin]:
        found = []
        for origin in chunk.origins:
            origin.left -= 1
            if not origin.left:
                origin.is_ended = True
                found.append(origin)
        return found
