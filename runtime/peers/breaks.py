"""Breaks: lines that have broken, so that what was in them may be lost; and who is to be told of it.

Nobody knows whether what was in a broken line has arrived. Whoever dialled it ends his calls, and once it stands again says
`BROKEN`, by which the other ends those whose answers may have been lost on their way to him: so each call ends, and at both.
The same is owed where an answer found no line. Heard `BROKEN` is acted upon at most once in `HEARD_NS`, each peer's, the rest
together when that is over: each looks through all calls outstanding. Pure; bounded by `ADDRESSES_MAX`.
"""

from __future__ import annotations

from typing import Final

#: A line to the receiver broke: answers to what it has asked may be lost.
BROKEN: Final = "peers.broken"
#: Addresses that are remembered, the latest: more than there are nodes, dead and alive (MembershipPolicy).
ADDRESSES_MAX: Final = 256
#: A peer that says it more often than a line can break, and be dialled again (MembershipPolicy.backoff_ns), is not in order.
HEARD_NS: Final = 100_000_000


class Breaks:
    """Of the lines of one node. It belongs to the thread of its endpoint."""

    def __init__(self) -> None:
        #: Whether what has stood there stands; if not, whoever listens there is to be told.
        self._stands: dict[str, bool] = {}
        #: When it was last acted upon, by peer; and who has said it again since.
        self._heard_ns: dict[str, int] = {}
        self._again: set[str] = set()

    def stands(self, address: str) -> bool:
        """A line stands; whether `BROKEN` is to be said there first."""
        is_due = address in self._stands
        self._note(address, stands=True)
        return is_due

    def broke(self, address: str) -> bool:
        """A line stands no more; whether it stood."""
        if not self._stands.get(address, False):
            return False
        self._note(address, stands=False)
        return True

    def owe(self, address: str) -> None:
        """An answer found no line there: it is lost."""
        self._note(address, stands=False)

    def heard(self, name: str, now_ns: int) -> bool:
        """A peer says `BROKEN`: whether to act upon it now; else `due` will say so."""
        last_ns = self._heard_ns.get(name)
        if last_ns is not None and now_ns - last_ns < HEARD_NS:
            self._again.add(name)
            return False
        self._heard_ns[name] = now_ns
        return True

    def due(self, now_ns: int) -> list[str]:
        """Peers whose words are to be acted upon now."""
        due = [name for name in self._again if now_ns - self._heard_ns[name] >= HEARD_NS]
        for name in due:
            self._heard_ns[name] = now_ns
            self._again.discard(name)
        if not self._again and self._heard_ns:
            self._heard_ns = {name: ns for name, ns in self._heard_ns.items() if now_ns - ns < HEARD_NS}
        return due

    def _note(self, address: str, *, stands: bool) -> None:
        self._stands.pop(address, None)
        if len(self._stands) >= ADDRESSES_MAX:
            del self._stands[next(iter(self._stands))]
        self._stands[address] = stands
