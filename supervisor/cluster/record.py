"""Record: the stored record of a cluster, and the times that follow from the length of a lease. Pure.

A store keeps one record and swaps it if nobody else has meanwhile; it needs no clock. Observers count from when they first
saw a record, its holder from before it requested the renewal. So the holder's time ends first, even if both clocks show
different times, unless one runs faster than the other by more than a tenth.
"""

from __future__ import annotations

import msgspec

#: All in tenths of a lease, from when its last renewal was requested. LOOK: the secondary reads the record this often (a file
#: of 200 bytes, or one round trip); RENEW: the primary renews this often: two renewals may be lost before it steps down.
LOOK, RENEW = 1, 2
#: QUIT: the primary begins to step down; KILL: work that is left is killed; FUSE: the kernel kills the supervisor and with it
#: all backplanes, if it was not there to do so. After ten tenths others may take the lease. Three tenths to finish work; one
#: for SIGKILL on an overloaded machine (1 to 2 ms were measured, TRAPS 22); the last one for clocks that differ.
QUIT, KILL, FUSE = 5, 8, 9
#: Until the secondary is primary, without its components' hooks: the lease, a look, and the swap.
TAKEN_OVER = 12.5
#: Pause after a failure of the store, in tenths of a lease.
AGAIN = 0.5
_TENTHS = 10


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record: the primary node and its lease."""

    #: Fencing token: grows by one with each holder, so that writes of an earlier holder can be recognised.
    epoch: int
    #: Name of the primary node; "": none, the lease was given back.
    holder: str
    #: Id of its supervisor's process: a restarted node is not taken for its former self.
    instance: str = ""
    #: Grows with each renewal.
    beat: int = 0
    ttl_ns: int
    #: Node that the lease is to be handed to; "": none.
    next: str = ""
    #: When this holder took it, in seconds since 1970: for people.
    since_s: float = 0.0


class Snapshot(msgspec.Struct, frozen=True):
    """Content of a store. `version`: the store's own mark for this state."""

    version: str
    record: LeaseRecord | None = None


def tenths(ttl_ns: int, count: float) -> int:
    """`count` tenths of a lease, in ns."""
    return int(ttl_ns * count / _TENTHS)
