"""Record: what stands in the store about a cluster, and the times that follow from how long a lease lasts. Pure.

A store keeps one record and swaps it for another if nobody has done so meanwhile; it needs no clock. Who looks on counts
from when it saw a record for the first time, and who holds it from before it asked for its renewal: so the holder's time
is over first, whatever the clocks of both show, unless one runs faster than the other by more than a tenth.
"""

from __future__ import annotations

import msgspec

#: Tenths of a lease, from the moment at which its last renewal was asked for. The secondary looks this often (a file of 200
#: bytes, or one round trip), and the primary renews this often: two renewals may be lost before it steps down.
LOOK, RENEW = 1, 2
#: It begins to step down; what has not by then is killed; the kernel kills its supervisor, and with it all backplanes, if it
#: was not there to do so. Then others may take the lease. Three tenths to finish work in; one for SIGKILL on a machine that is
#: overloaded (1 to 2 ms were measured, TRAPS 22); the last one for clocks that differ.
QUIT, KILL, FUSE = 5, 8, 9
#: In which the secondary is primary, but for what its components' hooks take: the lease, a look, and the swap.
TAKEN_OVER = 12.5
#: After a store that did not answer, so many tenths pass.
AGAIN = 0.5
_TENTHS = 10


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Who is primary."""

    #: Grows by one with each holder: what it wrote elsewhere can be told from what is written by those after it.
    epoch: int
    #: A node; "": nobody, it was given back.
    holder: str
    #: Of its supervisor's process: a node that is started again is not taken for its former self.
    instance: str = ""
    #: Grows with each renewal.
    beat: int = 0
    ttl_ns: int
    #: The node that it is to be handed to; "": none.
    next: str = ""
    #: When this holder took it, in seconds since 1970: for people.
    since_s: float = 0.0


class Snapshot(msgspec.Struct, frozen=True):
    """What a store holds. `version`: the store's own word for this state of it."""

    version: str
    record: Record | None = None


def tenths(ttl_ns: int, count: float) -> int:
    """So many tenths of a lease."""
    return int(ttl_ns * count / _TENTHS)
