"""Worklist: which file is next, what is known of each, and how far the work has come. Decides; touches no file.

Work comes in rounds. An `index` round tokenizes every file; a `verify` round reads and hashes every file and tokenizes
those that changed. When the index itself was lost (the process that held it died), everything known is forgotten and an
`index` round begins. A job that is under way when a new round begins still counts, for the round it belonged to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import islice

#: Failures remembered with path and reason; all are counted.
FAILURES_MAX = 20
#: Names remembered for those who look for something to search.
RECENT_MAX = 200
#: Of these, how many may come from one file.
RECENT_PER_FILE = 3


class Round(str, Enum):
    """What is done to each file."""

    INDEX = "index"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Job:
    """One file to work on."""

    path: str
    #: Tokenize it even if its hash says that it has not changed.
    is_forced: bool = False
    #: It is no longer there: take it out of the index.
    is_gone: bool = False


class Worklist:
    """Shared by the workers of one index; taking a job is one `popleft`, so two of them never get the same."""

    def __init__(self) -> None:
        self.round_number = 0
        self.round = Round.INDEX
        self.files_total = 0
        #: Of this round.
        self.files_done = 0
        #: Since the start, of all rounds.
        self.files = 0
        self.bytes = 0
        self.entries = 0
        self.failed = 0
        self.failures: deque[tuple[str, str]] = deque(maxlen=FAILURES_MAX)
        self.recent: deque[str] = deque(maxlen=RECENT_MAX)
        self._jobs: deque[Job] = deque()
        self._hashes: dict[str, bytes] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no job to take; some may still be under way."""
        return not self._jobs

    def begin(self, round: Round, paths: Iterable[str]) -> None:
        """Start a round over these files; what was left of the round before is dropped, as it is part of this one."""
        present = dict.fromkeys(paths)
        self._jobs.clear()
        self._jobs.extend(Job(path, is_gone=True) for path in self._hashes if path not in present)
        self._jobs.extend(Job(path, is_forced=round is Round.INDEX) for path in present)
        self.round_number += 1
        self.round = round
        self.files_total, self.files_done = len(self._jobs), 0

    def next_round(self) -> Round:
        """What comes after this one, where the work never ends."""
        return Round.INDEX if self.round is Round.VERIFY or not self.round_number else Round.VERIFY

    def take(self) -> Job | None:
        """The next file, or None."""
        try:
            return self._jobs.popleft()
        except IndexError:
            return None

    def needs_tokens(self, job: Job, digest: bytes) -> bool:
        """Whether the file is to be tokenized, now that its hash is known."""
        return job.is_forced or self._hashes.get(job.path) != digest

    def done(self, job: Job, digest: bytes, size: int, entries: int, names: Iterable[str] = ()) -> None:
        """A file has been worked on; `names` are some that it defines."""
        self._count(size)
        self.entries += entries
        self.recent.extend(islice(names, RECENT_PER_FILE))
        if job.is_gone:
            self._hashes.pop(job.path, None)
        else:
            self._hashes[job.path] = digest

    def fail(self, job: Job, reason: str) -> None:
        """A file could not be worked on; it is tried again in the next round."""
        self._count(0)
        self.failed += 1
        self.failures.append((job.path, reason))

    def forget(self) -> None:
        """The index was lost: nothing that was told to it counts."""
        self._hashes.clear()

    def _count(self, size: int) -> None:
        self.files_done = min(self.files_done + 1, self.files_total)
        self.files += 1
        self.bytes += size
