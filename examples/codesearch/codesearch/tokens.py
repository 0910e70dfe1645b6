"""Tokens: what of a source file can be found, and in which shard it is kept.

A regular expression a line, not `ast`: it takes what no parser takes (Python 2, broken files, comments, docstrings),
and it can stop after any line, so that a long file is read in slices. Line numbers are those of an editor: only line
feeds end a line, never form feeds. Costs about 0.1 s a megabyte.
"""

from __future__ import annotations

import codecs
import io
import re
import struct
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from keyword import kwlist
from zlib import crc32

import msgspec

from .lines import Lines
from .places import Places

#: Lines a token is remembered at in one file: enough to see how a file uses a name; `self` would be half of the index.
LINES_MAX = 8
#: Characters of a line kept as context: what fits beside a path on a wide terminal.
CONTEXT_MAX = 160
#: Longer ones are encoded data and nobody types them. (The longest name in the standard library has 82 characters.)
TOKEN_MAX = 120
#: Tokens in one portion. A shard takes in this many in about 0.3 ms, and then looks whether a search is there.
PORTION_TOKENS = 250
#: Words in one batch, which is taken in as one action: a search in the same shard waits for it, a millisecond or two. With
#: batches of a portion, what an action costs was more than half of all that `query` had to do; and what a shard holds is out of
#: the processor's cache each time that another one was at work in between.
BATCH_TOKENS = 2_000

IDENTIFIER = re.compile(rf"\b[^\W\d]\w{{1,{TOKEN_MAX - 1}}}\b")
DEFINITION = re.compile(r"[ \t\f]*(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)")
_KEYWORDS = frozenset(kwlist)
_PACKERS = tuple(struct.Struct(f"<{n}I") for n in range(LINES_MAX + 1))


def decode(data: bytes) -> tuple[str, bool]:
    """The text of a source file, and whether it was read without loss. Never raises."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text, is_exact = data.decode(encoding), True
        text.encode()  # some codecs make lone surrogates, which can neither be shown nor sent
    except (SyntaxError, LookupError, UnicodeError):
        text, is_exact = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace"), False
    return text.replace("\r\n", "\n").replace("\r", "\n"), is_exact


class Scan:
    """One file being tokenized. Call `advance` until it says True, then read `tokens`, `definitions` and `lines`."""

    def __init__(self, text: str, first: int = 1) -> None:
        """`first`: the number of its first line; more than 1 for a part of a file."""
        self._todo = enumerate(text.split("\n"), first)
        #: Identifier to the lines it is on, ascending, the first `LINES_MAX` of them.
        self.tokens: dict[str, list[int]] = {}
        #: Name of a function or class to the lines that define it.
        self.definitions: dict[str, list[int]] = {}
        #: Text of every line mentioned above.
        self.lines: dict[int, str] = {}

    def advance(self, lines_max: int) -> bool:
        """Take in up to `lines_max` lines; True when there are none left."""
        tokens, keywords = self.tokens, _KEYWORDS
        count = 0
        for number, line in islice(self._todo, lines_max):
            count += 1
            is_wanted = False
            for token in set(IDENTIFIER.findall(line)):
                if token not in keywords:
                    places = tokens.get(token)
                    if places is None:
                        tokens[token] = [number]
                        is_wanted = True
                    elif len(places) < LINES_MAX:
                        places.append(number)
                        is_wanted = True
            if found := DEFINITION.match(line):
                name = found[1]
                if len(name) <= TOKEN_MAX:
                    places = self.definitions.setdefault(name, [])
                    if len(places) < LINES_MAX:
                        places.append(number)
                        is_wanted = True
            if is_wanted:
                self.lines[number] = line.strip()[:CONTEXT_MAX]
        return count < lines_max

    def found(self) -> Found:
        """What was found, to be added to the scan of another part."""
        tokens = {token: pack(places) for token, places in self.tokens.items()}
        definitions = {name: pack(places) for name, places in self.definitions.items()}
        return Found(tokens, definitions, self.lines)

    def add(self, found: Found) -> None:
        """What was found in the part that follows all that is in here."""
        for mine, theirs in ((self.tokens, found.tokens), (self.definitions, found.definitions)):
            for word, packed in theirs.items():
                places = mine.setdefault(word, [])
                if len(places) < LINES_MAX:
                    places.extend(unpack(packed)[: LINES_MAX - len(places)])
        self.lines.update(found.lines)


@dataclass(frozen=True, slots=True)
class Found:
    """What is in a part of a file, as it travels."""

    tokens: dict[str, bytes]
    definitions: dict[str, bytes]
    lines: dict[int, str]


def parts(text: str, size: int) -> Iterator[tuple[int, str]]:
    """A text in parts of up to `size` characters, or of one line that is longer; of each, the number of its first line."""
    start, first = 0, 1
    while len(text) - start > size:
        end = text.rfind("\n", start, start + size)
        if end < 0:
            end = text.find("\n", start + size)
        if end < 0:
            break
        yield first, text[start:end]
        first += text.count("\n", start, end + 1)
        start = end + 1
    yield first, text[start:]


class Portion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of one file for one shard. Line numbers are packed, so that a shard stores what it is sent as it is.

    Without the names of its fields on its way, and unknown to the garbage collector: it holds nothing that could hold it.
    """

    path: str
    shard: int
    tokens: Places = Places()
    definitions: Places = Places()
    lines: Lines = Lines()
    is_first: bool = True
    is_last: bool = True

    @property
    def words_count(self) -> int:
        """What it costs a shard to take it in, roughly; telling it that there is nothing costs about as much as a word."""
        return len(self.tokens) + len(self.definitions) or 1


