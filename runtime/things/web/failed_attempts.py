"""Failed attempts: slows down those who guess tokens, by address, without locking out those who share it. Decides; no I/O.

An address has a bucket of failures that refills. While it is empty, only secrets that have been right before are looked at, so
a user who is signed in notices nothing of somebody who guesses from the same address.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Final

#: Failures in a row of one address, and seconds until one more is allowed: about 29,000 guesses a day.
FAILURES_MAX: Final = 20
REFILL_S: Final = 3.0
#: Addresses and right digests that are remembered; the one seen longest ago is forgotten. About 2 MB.
ADDRESSES_MAX: Final = 10_000
RIGHT_MAX: Final = 10_000


class FailedAttempts:
    """The failures of each address. Used by one event loop."""

    def __init__(self) -> None:
        #: By address: the time at which its bucket is full again.
        self._full_at_s: OrderedDict[str, float] = OrderedDict()
        self._right: OrderedDict[str, None] = OrderedDict()

    def wait_s(self, address: str, now_s: float, digest: str = "") -> float:
        """Seconds until the address may try again; 0: at once, which holds for a digest that was right before."""
        if digest and digest in self._right:
            return 0.0
        # A clock that is set back must not lock anybody out for longer than a whole bucket takes.
        missing_s = min(self._full_at_s.get(_network(address), now_s) - now_s, FAILURES_MAX * REFILL_S)
        return max(0.0, missing_s - (FAILURES_MAX - 1) * REFILL_S)

    def failed(self, address: str, now_s: float) -> None:
        """Count a failure of an address."""
        network = _network(address)
        missing_s = min(self._full_at_s.get(network, now_s) - now_s, (FAILURES_MAX - 1) * REFILL_S)
        self._full_at_s[network] = now_s + max(0.0, missing_s) + REFILL_S
        self._full_at_s.move_to_end(network)
        if len(self._full_at_s) > ADDRESSES_MAX:
            self._full_at_s.popitem(last=False)

    def was_right(self, digest: str) -> None:
        """Remember the digest of a secret that was right."""
        self._right[digest] = None
        self._right.move_to_end(digest)
        if len(self._right) > RIGHT_MAX:
            self._right.popitem(last=False)


def _network(address: str) -> str:
    """The address; of IPv6 the /64, all of which one host may have."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((int(parsed), 64), strict=False))
