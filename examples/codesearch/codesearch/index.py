"""Index: has a source tree read, hashed and tokenized by a request kernel, and fed to the shards. The bulk side.

Whoever asks for a round has a feeder posted (indexing.py); from then on the kernel's workers do the work, and all that comes
back here is what became of each file. Everything runs at priority 5. No file waits here: the ready pool has room for so many
groups, and the feeder waits while it is full. When `query` lost its index (its process died), the epoch in its answers says
so, and all is read again.
"""

from __future__ import annotations

import logging
import os
import sysconfig
from enum import Enum
from pathlib import Path
from typing import TypedDict

from appbackplane.runtime import (
    AppObject,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    PeerError,
    StateMachine,
    checkpoint,
    every,
    operation,
    pause,
    should_stop,
)
from appbackplane.runtime.requests import Element, KernelPolicy, RequestKernel

from .indexing import LANE_FEED, LANE_FILES, RETRY_S, Feed, Files, Group, Part, Tree, Worked, owner_of, shown
from .tree import SUFFIXES
from .worklist import Worklist

#: Priority of all that may wait.
BULK = 5
#: How long a tree may take to be walked, and a round that was stopped to end: nobody waits that long.
WALK_S_MAX = 3600.0
#: Five workers keep two cores busy: a feeder, which mostly waits, three or four groups of files, one of which mostly waits for
#: `query`, and whatever is left for parts of large files, which always have a worker.
POLICY = KernelPolicy(workers=5, mode="lanes", lanes=(0, 20, 60), base=BULK)

#: How long the joiner waits before it looks whether its backplane is to go down: what is under way takes less.
LOOK_S = 0.5

log = logging.getLogger(__name__)


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
    round_bytes: int
    round_failed: int
    is_idle: bool
    files: int
    bytes: int
    entries: int
    failed: int
    #: The kernel's: requests that may be executed at a time, that are, by lane, and that wait for it.
    workers: int
    executing: list[int]
    ready: int


class Stage(Enum):
    """How far a round is."""

    REST = "rest"  # nothing of any round is left
    WALKING = "walking"  # it is not known yet how many files there are
    WORKING = "working"


class Round(StateMachine):
    """The round of now, as its requests and those who wait for it see it."""

    initial = Stage.REST

    def __init__(self, index: Index) -> None:
        self._work = index.work

    @operation(priority=BULK, accepted_in=(Stage.REST,))
    def begin(self, is_full: bool) -> int:
        """Its number."""
        self.become(Stage.WALKING)
        return self._work.begin(is_full=is_full)

    @operation(priority=BULK)
    def enlist(self, round: int, paths: list[bytes]) -> bool:
        """Files that the feeder has found. Whether the round still goes on."""
        if should_stop() or not self._work.goes_on(round):
            return False
        self._work.enlist(os.fsdecode(path) for path in paths)
        return True

    @operation(priority=BULK)
    def missing(self, round: int, count: int) -> list[bytes]:
        """All that there are have been found: files that the index has, and the tree no more; [] when all were named."""
        if not self._work.goes_on(round):
            return []
        self.become(Stage.WORKING)
        return [os.fsencode(path) for path in self._work.missing(count)]

    @operation(priority=BULK)
    def begin_files(self, round: int, paths: list[bytes]) -> list[bytes] | None:
        """Of each file the digest of the text that is in the index. None: the round is over."""
        if should_stop() or not self._work.goes_on(round):
            return None
        return [self._work.digest(os.fsdecode(path)) for path in paths]

    @operation(priority=BULK, accepted_in=(Stage.WORKING, Stage.REST), otherwise="defer")
    def size(self) -> int:
        """How many files there are in the tree, as soon as that is known."""
        return self._work.files_present

    @operation(priority=BULK)
    def end(self) -> None:
        """None of its requests exists any more."""
        self.become(Stage.REST)

    @operation(priority=BULK, accepted_in=(Stage.REST,), otherwise="defer")
    def at_rest(self) -> None:
        """Answers when nothing of any round is left."""


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

    @operation(priority=BULK)
    async def rest(self) -> None:
        """End the round, and begin no other by itself. Answers when none of its requests is left."""
        self._index.is_repeating = False
        self._index.work.stop()
        await self.call("index.at_rest", timeout=WALK_S_MAX)

    @every(1.0, priority=BULK)
    async def look(self) -> None:
        """See whether the index is still there while nobody feeds it."""
        if self._index.is_idle and self._index.epoch:
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
        index.work.stop()
        await self.call("index.at_rest", timeout=WALK_S_MAX)
        if should_stop():
            return 0
        while True:
            try:
                statistics = await self.call("query.statistics")
                break
            except PeerError as error:
                if should_stop():
                    return 0
                await pause(error.retry_after or RETRY_S)
        index.root, index.epoch, shards = top, statistics["epoch"], statistics["shards"]
        number = await self.call("index.begin", is_full=is_full)
        tree = Tree(number, os.fsencode(top), index.suffixes, index.epoch, shards)
        await index.kernel.apost(tree, Feed, owner=owner_of(number), lane=LANE_FEED)
        self.cast("index.join", round=number)
        size: int = await self.call("index.size", timeout=WALK_S_MAX)
        return size


