"""Index: reads, hashes and tokenizes a source tree and feeds it to the shards. The bulk side.

Everything here runs at priority 5. Each reader works on a few files at a time and sends what it found in batches, awaiting
the answer to each: an object has one outstanding reply at most (law 6), so `window` readers never have more than `window`
batches outstanding, and a slow `query` slows them down by itself. Between slices of a file a reader steps aside for
whatever is more urgent. When `query` lost its index (its process died), the epoch in its answers says so, and all is read
again.
"""

from __future__ import annotations

import os
import sysconfig
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from appbackplane.runtime import (
    AppObject,
    BackplaneError,
    Component,
    DeadlineExceeded,
    InvalidArgument,
    PeerError,
    checkpoint,
    every,
    operation,
    pause,
    should_stop,
)

from .tokens import Portion, Scan, batches, decode, portions
from .tree import SUFFIXES, source_files
from .worklist import Job, Worklist

#: Priority of all that may wait.
BULK = 5
#: Bytes of source a reader takes at once: about ten files, whose words fill a batch for each of eight shards. With single
#: files most batches hold a dozen words, and the index spends its time on calls.
GROUP_BYTES = 192 * 1024
#: Lines tokenized before a reader looks whether something more urgent is there: about half a millisecond.
SLICE_LINES = 150
#: Larger files are data, and reading one of them would take longer than any slice.
FILE_BYTES_MAX = 2 << 20
#: How long to wait before asking a `query` again that is restarting: it is back in about a second.
RETRY_S = 0.25


class Failure(TypedDict):
    """A file that could not be worked on."""

    file: str
    reason: str


class Progress(TypedDict):
    """How far the work has come. Counters without `round` run on from round to round: rates are their differences."""

    root: str
    round: int
    round_files: int
    round_files_done: int
    is_idle: bool
    files: int
    bytes: int
    entries: int
    failed: int
    batches_outstanding: int
    batches_outstanding_max: int


class _Read(NamedTuple):
    """A file that has been read."""

    job: Job
    digest: bytes
    size: int
    parts: list[Portion]
    names: list[str]


class Reader(AppObject):
    """Works on some files at a time."""

    def __init__(self, index: Index, number: int) -> None:
        self._index = index
        self._number = number

    @operation(priority=BULK, calls=("query.ingest",))
    async def work(self) -> None:
        """Take files and feed them to the shards; go on as long as there are any."""
        index, work = self._index, self._index.work
        epoch, reason = index.epoch, ""
        group = await self._read_some()
        try:
            await self._feed([part for file in group for part in file.parts], epoch)
        except BackplaneError as error:
            reason = f"not indexed: {error}"
        for file in group:
            if index.epoch != epoch:
                work.drop(file.job)
            elif reason:
                work.fail(file.job, reason)
            else:
                entries = sum(len(part.tokens) + len(part.definitions) for part in file.parts)
                work.done(file.job, file.digest, file.size, entries, file.names)
        if should_stop():
            return  # the backplane is about to go down: what is left is found again by the next one
        if not work.is_empty:
            self.cast("index.work", key=self.key)
        elif group and work.is_complete:
            index.round_ended()

    async def _read_some(self) -> list[_Read]:
        work = self._index.work
        group: list[_Read] = []
        size = 0
        while size < GROUP_BYTES and (job := work.take()) is not None:
            try:
                data = b"" if job.is_gone else _bytes_of(Path(job.path))
            except OSError as error:
                work.fail(job, error.strerror or str(error))
                continue
            size += len(data)
            digest = blake2b(data, digest_size=16).digest()
            parts: list[Portion] = []
            names: list[str] = []
            if job.is_gone or work.needs_tokens(job, digest):
                scan = Scan(decode(data)[0])
                while not scan.advance(SLICE_LINES):
                    await checkpoint()
                for part in portions(shown(job.path), scan, self._index.shards):
                    parts.append(part)
                    await checkpoint()
                names = list(scan.definitions)
            group.append(_Read(job, digest, len(data), parts, names))
        return group

    async def _feed(self, parts: list[Portion], epoch: str) -> None:
        """Send it all, a batch at a time; end early if it turns out that the index was lost meanwhile."""
        index = self._index
        for shard, batch in batches(parts, index.shards, first=self._number % index.shards):
            answer = await self._ingest(f"shard-{shard}", batch)
            if answer["epoch"] != epoch:
                return index.lost()

    async def _ingest(self, key: str, batch: list[Portion]) -> Any:
        while True:
            self._index.batch_sent()
            try:
                return await self.call("query.ingest", key=key, portions=batch)
            except (PeerError, DeadlineExceeded) as error:
                retry_after = error.retry_after or RETRY_S
            finally:
                self._index.batch_answered()
            await pause(retry_after)


