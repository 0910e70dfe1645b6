"""Grants: which routes and topics a key may use, and which routes it may offer.

Written as patterns, as topics are: `index.stats` is that one, `index.*` all below it, `*` all there are. Two words are
special: `exported`, all that components have marked `export=True`, which is the default, and `none`. Routes of a supervisor, a
backplane or the control lane are under no `*`: such power is named, or not given. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..addressing import RESERVED
from ..errors import InvalidArgument
from .keys import shown

EXPORTED, NONE, ALL = "exported", "none", "*"
#: Patterns of one key, of each kind: more than anybody reads in a review of a ring.
PATTERNS_MAX = 100
_PATTERN = re.compile(r"[^.*,\s=#]+(\.[^.*,\s=#]+)*(\.\*)?")
_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class Grant:
    """The routes, or the topics, that may be used."""

    patterns: tuple[str, ...] = (EXPORTED,)

    @classmethod
    def of(cls, patterns: Iterable[str]) -> Grant:
        """Check patterns, and keep each once, in order; none: `exported`. Raises `InvalidArgument` that names the pattern."""
        found = tuple(dict.fromkeys(patterns)) or (EXPORTED,)
        for pattern in found:
            if pattern != ALL and (len(pattern) > _LENGTH_MAX or not _PATTERN.fullmatch(pattern)):
                raise InvalidArgument(
                    f"not a pattern: {shown(pattern)}; expected words joined by dots, such as 'index.stats' or "
                    f"'index.*', or one of {EXPORTED!r}, {ALL!r}, {NONE!r}"
                )
        if NONE in found and len(found) > 1:
            raise InvalidArgument(f"{NONE!r} stands alone: got {', '.join(map(repr, found))}")
        if len(found) > PATTERNS_MAX:
            raise InvalidArgument(f"{len(found)} patterns for one key: expected at most {PATTERNS_MAX}")
        return cls(found)

    @classmethod
    def of_offers(cls, patterns: Iterable[str]) -> Grant:
        """As `of`, for the routes that a key may offer to this node. Raises `InvalidArgument`.

        The other host alone decides on its exports, so `exported` would grant everything.
        """
        found = tuple(patterns)
        if EXPORTED in found or not found:
            raise InvalidArgument(
                f"not an offer: {shown(','.join(found))}; expected 'index.stats', 'index.*', {ALL!r} or {NONE!r}"
            )
        return cls.of(found)

    def permits(self, name: str, *, is_exported: bool) -> bool:
        """Whether this route or topic may be used."""
        if self.permits_all_of(name):
            return True
        return is_exported and EXPORTED in self.patterns and not _is_reserved(name)

    def permits_all_of(self, name: str) -> bool:
        """Whether a pattern covers it, exported or not. `files.*`: all below it, so messages need no check of their own."""
        below = name.removesuffix("*")
        return any(
            (pattern == ALL and not _is_reserved(name))
            or (pattern == name and pattern not in (EXPORTED, NONE))
            or (pattern.endswith(".*") and below.startswith(pattern[:-1]))
            for pattern in self.patterns
        )

    def __str__(self) -> str:
        return ",".join(self.patterns)


#: Grant of a key that states none.
DEFAULT = Grant()


def _is_reserved(name: str) -> bool:
    return name.partition(".")[0] in RESERVED