class Joiner(AppObject):
    """Takes what became of the requests of a round, one round after the other."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @operation(priority=BULK, is_long=True)
    async def join(self, round: int) -> None:
        """Until none is left."""
        index, is_fed = self._index, True
        try:
            while True:
                try:
                    _, done = await index.kernel.arejoin(owner_of(round), timeout=LOOK_S)
                except DeadlineExceeded:
                    if should_stop():
                        break  # its workers go down, too: what is left is found again by the next one
                    continue
                if done is None:
                    break
                if done.runnable == Feed.__name__:
                    is_fed = self._fed(done)
                else:
                    await self._worked(done)
                await checkpoint()
        except FailedPrecondition as error:
            log.info("round %d is left: %s", round, error)  # the kernel goes down
            return
        await self.call("index.end")
        if not should_stop():
            index.round_ended(is_fed=is_fed)

    def _fed(self, done: Element) -> bool:
        """Whether all files of the tree have been posted, or are not to be."""
        if done.error is None:
            return bool(done.result)
        if done.is_lost:
            return False
        self._index.work.remember(str(self._index.root), done.error)
        return True

    async def _worked(self, done: Element) -> None:
        index, work = self._index, self._index.work
        group: Group = done.request
        if group.epoch != index.epoch:
            return
        if done.error is not None:
            if done.is_lost and not group.losses:
                again = Group(
                    group.round, group.paths, group.epoch, group.shards, group.first_shard, group.is_gone, losses=1
                )
                await index.kernel.apost(again, Files, owner=owner_of(group.round), lane=LANE_FILES)
                return
            for path in group.paths:
                work.fail(os.fsdecode(path), f"not indexed: {done.error}")
            return
        worked: Worked = done.result
        if worked.is_lost:
            index.lost()
        elif not worked.is_over:
            for file in worked.files:
                path = os.fsdecode(file.path)
                if file.reason:
                    work.fail(path, file.reason)
                elif group.is_gone:
                    work.gone(path)
                else:
                    work.done(path, file.digest, file.size, file.entries, file.names)


class Index(RequestKernel):
    """The bulk work of one source tree."""

    depends_on = ("query",)
    runnables = (Feed, Files, Part)
    policy = POLICY

    def __init__(
        self, root: str | None = None, suffixes: tuple[str, ...] = SUFFIXES, policy: KernelPolicy | None = None
    ) -> None:
        super().__init__(policy)
        self.root = Path(root or sysconfig.get_paths()["stdlib"]).expanduser()
        self.suffixes = tuple(suffixes)
        self.work = Worklist()
        #: Of the index that was fed; empty: none yet.
        self.epoch = ""
        self.is_repeating = False
        self._round = Round(self)

    def setup(self) -> None:
        """Who begins rounds, who ends them, and what both and all requests see of them."""
        self.add(self._round, key="round")
        self.add(Walker(self), key="walker")
        self.add(Joiner(self), key="joiner")

    def on_primary(self) -> None:
        """Begin."""
        self.cast("index.rebuild")

    @property
    def is_idle(self) -> bool:
        """Whether nothing of any round is left."""
        return self._round.state is Stage.REST

    @operation(priority=1)
    def progress(self) -> Progress:
        """How far the work has come."""
        work, figures = self.work, self.figures()
        return Progress(
            root=shown(os.fsencode(self.root)),
            round=work.round_number,
            round_files=work.files_total,
            round_files_done=work.files_done,
            round_bytes=work.bytes_done,
            round_failed=work.files_failed,
            is_idle=self.is_idle,
            files=work.files,
            bytes=work.bytes,
            entries=work.entries,
            failed=work.failed,
            workers=figures.workers,
            executing=list(figures.executing_lanes),
            ready=sum(figures.ready),
        )

    @operation(priority=1)
    def recent(self, limit: int = 200) -> list[str]:
        """Names that were defined in the files read last: something to search for."""
        return list(self.work.recent)[-limit:] if limit > 0 else []

    @operation(priority=1)
    def failures(self) -> list[Failure]:
        """The last files that could not be worked on, and why."""
        return [Failure(file=shown(os.fsencode(path)), reason=reason) for path, reason in self.work.failures]

    @every(0.25, priority=2)
    def report(self) -> None:
        """Publish the progress."""
        self.publish("index.progress", **self.progress())

    # What its objects tell it.

    def round_ended(self, *, is_fed: bool) -> None:
        """Nothing of a round is left. `is_fed`: nothing was left out because the feeder was lost."""
        if not is_fed and not self.work.is_stopped:
            self.cast("index.refresh")
        elif self.is_repeating and self.work.is_complete:
            self.cast("index.rebuild")

    def lost(self) -> None:
        """The index that was fed is no more: begin anew."""
        if self.epoch:
            self.epoch = ""
            self.work.stop()
            self.cast("index.rebuild")
