"""Shard index: one part of the inverted index, by identifier. Plain data, no backplane, no files.

An answer costs less than a millisecond because everything it walks is bounded: files a word (`FILES_MAX`), lines a file
(`tokens.LINES_MAX`), hits (`LIMIT_MAX`). Beyond a bound, entries are counted and not kept. A file is replaced word by
word, so that a search in between finds the old entry or the new one, never nothing. Inner dictionaries hold numbers,
bytes and strings only: the garbage collector does not track such, and a full collection of a million entries would
stop the process for longer than any search may take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypedDict

from .lines import Lines
from .places import NUMBER_BYTES, Places
from .tokens import Portion, unpack, words_of

#: Files remembered for one word. `self` is in nearly all; nobody reads more than a few screens of them.
FILES_MAX = 256
#: Hits in one answer.
LIMIT_MAX = 100


class Hit(TypedDict):
    """One line that was found."""

    file: str
    line: int
    context: str


class ShardStatistics(TypedDict):
    """What a shard holds. `beyond` counts entries that a bound kept out."""

    files: int
    words: int
    entries: int
    beyond: int


class Table:
    """Word to file to packed line numbers, with the way back from a file to its words."""

    def __init__(self) -> None:
        self.postings: dict[str, dict[int, bytes]] = {}
        #: File to its words, joined by line feeds: a string is one object where a set would be fifty.
        self._words: dict[int, str] = {}
        self.entries = 0
        self.beyond = 0

    def words_of_file(self, file: int) -> frozenset[str]:
        """The words that were entered for a file."""
        joined = self._words.get(file)
        return frozenset(joined.split("\n")) if joined else frozenset()

    def enter(self, file: int, places: Places, known: frozenset[str]) -> list[str]:
        """Add or replace entries of a file; `known` are the words it had before. Which words these are."""
        words, numbers, end = places.words(), places.numbers, 0
        for word, count in zip(words, places.counts, strict=True):
            start, end = end, end + NUMBER_BYTES * count
            packed = numbers[start:end]
            files = self.postings.get(word)
            if files is None:
                files = self.postings[word] = {}
            if file in files:
                files[file] = packed
            elif len(files) < FILES_MAX:
                files[file] = packed
                self.entries += 1
                if word in known:
                    self.beyond -= 1  # it was kept out before, and a place has become free
            elif word not in known:
                self.beyond += 1
        return words

    def settle(self, file: int, words: list[str], known: frozenset[str]) -> None:
        """All entries of a file have come: drop those that it had before and has no longer."""
        for word in known.difference(words):
            files = self.postings.get(word, {})
            if file in files:
                del files[file]
                self.entries -= 1
                if not files:
                    del self.postings[word]
            else:
                self.beyond -= 1
        if words:
            self._words[file] = "\n".join(words)
        else:
            self._words.pop(file, None)


@dataclass(slots=True)
class _Arriving:
    """A file of which some portions have come."""

    known_tokens: frozenset[str]
    known_definitions: frozenset[str]
    tokens: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    lines: Lines = field(default_factory=Lines)


class ShardIndex:
    """What one shard knows."""

    def __init__(self) -> None:
        self._mentions = Table()
        self._definitions = Table()
        self._paths: list[str] = []
        self._ids: dict[str, int] = {}
        self._lines: dict[int, Lines] = {}
        self._arriving: dict[int, _Arriving] = {}

    def ingest(self, portion: Portion) -> int:
        """Take in one portion of a file; after its last one, what the file no longer has is gone. Entries taken in."""
        tokens, definitions, lines = portion.tokens, portion.definitions, portion.lines
        file = self._id(portion.path)
        arriving = self._arriving.get(file)
        if portion.is_first or arriving is None:
            arriving = _Arriving(self._mentions.words_of_file(file), self._definitions.words_of_file(file))
            self._arriving[file] = arriving
        arriving.lines += lines
        arriving.tokens.extend(self._mentions.enter(file, tokens, arriving.known_tokens))
        arriving.definitions.extend(self._definitions.enter(file, definitions, arriving.known_definitions))
        if portion.is_last:
            del self._arriving[file]
            self._mentions.settle(file, arriving.tokens, arriving.known_tokens)
            self._definitions.settle(file, arriving.definitions, arriving.known_definitions)
            if arriving.tokens or arriving.definitions:
                self._lines[file] = arriving.lines
            else:
                self._lines.pop(file, None)
        else:
            self._lines[file] = lines + self._lines.get(file, Lines())
        return len(tokens) + len(definitions)

    def search(self, text: str, limit: int) -> list[Hit]:
        """Lines that bear all words of `text`: definitions of the deciding word first, then by path and line."""
        words = words_of(text)
        if not words:
            return []
        word, others = words[0], words[1:]
        hits: list[Hit] = []
        seen: set[tuple[int, int]] = set()
        for file, line in self._places(word):
            context = self._context(file, line)
            if (file, line) not in seen and all(other in context for other in others):
                seen.add((file, line))
                hits.append(Hit(file=self._paths[file], line=line, context=context))
                if len(hits) >= min(limit, LIMIT_MAX):
                    break
        return hits

    def symbol(self, name: str, limit: int) -> list[Hit]:
        """Lines that define a function or class of this name."""
        hits: list[Hit] = []
        for file, line in self._sorted(self._definitions.postings.get(name, {})):
            if len(hits) >= min(limit, LIMIT_MAX):
                break
            hits.append(Hit(file=self._paths[file], line=line, context=self._context(file, line)))
        return hits

    def statistics(self) -> ShardStatistics:
        """Its size."""
        tables = (self._mentions, self._definitions)
        return ShardStatistics(
            files=len(self._lines),
            words=len(self._mentions.postings),
            entries=sum(table.entries for table in tables),
            beyond=sum(table.beyond for table in tables),
        )

    def _context(self, file: int, line: int) -> str:
        text = self._lines[file].get(line)
        assert text is not None, f"{self._paths[file]}:{line} was entered without its text"
        return text

    def _places(self, word: str) -> Iterator[tuple[int, int]]:
        yield from self._sorted(self._definitions.postings.get(word, {}))
        yield from self._sorted(self._mentions.postings.get(word, {}))

    def _sorted(self, files: dict[int, bytes]) -> Iterator[tuple[int, int]]:
        for file in sorted(files, key=self._paths.__getitem__):
            for line in unpack(files[file]):
                yield file, line

    def _id(self, path: str) -> int:
        file = self._ids.get(path)
        if file is None:
            file = self._ids[path] = len(self._paths)
            self._paths.append(path)
        return file
