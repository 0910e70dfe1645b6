"""Proving: whether what was cast and published has arrived, before a client closes.

A send that returned is not a delivery (TRAPS 5): of messages whose connection was closed while it was being made, with 200 ms
of linger, 3 to 18 in 100 never came (on an established one: 0 of 600). Where they go is not known. An answer to what is asked
after them proves that they came.
"""

from collections.abc import Iterable

from . import addressing
from .call_spec import CallSpec
from .errors import Busy
from .exchange import Exchange
from .purposes import Settling


class Proving:
    """Of one session: the peers who were cast or published something, of which nothing says whether it has arrived."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._unproven: set[bytes] = set()

    def said(self, peers: Iterable[bytes]) -> None:
        """These were told something."""
        self._unproven.update(peers)

    def forget(self, peer: bytes) -> None:
        """It is dead: nothing will be proved."""
        self._unproven.discard(peer)

    def settle(self, token: object, now_ns: int, timeout_ns: int) -> bool:
        """True: `token` comes back, in a `Settling`, once all has arrived, or never will. False: there is nothing to prove."""
        exchange, settling = self._exchange, Settling(token)
        for peer in self._unproven:
            # It changes nothing, since nobody subscribes to that topic; and a refusal proves as much as a result.
            route = addressing.backplane_route(exchange.connections.name(peer), "unsubscribe")
            try:
                spec = CallSpec(route, {"topic": "system.settled"}, ends_ns=now_ns + timeout_ns)
                exchange.open(peer, settling, spec)
                settling.remaining_count += 1
            except Busy:  # it does not read: nothing would be proved within this time
                continue
        self._unproven.clear()
        return settling.remaining_count > 0
