"""Places: words and the lines that each is on, as they travel: words joined by line feeds, numbers as bytes.

Three objects, however many words: as a dictionary of words, packing and unpacking them on the way to a shard cost a fifth of
what a shard does with them. What a shard keeps of a word is a slice of these bytes as it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec

#: Bytes of one line number.
NUMBER_BYTES = 4


class Places(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some words, by where they are. The garbage collector need not know: it holds nothing that could hold it."""

    #: No word has a line feed in it.
    texts: str = ""
    #: Of each word, on how many lines it is.
    counts: bytes = b""
    #: The numbers of all these lines, those of the first word first.
    numbers: bytes = b""

    @staticmethod
    def of(lines: Mapping[str, list[int]], words: Iterable[str]) -> Places:
        """Those of `words` that are on `lines`: word to the numbers of up to 255 lines."""
        chosen = [word for word in words if word in lines]
        found = [lines[word] for word in chosen]
        numbers = array("I", chain.from_iterable(found)).tobytes()
        return Places("\n".join(chosen), bytes(map(len, found)), numbers)

    def __len__(self) -> int:
        return len(self.counts)

    def words(self) -> list[str]:
        """In order."""
        return self.texts.split("\n") if self.texts else []

    def lines(self) -> array[int]:
        """All lines that any of the words is on."""
        return array("I", self.numbers)