class Walker(AppObject):
    """Begins rounds: one after the other, as it is one object."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @operation(priority=BULK, calls=("query.statistics",))
    async def rebuild(self, root: str | None = None, repeat: bool | None = None) -> int:
        """Read and tokenize all files, of another tree if `root` is given; `repeat`: again and again. How many."""
        if repeat is not None:
            self._index.is_repeating = repeat
        return await self._begin(root, is_full=True)

    @operation(priority=BULK, calls=("query.statistics",))
    async def refresh(self) -> int:
        """Read all files and tokenize those that have changed. How many files there are."""
        return await self._begin(None, is_full=False)

    @every(1.0, priority=BULK)
    async def look(self) -> None:
        """See whether the index is still there while nobody feeds it."""
        if self._index.work.is_idle and self._index.epoch:
            try:
                statistics = await self.call("query.statistics", timeout=1.0)
            except (PeerError, DeadlineExceeded):
                return  # it is restarting: asked again in a second
            if statistics["epoch"] != self._index.epoch:
                self._index.lost()

    async def _begin(self, root: str | None, *, is_full: bool) -> int:
        index = self._index
        top = index.root if root is None else Path(root).expanduser()
        if not top.is_dir():
            raise InvalidArgument(f"root: {str(top)!r} is no folder; expected one that holds source files")
        paths: list[str] = []
        for folder in source_files(top, index.suffixes):
            paths += folder
            await checkpoint()
        index.work.stop()
        while not index.work.is_idle:
            await pause(0.01)
        while True:
            try:
                statistics = await self.call("query.statistics")
                break
            except PeerError as error:
                await pause(error.retry_after or RETRY_S)
        index.root, index.epoch, index.shards = top, statistics["epoch"], statistics["shards"]
        index.work.begin(paths, is_full=is_full)
        for number in range(index.window):
            self.cast("index.work", key=f"reader-{number}")
        return len(paths)


class Index(Component):
    """The bulk work of one source tree."""

    depends_on = ("query",)

    def __init__(self, root: str | None = None, window: int = 4, suffixes: tuple[str, ...] = SUFFIXES) -> None:
        if window < 1:
            raise ValueError(f"window = {window}: expected 1 or more batches outstanding")
        self.root = Path(root or sysconfig.get_paths()["stdlib"]).expanduser()
        self.window, self.suffixes = window, tuple(suffixes)
        self.work = Worklist()
        #: Of the index that was fed; empty: none yet.
        self.epoch = ""
        self.shards = 1
        self.is_repeating = False
        self._outstanding = self._outstanding_max = 0
        self._walker = Walker(self)

    def setup(self) -> None:
        """Readers, as many as there may be batches outstanding."""
        self.add(self._walker, key="walker")
        for number in range(self.window):
            self.add(Reader(self, number), key=f"reader-{number}")

    def on_primary(self) -> None:
        """Begin."""
        self.cast("index.rebuild")

    @operation(priority=1)
    def progress(self) -> Progress:
        """How far the work has come."""
        work = self.work
        return Progress(
            root=shown(str(self.root)),
            round=work.round_number,
            round_files=work.files_total,
            round_files_done=work.files_done,
            is_idle=work.is_idle,
            files=work.files,
            bytes=work.bytes,
            entries=work.entries,
            failed=work.failed,
            batches_outstanding=self._outstanding,
            batches_outstanding_max=self._outstanding_max,
        )

    @operation(priority=1)
    def recent(self, limit: int = 200) -> list[str]:
        """Names that were defined in the files read last: something to search for."""
        return list(self.work.recent)[-limit:] if limit > 0 else []

    @operation(priority=1)
    def failures(self) -> list[Failure]:
        """The last files that could not be worked on, and why."""
        return [Failure(file=shown(path), reason=reason) for path, reason in self.work.failures]

    @every(0.25, priority=2)
    def report(self) -> None:
        """Publish the progress."""
        self.publish("index.progress", **self.progress())

    # What its objects tell it.

    def batch_sent(self) -> None:
        """A batch is outstanding."""
        self._outstanding += 1
        self._outstanding_max = max(self._outstanding_max, self._outstanding)

    def batch_answered(self) -> None:
        """It has ended, however it did."""
        self._outstanding -= 1

    def round_ended(self) -> None:
        """All files of a round have been worked on."""
        if self.is_repeating:
            self.cast("index.rebuild")

    def lost(self) -> None:
        """The index that was fed is no more: begin anew."""
        if self.epoch:
            self.epoch = ""
            self.work.stop()
            self.cast("index.rebuild")


def shown(path: str) -> str:
    """A path as text: file names are bytes, and need not be text in any encoding."""
    return os.fsencode(path).decode("utf-8", "replace")


def _bytes_of(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise OSError(f"larger than {FILE_BYTES_MAX:,} bytes")
    return data