def portions(path: str, scan: Scan, shards: int) -> Iterator[Portion]:
    """What each shard has to be told of a file. One that gets nothing is told so: it may hold words of an older text."""
    tokens: list[list[str]] = [[] for _ in range(shards)]
    for token in scan.tokens:
        tokens[shard_of(token, shards)].append(token)
    for name in scan.definitions.keys() - scan.tokens.keys():  # a name of one letter is no token
        tokens[shard_of(name, shards)].append(name)
    for shard, mine in enumerate(tokens):
        starts = range(0, max(len(mine), 1), PORTION_TOKENS)
        for start in starts:
            part = mine[start : start + PORTION_TOKENS]
            mentions, definitions = Places.of(scan.tokens, part), Places.of(scan.definitions, part)
            yield Portion(
                path=path,
                shard=shard,
                tokens=mentions,
                definitions=definitions,
                lines=Lines.of(scan.lines, {*mentions.lines(), *definitions.lines()}),
                is_first=start == starts[0],
                is_last=start == starts[-1],
            )


def batches(parts: Iterable[Portion], shards: int, first: int = 0) -> Iterator[tuple[int, list[Portion]]]:
    """What is taken in together: portions of one shard, in order, up to `BATCH_TOKENS` words a batch.

    `first` is the shard to begin with: those who send at the same time begin at different ones.
    """
    mine: list[list[Portion]] = [[] for _ in range(shards)]
    for part in parts:
        mine[part.shard].append(part)
    for shard in (*range(first, shards), *range(first)):
        batch: list[Portion] = []
        words = 0
        for part in mine[shard]:
            if batch and words + part.words_count > BATCH_TOKENS:
                yield shard, batch
                batch, words = [], 0
            batch.append(part)
            words += part.words_count
        if batch:
            yield shard, batch


def packed(batch: list[Portion]) -> bytes:
    """A batch as it travels."""
    return _encoder.encode(batch)


def unpacked(data: bytes) -> list[Portion]:
    """And as a shard takes it in. Raises `msgspec.MsgspecError` for what is none."""
    return _decoder.decode(data)


def pack(lines: list[int]) -> bytes:
    """Line numbers as bytes."""
    return _PACKERS[len(lines)].pack(*lines)


def unpack(packed: bytes) -> tuple[int, ...]:
    """Line numbers from bytes."""
    return _PACKERS[len(packed) >> 2].unpack(packed)


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[Portion])


def words_of(text: str) -> list[str]:
    """The words of a query, the one that decides first: the longest, likely the rarest, and never a keyword alone."""
    words = re.findall(r"[^\W\d]\w*", text)
    return sorted(words, key=lambda word: (word in _KEYWORDS, -len(word)))  # stable: of equally long ones, the first


def shard_of(word: str, shards: int) -> int:
    """The shard that keeps a word. `crc32`, because `hash` differs from process to process."""
    return crc32(word.encode("utf-8", "surrogatepass")) % shards
