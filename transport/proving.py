"""Proving: whether casts and published messages have arrived, before a client closes.

A send that returned is not a delivery (TRAPS 5). Of messages whose connection was closed while it was being made, with 200 ms
of linger, 3 to 18 in 100 never came (on an established one: 0 of 600). Where they are lost is not known. The answer to a
later call proves that they came.
"""

from collections.abc import Iterable

from . import addressing
from .call_spec import CallSpec
from .caller_core import CallerCore, Own
from .errors import Busy


class Settling(Own):
    """Calls of which only the end matters; `token`, if any, comes back with the last."""

    def __init__(self, token: object, remaining_count: int = 0) -> None:
        self.token = token
        self.remaining_count = remaining_count


class Proving:
    """The peers of one session that were sent casts or messages without proof of arrival."""

    def __init__(self, core: CallerCore) -> None:
        self._core = core
        self._unproven: set[bytes] = set()

    def said(self, peers: Iterable[bytes]) -> None:
        """Casts or messages were sent to these peers."""
        self._unproven.update(peers)

    def forget(self, peer: bytes) -> None:
        """A peer is dead: nothing can be proved any more."""
        self._unproven.discard(peer)

    def settle(self, token: object, now_ns: int, timeout_ns: int) -> bool:
        """Call these peers. True: `token` comes back, in a `Settling`, once all calls have ended. False: nothing to prove."""
        core, settling = self._core, Settling(token)
        for peer in self._unproven:
            # The call changes nothing, since nobody subscribes to that topic. A refusal proves as much as a result.
            route = addressing.backplane_route(core.connections.name(peer), "unsubscribe")
            try:
                spec = CallSpec(route, {"topic": "system.settled"}, ends_ns=now_ns + timeout_ns)
                core.open(peer, settling, spec)
                settling.remaining_count += 1
            except Busy:  # it does not read, so nothing would be proved in time
                continue
        self._unproven.clear()
        return settling.remaining_count > 0
