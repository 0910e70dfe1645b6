"""Indexing: the work of the index as requests of three levels, for workers in this process or in processes of their own.

    Feed   lane 1   walks the tree, and posts all files of it in groups, as fast as the kernel has room for them
    Files  lane 2   some files, about 800 KB together: reads, hashes, decides what changed, tokenizes, feeds the shards
    Part   lane 3   a part of a large file: tokenizes it

What travels to a worker are paths; it reads for itself. A small file makes no request of its own: a round trip for 2 KB would
cost as much as the work. Of a large one the text travels, in bounded parts, so that what is tokenized is what was hashed. What
was found goes from the worker to `query` directly, all of a group at once: no worker has more than one message outstanding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from appbackplane.runtime import BackplaneError, DeadlineExceeded, PeerError, checkpoint, pause
from appbackplane.runtime.requests import Context, Runnable

from .tokens import Found, Portion, Scan, batches, decode, packed, parts, portions
from .tree import source_files

#: Lanes of the kernel (seed: feeders, unit transactions, and parts of these).
LANE_FEED, LANE_FILES, LANE_PART = 1, 2, 3
#: Bytes of source in one request: about forty files, whose words fill batches for each of eight shards. With single files
#: most batches hold a dozen words, and the workers spend their time on calls; with half of it, a twentieth of their time.
GROUP_BYTES = 768 * 1024
#: Files in one request, however small.
GROUP_FILES_MAX = 64
#: Groups that are worked on at a time, with the kernel's policy as it is here.
AT_A_TIME = 4
#: Bytes after which a message to `query` is sent: all of a group, and of the largest files some. It takes `query` a third of a
#: millisecond to receive so much. A call for each batch cost `query` as much as taking it in, and each worker a wait.
MESSAGE_BYTES = 1 << 20
#: Files with more characters than that are split into parts of half of it: 15 ms of work that another worker may do. A part
#: costs a tenth more than the same text within its file, as what was found in it travels twice.
SPLIT_CHARS = 256 * 1024
#: Lines tokenized before a worker looks whether something more urgent is there: some four milliseconds. A look costs 30 us
#: where the worker has but one thread, which then looks after its socket, too: with 150 lines, a twentieth of its time.
SLICE_LINES = 2_000
#: Larger files are data, and reading one of them would take longer than any slice.
FILE_BYTES_MAX = 2 << 20
#: Paths told to the index at once: a millisecond of its time.
PAGE = 1000
#: Requests posted before the feeder looks whether its round still goes on.
LOOK_EVERY = 32
#: How long is waited for room, or for parts, before looking whether this process is to go down.
ROOM_S = 0.5
#: How long to wait before asking a `query` again that is restarting: it is back in about a second.
RETRY_S = 0.25


@dataclass(frozen=True, slots=True)
class Tree:
    """All files below a folder. Paths are bytes, as file names are: they need not be text in any encoding."""

    round: int
    root: bytes
    suffixes: tuple[str, ...]
    #: Of the index that is fed, and how many shards it has.
    epoch: str
    shards: int


@dataclass(frozen=True, slots=True)
class Group:
    """Some files, to be worked on together."""

    round: int
    paths: list[bytes]
    epoch: str
    shards: int
    #: The shard whose batch is sent first: those who send at the same time begin at different ones.
    first_shard: int
    #: They are no longer there: take them out of the index.
    is_gone: bool = False
    #: How often it has been lost with its worker.
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a large file."""

    file: int
    part: int
    first_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file."""

    path: bytes
    digest: bytes = b""
    size: int = 0
    entries: int = 0
    #: Some names that it defines.
    names: list[str] = field(default_factory=list)
    #: Why it could not be indexed; "": it was, or had not changed.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Worked:
    """What became of a group. Nothing, if its round was over, or the index that it was for turned out to be lost."""

    files: list[Outcome] = field(default_factory=list)
    is_over: bool = False
    is_lost: bool = False


def owner_of(round: int) -> str:
    """For whom all requests of a round rejoin: when none exists any more, the round is at its end."""
    return f"round {round}"


class Feed(Runnable):
    """The feeder."""

    async def execute(self, request: Tree, kernel: Context) -> bool:
        """Whether all has been posted, or the round was over before. The first groups are worked on while it walks on."""
        files: list[tuple[bytes, int]] = []
        page: list[bytes] = []
        todo: list[Group] = []
        for folder in source_files(Path(os.fsdecode(request.root)), request.suffixes):
            for path in folder:
                files.append((os.fsencode(path), _size_of(path)))
                page.append(files[-1][0])
            first = [] if todo else [*grouped(files)][:AT_A_TIME]
            is_first = len(first) == AT_A_TIME
            if (is_first or len(page) >= PAGE) and not await self._enlist(request, kernel, page):
                return True
            if is_first:
                todo = [self._group(request, number, paths) for number, paths in enumerate(first)]
                if not await self._post_all(todo, kernel):
                    return False
                del files[: sum(map(len, first))]
            await checkpoint()
        if not await self._enlist(request, kernel, page):
            return True
        begun = len(todo)
        todo = [self._group(request, number, paths) for number, paths in enumerate(grouped(files, is_end=True), begun)]
        while gone := await kernel.acall("index.missing", round=request.round, count=GROUP_FILES_MAX):
            todo.append(self._group(request, begun + len(todo), gone, is_gone=True))
        return await self._post_all(todo, kernel)

    async def _post_all(self, groups: list[Group], kernel: Context) -> bool:
        """As soon as there is room, until the round is over; False: this process is to go down before."""
        for number, group in enumerate(groups):
            if number % LOOK_EVERY == 0 and not await kernel.acall("index.enlist", round=group.round, paths=[]):
                return True
            if not await self._post(group, kernel):
                return False
        return True

    async def _post(self, group: Group, kernel: Context) -> bool:
        """As soon as there is room; False: this process is to go down before."""
        while not kernel.should_stop():
            try:
                await kernel.apost(group, Files, owner=owner_of(group.round), lane=LANE_FILES, timeout=ROOM_S)
                return True
            except DeadlineExceeded:
                continue
        return False

    async def _enlist(self, request: Tree, kernel: Context, page: list[bytes]) -> bool:
        for start in range(0, len(page), PAGE):
            part = page[start : start + PAGE]
            if not await kernel.acall("index.enlist", round=request.round, paths=part):
                return False
        page.clear()
        return True

    def _group(self, request: Tree, number: int, paths: list[bytes], *, is_gone: bool = False) -> Group:
        return Group(request.round, paths, request.epoch, request.shards, number % request.shards, is_gone)


class Files(Runnable):
    """The transaction."""

    async def execute(self, request: Group, kernel: Context) -> Worked:
        """Index some files."""
        known = await kernel.acall("index.begin_files", round=request.round, paths=request.paths)
        if known is None:
            return Worked(is_over=True)
        files = [_File(path) for path in request.paths]
        found: list[Portion] = []
        for number, (file, digest) in enumerate(zip(files, known, strict=True)):
            if not request.is_gone and not file.read(digest):
                continue
            if file.is_large:
                await self._split(number, file, kernel)
            else:
                await tokenize(file.scan)
                found += file.told(request.shards)  # now, while its words are in the processor's cache
        large = [file for file in files if file.is_large]
        if large and not await self._join(files, kernel):
            return Worked(is_over=True)
        for file in large:
            found += file.told(request.shards)
            await checkpoint()
        try:
            is_lost = not await self._feed(found, request, kernel)
        except BackplaneError as error:
            return Worked([Outcome(file.path, reason=f"not indexed: {error}") for file in files])
        return Worked([file.outcome() for file in files], is_lost=is_lost)

    async def _split(self, number: int, file: _File, kernel: Context) -> None:
        slices = [
            Slice(number, part, first_line, text)
            for part, (first_line, text) in enumerate(parts(file.text, SPLIT_CHARS // 2))
        ]
        await kernel.apost_all(
            slices, Part, priority=99, lane=LANE_PART
        )  # before further files: somebody waits for them

    async def _join(self, files: list[_File], kernel: Context) -> bool:
        """Put the parts together; False: this process is to go down, and nobody may be left who works on them."""
        found: dict[tuple[int, int], Found] = {}
        while True:
            try:
                _, done = await kernel.arejoin(timeout=ROOM_S)
            except DeadlineExceeded:
                if kernel.should_stop():
                    return False
                continue
            if done is None:
                break
            slice: Slice = done.request
            if done.is_failed:  # its worker died, perhaps: the text is still here
                found[slice.file, slice.part] = await _found_in(slice)
            else:
                found[slice.file, slice.part] = done.result
        for file, part in sorted(found):
            files[file].scan.add(found[file, part])
            await checkpoint()
        return True

    async def _feed(self, found: list[Portion], request: Group, kernel: Context) -> bool:
        """Send it all, a message at a time; False: it turned out that the index is another one by now."""
        intake = (
            f"intake-{request.first_shard}"  # the same one when it is asked again: what it has left to do comes first
        )
        for message in messages(batches(found, request.shards, request.first_shard)):
            answer = await self._take_in(intake, message, kernel)
            if answer["epoch"] != request.epoch:
                return False
        return True

    async def _take_in(self, intake: str, message: list[tuple[int, bytes]], kernel: Context) -> Any:
        while True:
            try:
                return await kernel.acall("query.take_in", key=intake, batches=message)
            except (PeerError, DeadlineExceeded) as error:
                if kernel.should_stop():
                    raise
                retry_after = error.retry_after or RETRY_S
            await pause(retry_after)


class Part(Runnable):
    """The part of a transaction."""

    async def execute(self, request: Slice, kernel: Context) -> Found:
        """What is in it."""
        return await _found_in(request)


class _File:
    """A file that is worked on."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.text, self.digest, self.size = "", b"", 0
        self.is_changed = False
        self.reason = ""
        self.scan = Scan("")
        self._entries = 0
        self._names: list[str] = []

    def read(self, known: bytes) -> bool:
        """Whether there is something to tokenize."""
        try:
            data = _bytes_of(self.path)
        except OSError as error:
            self.reason = error.strerror or str(error)
            return False
        self.size = len(data)
        self.digest = blake2b(data, digest_size=16).digest()
        self.is_changed = self.digest != known
        if self.is_changed:
            self.text = decode(data)[0]
            if not self.is_large:
                self.scan = Scan(self.text)
        return self.is_changed

    @property
    def is_large(self) -> bool:
        """Whether it is worked on in parts."""
        return len(self.text) > SPLIT_CHARS

    def told(self, shards: int) -> list[Portion]:
        """What the shards have to be told of it. Once: what was found is let go."""
        scan, self.scan = self.scan, Scan("")
        self._entries = len(scan.tokens) + len(scan.definitions)
        self._names = list(scan.definitions)[:3]
        return list(portions(shown(self.path), scan, shards))

    def outcome(self) -> Outcome:
        """What became of it."""
        return Outcome(self.path, self.digest, self.size, self._entries, self._names, self.reason)


