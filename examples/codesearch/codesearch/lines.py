"""Lines: texts of some lines of a file, as they travel and as they are kept: numbers as bytes, texts joined by line feeds.

Two objects, however many lines: packing, sending, taking in and keeping them costs a copy of bytes, where a dictionary of
lines cost half of all the time that a shard had. A line is looked for only when somebody has found it, in a few microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

import msgspec


class Lines(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some lines, by number. The garbage collector need not know: it holds nothing that could hold it."""

    numbers: bytes = b""
    #: One text a number, without line feeds of their own.
    texts: str = ""

    @staticmethod
    def of(lines: Mapping[int, str], numbers: Iterable[int]) -> Lines:
        """Those of `lines` that have these numbers."""
        chosen = sorted(numbers)
        return Lines(array("I", chosen).tobytes(), "\n".join([lines[number] for number in chosen]))

    def __add__(self, others: Lines) -> Lines:
        """Both; where both have a line, these."""
        if not self.numbers or not others.numbers:
            return self if self.numbers else others
        return Lines(self.numbers + others.numbers, f"{self.texts}\n{others.texts}")

    def get(self, number: int) -> str | None:
        """The text of a line; None: it is not among them."""
        try:
            at = array("I", self.numbers).index(number)
        except ValueError:
            return None
        return self.texts.split("\n")[at]
