"""Ownership: owners of a kernel's requests, by names that a person can type, for the commands `owners` and `disown`.

An owner may be any object: its name is its text, or its `repr`, of which 100 characters are shown. The accounts are copied
under the kernel's mutex and named without it, because a `repr` may be a user's and slow. Only these commands pay for it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from appbackplane.transport.errors import text_of

from ..ledger.owners import named

if TYPE_CHECKING:
    from ..ledger.ledger import Ledger

#: Owners listed at most: a screenful or two. The largest come first, so that one that fills a pool is among them.
LISTED_MAX: Final = 100


class Owned(NamedTuple):
    """An owner, and how many of its requests there were at one moment."""

    owner: Hashable
    #: Posted, ready or executing.
    not_ended: int
    #: In the rejoin pool.
    ended: int

    @property
    def name(self) -> str:
        """The owner's name, for people; at most 100 characters."""
        return text_of(self.owner, 100) if isinstance(self.owner, str) else named(self.owner)

    def is_called(self, name: str) -> bool:
        """Whether a person means this owner by `name`; an owner that is a text may be given in full."""
        return name in (self.owner, self.name) if isinstance(self.owner, str) else name == self.name

    def shown(self) -> dict[str, Any]:
        """This owner's figures, for the commands."""
        return {"owner": self.name, "not_ended": self.not_ended, "ended": self.ended}


def owned(ledger: Ledger, _now_ns: int) -> list[Owned]:
    """All owners, those with most ended requests first. With the kernel's mutex."""
    found = [Owned(account.owner, account.existing_count, len(account.done)) for account in ledger.owners]
    found.sort(key=lambda each: (-each.ended, -each.not_ended))
    return found
