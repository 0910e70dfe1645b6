"""Breaks: connections that have broken, so that messages in them may be lost; and the peers to be notified.

Nobody knows whether the last messages in a broken connection have arrived. Its dialler ends its calls, and sends `BROKEN` once
it is connected again. The receiver ends its calls on the dialler, whose replies may have been lost. So each call ends, and at
both ends. The same is owed where a reply found no connection. A peer's `BROKEN` is acted upon at most once in `HEARD_NS`,
further ones together after that: each searches all outstanding calls. Pure; bounded by `ADDRESSES_MAX`.
"""

from __future__ import annotations

from typing import Final

#: A connection to the receiver broke: replies to its calls may be lost.
BROKEN: Final = "peers.broken"
#: Addresses that are remembered, the latest: more than there are nodes, dead and alive (MembershipPolicy).
ADDRESSES_MAX: Final = 256
#: No healthy peer sends it more often: a connection has to break and be dialled again (MembershipPolicy.backoff_ns).
HEARD_NS: Final = 100_000_000


class Breaks:
    """The connections of one node. Owned by the thread of its endpoint."""

    def __init__(self) -> None:
        #: By address: whether the connection stands; if not, the node there is owed `BROKEN`.
        self._stands: dict[str, bool] = {}
        #: By peer: when `BROKEN` was last acted upon; and the peers that have sent it again since.
        self._heard_ns: dict[str, int] = {}
        self._again: set[str] = set()

    def stands(self, address: str) -> bool:
        """A connection is established; returns whether `BROKEN` is to be sent on it first."""
        is_due = address in self._stands
        self._note(address, stands=True)
        return is_due

    def broke(self, address: str) -> bool:
        """A connection has ended; returns whether it was established."""
        if not self._stands.get(address, False):
            return False
        self._note(address, stands=False)
        return True

    def owe(self, address: str) -> None:
        """A reply found no connection there, and is lost."""
        self._note(address, stands=False)

    def heard(self, name: str, now_ns: int) -> bool:
        """A peer has sent `BROKEN`. Returns whether to act upon it now; else `due` will list the peer."""
        last_ns = self._heard_ns.get(name)
        if last_ns is not None and now_ns - last_ns < HEARD_NS:
            self._again.add(name)
            return False
        self._heard_ns[name] = now_ns
        return True

    def due(self, now_ns: int) -> list[str]:
        """Peers whose further `BROKEN` is to be acted upon now."""
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
