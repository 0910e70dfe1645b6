"""Worklist: what is known of each file, and how far the round has come. Decides; touches no file.

Work comes in rounds. A full round tokenizes every file; any other reads and hashes every file and tokenizes those that
changed. A round begins when nothing of the one before is left, so that no file is ever worked on twice at the same time:
two halves of it would reach a shard in turns. Which file is worked on when is the request kernel's business, not this one's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

#: Failures remembered with path and reason; all are counted.
FAILURES_MAX = 20
#: Names remembered for those who look for something to search.
RECENT_MAX = 200
#: Of these, how many may come from one file.
RECENT_PER_FILE = 3


class Worklist:
    """Of one index. Used by the objects of one backplane with one thread."""

    def __init__(self) -> None:
        self.round_number = 0
        #: Whether what is left of the round is not to be begun any more.
        self.is_stopped = True
        #: Of this round; those that are in the tree, and with those that are there no more.
        self.files_present = 0
        self.files_total = 0
        self.files_done = 0
        self.bytes_done = 0
        self.files_failed = 0
        #: Since the start, of all rounds.
        self.files = 0
        self.bytes = 0
        self.entries = 0
        self.failed = 0
        self.failures: deque[tuple[str, str]] = deque(maxlen=FAILURES_MAX)
        self.recent: deque[str] = deque(maxlen=RECENT_MAX)
        self._is_full = True
        self._hashes: dict[str, bytes] = {}
        #: Files of the index that this round has not found in the tree, or not yet.
        self._missing: dict[str, None] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all of this round has been worked on; never so for one that was stopped, or had no files."""
        return not self.is_stopped and 0 < self.files_total == self.files_done

    def begin(self, *, is_full: bool) -> int:
        """Start a round; its number."""
        self.round_number += 1
        self.is_stopped, self._is_full = False, is_full
        self.files_present = self.files_total = self.files_done = self.bytes_done = self.files_failed = 0
        self._missing = dict.fromkeys(self._hashes)
        return self.round_number

    def stop(self) -> None:
        """Begin nothing more of this round; what is under way ends by itself."""
        self.is_stopped = True

    def goes_on(self, round_number: int) -> bool:
        """Whether this round is not over."""
        return round_number == self.round_number and not self.is_stopped

    def enlist(self, paths: Iterable[str]) -> None:
        """These are in the tree. Each path once a round."""
        for path in paths:
            self.files_present += 1
            self.files_total += 1
            self._missing.pop(path, None)

    def missing(self, count: int) -> list[str]:
        """All of the tree has been enlisted: the next files that are in the index and in the tree no more."""
        paths = list(islice(self._missing, count))
        for path in paths:
            del self._missing[path]
        self.files_total += len(paths)
        return paths

    def digest(self, path: str) -> bytes:
        """Of the text that is in the index; b"", which is no file's: the file is to be tokenized whatever is in it."""
        return b"" if self._is_full else self._hashes.get(path, b"")

    def done(self, path: str, digest: bytes, size: int, entries: int, names: Iterable[str] = ()) -> None:
        """A file has been worked on; `names` are some that it defines."""
        self._ended(size)
        self.entries += entries
        self.recent.extend(islice(names, RECENT_PER_FILE))
        self._hashes[path] = digest

    def gone(self, path: str) -> None:
        """A file is in the index no more."""
        self._ended(0)
        self._hashes.pop(path, None)

    def fail(self, path: str, reason: str) -> None:
        """A file could not be worked on; it is tried again in the next round."""
        self._ended(0)
        self._hashes[path] = b""  # forgetting the path would leave its old text in the index for ever
        self.remember(path, reason)

    def remember(self, path: str, reason: str) -> None:
        """Something failed that is no file of the round."""
        self.failed += 1
        self.files_failed += 1
        self.failures.append((path, reason))

    def _ended(self, size: int) -> None:
        self.files_done += 1
        self.bytes_done += size
        self.files += 1
        self.bytes += size