def messages(found: Iterable[tuple[int, list[Portion]]]) -> Iterator[list[tuple[int, bytes]]]:
    """Batches, each with its shard, in order, packed: those that are sent together, `MESSAGE_BYTES` or the last of them."""
    message: list[tuple[int, bytes]] = []
    size = 0
    for shard, batch in found:
        message.append((shard, packed(batch)))
        size += len(message[-1][1])
        if size >= MESSAGE_BYTES:
            yield message
            message, size = [], 0
    if message:
        yield message


def grouped(files: Sequence[tuple[bytes, int]], *, is_end: bool = False) -> Iterator[list[bytes]]:
    """Paths that are worked on together, of (path, size): until they are large enough, or many.

    At the end ever fewer, or all workers but one would wait for the last (guided self-scheduling: Polychronopoulos, Kuck 1987).
    """
    left = sum(size for _, size in files)
    group: list[bytes] = []
    size = 0
    for path, bytes_count in files:
        group.append(path)
        size += bytes_count
        enough = max(GROUP_BYTES // AT_A_TIME, min(GROUP_BYTES, left // AT_A_TIME)) if is_end else GROUP_BYTES
        if size >= enough or len(group) >= GROUP_FILES_MAX:
            yield group
            left -= size
            group, size = [], 0
    if group:
        yield group


async def tokenize(scan: Scan) -> None:
    """All of it, stepping aside between slices for whatever is more urgent."""
    while not scan.advance(SLICE_LINES):
        await checkpoint()


async def _found_in(slice: Slice) -> Found:
    scan = Scan(slice.text, slice.first_line)
    await tokenize(scan)
    return scan.found()


def shown(path: bytes) -> str:
    """A path as text."""
    return path.decode("utf-8", "replace")


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # whoever reads it will say why


def _bytes_of(path: bytes) -> bytes:
    with open(path, "rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise OSError(f"larger than {FILE_BYTES_MAX:,} bytes")
    return data
