"""News: what a node tells the gateways of others: its things, its permissions, and the notifications of its things.

A gateway asks for the news after those that it has, and waits for them (long polling). So the node keeps no state for a
gateway, and a gateway that was away learns that it has missed some. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from ...permissions.permission_file import Permissions
from ..catalogue import CatalogueEntry

#: Notifications kept: a burst of one history (web/history.py), and what comes while a gateway asks again. And their bytes.
MESSAGES_MAX: Final = 4_096
BYTES_MAX: Final = 8 << 20
#: Of one answer: a frame between nodes has at most 16 MB.
ANSWER_MESSAGES_MAX: Final = 1_024
ANSWER_BYTES_MAX: Final = 1 << 20


class ExposedThing(msgspec.Struct, frozen=True):
    """One thing. `model`: the number of its Thing Model. `writable`: the properties that can be written."""

    id: str
    model: int
    process: str
    writable: tuple[str, ...]
    place: str = ""
    is_cached: bool = True


class ExposedListing(msgspec.Struct, frozen=True):
    """All things of a node."""

    things: tuple[ExposedThing, ...] = ()
    models: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, entries: Iterable[CatalogueEntry]) -> ExposedListing:
        """The listing of these; things of one class share a model."""
        models: dict[int, tuple[int, Mapping[str, Any]]] = {}
        things = []
        for each in entries:
            number, _ = models.setdefault(id(each.model), (len(models), each.model))
            things.append(ExposedThing(each.id, number, each.process, tuple(each.setters), each.place, each.is_cached))
        return cls(tuple(things), tuple(dict(model) for _, model in models.values()))


class NodePermissions(msgspec.Struct, frozen=True):
    """The permissions by which a node decides. A node that may speak for its users may know them."""

    contents: Permissions
    operators: tuple[str, ...]


class PublishedValues(msgspec.Struct, frozen=True):
    """A part of the last published values. `messages`: as those of `NodeNews`. `last`: the id of the last thing whose values
    are among them; "": there are no further things.
    """

    messages: tuple[dict[str, Any], ...]
    last: str = ""


class KnownNews(msgspec.Struct, frozen=True):
    """What a gateway knows already. `epoch`: of the process that said so; numbers of another one mean nothing."""

    epoch: str = ""
    number: int = 0
    listing: int = 0
    permissions: int = 0


class NodeNews(msgspec.Struct, frozen=True):
    """An answer. `known`: what the gateway knows with it. `messages`: bodies of notifications. `is_gap`: some before them are
    missing. `listing`, `permissions`: only if they have changed. `is_limited`: users need permissions.
    """

    known: KnownNews
    messages: tuple[dict[str, Any], ...] = ()
    is_gap: bool = False
    listing: ExposedListing | None = None
    is_limited: bool = False
    permissions: NodePermissions | None = None


def property_message(thing: str, process: str, name: str, data: Any) -> dict[str, Any]:
    """The body of the notification by which a thing has published this value (thing_ids.NOTIFICATIONS)."""
    return {"thing": thing, "process": process, "kind": "property", "name": name, "data": data, "is_known": True}


class NewsFeed:
    """The last notifications of a node's things."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, dict[str, Any], int]] = deque()
        self._bytes = 0
        self.last = 0
        #: The last number that was given to messages which are missing.
        self._missing = 0

    def add(self, body: dict[str, Any]) -> None:
        """Keep one; the oldest are forgotten."""
        size = len(msgspec.msgpack.encode(body))
        self.last += 1
        self._kept.append((self.last, body, size))
        self._bytes += size
        while len(self._kept) > MESSAGES_MAX or (self._bytes > BYTES_MAX and len(self._kept) > 1):
            self._bytes -= self._kept.popleft()[2]

    def lose(self) -> None:
        """Some messages are missing here: whoever asks for those that follow the last one learns it."""
        self._kept.clear()
        self._bytes = 0
        self.last += 1
        self._missing = self.last

    def after(self, number: int) -> tuple[tuple[dict[str, Any], ...], int, bool]:
        """The messages after this one, as many as an answer has room for; the number of the last of them; and whether some
        before them are missing.
        """
        kept, is_gap = self._kept, number < self._missing
        if not kept or number >= self.last:
            return (), self.last, is_gap
        is_gap = is_gap or number + 1 < kept[0][0]
        begin = 0 if is_gap else number + 1 - kept[0][0]
        found: list[dict[str, Any]] = []
        size = 0
        for number, body, bytes in islice(kept, begin, begin + ANSWER_MESSAGES_MAX):
            size += bytes
            if found and size > ANSWER_BYTES_MAX:
                return tuple(found), number - 1, is_gap
            found.append(body)
        return tuple(found), number, is_gap
