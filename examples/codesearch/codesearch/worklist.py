"""Worklist: which file is next, what is known of each, and how far the work has come. Decides; touches no file.

Work comes in rounds. A full round tokenizes every file; any other reads and hashes every file and tokenizes those that
changed. A round begins when nothing is under way any more, so that no file is ever worked on twice at the same time:
two halves of it would reach a shard in turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

#: Failures remembered with path and reason; all are counted.
FAILURES_MAX = 20
#: Names remembered for those who look for something to search.
RECENT_MAX = 200
#: Of these, how many may come from one file.
RECENT_PER_FILE = 3


@dataclass(frozen=True, slots=True)
class Job:
    """One file to work on."""

    path: str
    #: Tokenize it even if its hash says that it has not changed.
    is_forced: bool = False
    #: It is no longer there: take it out of the index.
    is_gone: bool = False


class Worklist:
    """Shared by the readers of one index, which all run in one backplane with one thread."""

    def __init__(self) -> None:
        self.round_number = 0
        #: Of this round.
        self.files_total = 0
        self.files_done = 0
        #: Since the start, of all rounds.
        self.files = 0
        self.bytes = 0
        self.entries = 0
        self.failed = 0
        self.failures: deque[tuple[str, str]] = deque(maxlen=FAILURES_MAX)
        self.recent: deque[str] = deque(maxlen=RECENT_MAX)
        #: Jobs taken and not given back.
        self.under_way = 0
        self._jobs: deque[Job] = deque()
        self._hashes: dict[str, bytes] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no job to take; some may still be under way."""
        return not self._jobs

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to take and nothing under way."""
        return not self._jobs and not self.under_way

    @property
    def is_complete(self) -> bool:
        """Whether all of this round has been worked on; never so for one that was stopped, or had no files."""
        return 0 < self.files_total == self.files_done

    def begin(self, paths: Iterable[str], *, is_full: bool) -> None:
        """Start a round over these files."""
        assert self.is_idle, "a round begins when the one before has ended"
        present = dict.fromkeys(paths)
        self._jobs.extend(Job(path, is_gone=True) for path in self._hashes if path not in present)
        self._jobs.extend(Job(path, is_forced=is_full) for path in present)
        self.round_number += 1
        self.files_total, self.files_done = len(self._jobs), 0

    def stop(self) -> None:
        """Drop what is left of this round; what is under way ends by itself."""
        self._jobs.clear()

    def take(self) -> Job | None:
        """The next file, or None. Whoever takes it gives it back by `done`, `fail` or `drop`."""
        if not self._jobs:
            return None
        self.under_way += 1
        return self._jobs.popleft()

    def needs_tokens(self, job: Job, digest: bytes) -> bool:
        """Whether the file is to be tokenized, now that its hash is known."""
        return job.is_forced or self._hashes.get(job.path) != digest

    def done(self, job: Job, digest: bytes, size: int, entries: int, names: Iterable[str] = ()) -> None:
        """A file has been worked on; `names` are some that it defines."""
        self._ended(size)
        self.entries += entries
        self.recent.extend(islice(names, RECENT_PER_FILE))
        if job.is_gone:
            self._hashes.pop(job.path, None)
        else:
            self._hashes[job.path] = digest

    def fail(self, job: Job, reason: str) -> None:
        """A file could not be worked on; it is tried again in the next round."""
        self._ended(0)
        self._hashes[job.path] = (
            b""  # no file's hash; forgetting the path would leave its old text in the index for ever
        )
        self.failed += 1
        self.failures.append((job.path, reason))

    def drop(self, job: Job) -> None:
        """It turned out that this round is void: the job counts for nothing."""
        self.under_way -= 1

    def _ended(self, size: int) -> None:
        self.under_way -= 1
        self.files_done += 1
        self.files += 1
        self.bytes += size
