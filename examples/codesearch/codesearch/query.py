"""Query: answers searches at once, however much is being indexed. The urgent side.

The index lies in keyed shards, `shard-0` and so on; a word is in one of them. Whoever searches need not know which: the
component's digester works it out (law 7) and the shard answers the caller directly. Shards take in text at the same time,
as bulk work, a batch of at most a millisecond at a time, so that is what a search in the same shard may have to wait for. What
was found in a group of files comes in one message, because a message costs as much as taking in a batch; an intake hands its
batches to the shards, one after the other.
"""

from __future__ import annotations

import uuid
from typing import TypedDict

from msgspec import MsgspecError

from appbackplane.runtime import AppObject, Component, InvalidArgument, checkpoint, operation

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
    async def ingest(self, portions: bytes) -> Ingested:
        """Take in a batch of portions (`tokens.batches`, `packed`); searches in other shards come in between.

        As bytes: made into portions in one step, here, it costs a third of what general arguments cost on their way.
        """
        try:
            batch = unpacked(portions)
        except MsgspecError as error:
            raise InvalidArgument(f"portions: {error}; expected tokens.packed(batch)") from error
        entries = 0
        for portion in batch:
            entries += self.index.ingest(portion)
            await checkpoint()
        return Ingested(entries=entries, epoch=self._epoch)


class Intake(AppObject):
    """Takes in what was found in many files. There are as many as shards, so that several messages are taken in at a time."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch

    @operation(priority=5, calls=("query.ingest",))
    async def take_in(self, batches: list[tuple[int, bytes]]) -> Ingested:
        """Batches as `Shard.ingest` takes them, each with the number of its shard; in order, and searches in between."""
        entries = 0
        for shard, portions in batches:
            ingested: Ingested = await self.call("query.ingest", key=f"shard-{shard}", portions=portions)
            entries += ingested["entries"]
        return Ingested(entries=entries, epoch=self._epoch)


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
        """One object a shard, and one that feeds them."""
        for number, shard in enumerate(self._shards):
            self.add(shard, key=f"shard-{number}")
            self.add(Intake(self._epoch), key=f"intake-{number}")

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
