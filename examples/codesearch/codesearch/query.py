"""Query: answers searches at once, however much is being indexed. The urgent side.

The index lies in keyed shards, `shard-0` and so on; a word is in one of them. Whoever searches need not know which: the
component's digester works it out (law 7) and the shard answers the caller directly. Shards take in text at the same time,
as bulk work in portions of about a tenth of a millisecond, so that is what a search may have to wait for, times the few
batches that may be outstanding (index.py).
"""

from __future__ import annotations

import uuid
from typing import TypedDict

from msgspec import MsgspecError

from appbackplane.runtime import AppObject, Component, InvalidArgument, operation

from .shard_index import Hit, ShardIndex
from .tokens import shard_of, unpacked, words_of


class Ingested(TypedDict):
    """What became of a batch. The epoch is another one when the process, and with it the index, is."""

    entries: int
    epoch: str


class QueryStatistics(TypedDict):
    """What all shards hold. `beyond` counts entries that a bound kept out."""

    epoch: str
    shards: int
    words: int
    entries: int
    beyond: int


class Shard(AppObject):
    """One part of the index."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self.index = ShardIndex()

    @operation(priority=0, digest="shard_for_text")
    def search(self, text: str, limit: int = 20) -> list[Hit]:
        """Lines that bear all words of `text`, definitions first."""
        return self.index.search(text, limit)

    @operation(priority=1, digest="shard_for_name")
    def symbol(self, name: str, limit: int = 20) -> list[Hit]:
        """Lines that define a function or class of this name."""
        return self.index.symbol(name, limit)

    @operation(priority=5)
    def ingest(self, portions: bytes) -> Ingested:
        """Take in a batch of portions (`tokens.batches`, `packed`).

        As bytes: made into portions in one step, here, it costs a third of what general arguments cost on their way.
        """
        try:
            batch = unpacked(portions)
        except MsgspecError as error:
            raise InvalidArgument(f"portions: {error}; expected tokens.packed(batch)") from error
        return Ingested(entries=sum(self.index.ingest(portion) for portion in batch), epoch=self._epoch)


class Query(Component):
    """All shards."""

    #: A place in the queue for every search of a few hundred clients; bulk never has more outstanding than its window.
    max_requests = 2000

    def __init__(self, shards: int = 8) -> None:
        if shards < 1:
            raise ValueError(f"shards = {shards}: expected 1 or more")
        self._epoch = uuid.uuid4().hex
        self._shards = [Shard(self._epoch) for _ in range(shards)]

    def setup(self) -> None:
        """One object a shard."""
        for number, shard in enumerate(self._shards):
            self.add(shard, key=f"shard-{number}")

    def shard_for_text(self, text: str, limit: int) -> str:
        """Key of the shard that answers: that of the deciding word. A text without a word is found nowhere."""
        words = words_of(text)
        return self.shard_for_name(words[0] if words else "", limit)

    def shard_for_name(self, name: str, limit: int) -> str:
        """Key of the shard that keeps a word."""
        return f"shard-{shard_of(name, len(self._shards))}"

    @operation(priority=1)
    def statistics(self) -> QueryStatistics:
        """How much is in the index."""
        parts = [shard.index.statistics() for shard in self._shards]
        return QueryStatistics(
            epoch=self._epoch,
            shards=len(parts),
            words=sum(part["words"] for part in parts),
            entries=sum(part["entries"] for part in parts),
            beyond=sum(part["beyond"] for part in parts),
        )

    def make_room(self, request: object) -> bool:
        """Full: bulk work goes first, as it comes again by itself."""
        return self.shed(below=1) > 0
