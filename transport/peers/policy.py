"""Policy of membership: the stated times and bounds, checked together.

All nodes of one system use the same. Two figures were measured (heartbeats every 200 ms, silence noted after 600 ms: a cut
link or a stopped process is seen within 750 ms), and the others follow from them. docs/concepts/membership.md states the
results, and tests/transport/peers holds them to it.
"""

from dataclasses import dataclass, fields
from typing import Final

_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipPolicy:
    """When a peer is suspected, given up, forgotten, and dialled. Raises `ValueError` for values that cannot work."""

    #: Interval of heartbeats to each peer: 63 peers cost 315 small frames a second, and as many to read.
    heartbeat_ns: int = 200 * _MS
    #: Silence after which a peer is suspected: three heartbeats. With two, each lost frame would be a suspicion; with more, a
    #: stopped peer is offered calls for longer.
    suspect_ns: int = 600 * _MS
    #: Silence that ends calls outstanding on the peer. Seven heartbeats after the suspicion: with 5 % of frames lost, ten in a
    #: row are lost once in 10^13, and a pause of Python's of a second is survived.
    dead_ns: int = 2 * _SECOND
    #: Peers that are asked about suspects, drawn anew with each heartbeat: SWIM's k. All suspects are in one question, so that
    #: an island that is cut off does not add a storm to its troubles.
    helpers: int = 3
    #: How long dead peers are remembered, and dialled now and then: a partition that lasts a lunch break heals by itself.
    forget_ns: int = 3600 * _SECOND
    #: First wait before a peer is dialled again; it doubles with each failure.
    backoff_ns: int = 100 * _MS
    #: Longest wait: most of the time in which a partition heals. 63 peers dialled so often cost nothing.
    backoff_ns_max: int = 2 * _SECOND
    #: A dialled peer that is not up after this is hung up on: the data that TCP holds for it is too old, and TCP's own retries
    #: come at ever longer intervals. (An established connection gets more time with each attempt: dialling.py.)
    attempt_ns: int = 1 * _SECOND
    #: A refused node (its name is taken, its protocol too old) tries again after this.
    refused_ns: int = 5 * _SECOND
    #: How far an incarnation may be ahead of this host's present clock: a year, more than any maintained clock is wrong.
    #: Without it one false report of the year 2116 would leave its victim no later incarnation to take. And a node that was
    #: started while its clock was wrong could not come back once it is right.
    ahead_ns_max: int = 366 * 24 * 3600 * _SECOND
    #: A node takes a later incarnation at most `raises_max` times in `raises_ns`, however late those are that others report:
    #: each time all outstanding calls end. Three: peers may know different former ones.
    raises_max: int = 3
    raises_ns: int = 60 * _SECOND
    #: Nodes in one mesh, this one included: connections and heartbeats grow with it in each node.
    members_max: int = 64
    #: Dead peers that are remembered; the one that has been dead for longest goes first.
    dead_count_max: int = 128

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value <= 0:
                raise ValueError(f"MembershipPolicy({field.name}={value!r}): expected a whole number above 0")
        for name, least, why in (
            ("heartbeat_ns", 10 * _MS, "10 ms: more would leave no time for anything else"),
            ("suspect_ns", 2 * self.heartbeat_ns, "two heartbeats, or each lost one is a suspicion"),
            (
                "dead_ns",
                self.suspect_ns + 2 * self.heartbeat_ns,
                "suspect_ns and two heartbeats, for others to be asked",
            ),
            ("attempt_ns", 2 * self.heartbeat_ns, "two heartbeats, or nobody can answer in time"),
            ("backoff_ns_max", self.backoff_ns, "backoff_ns"),
            ("forget_ns", self.dead_ns, "dead_ns"),
            ("members_max", 2, "2"),
        ):
            if getattr(self, name) < least:
                raise ValueError(
                    f"MembershipPolicy({name}={getattr(self, name):,}): expected at least {least:,}: {why}"
                )

    @property
    def echo_ns(self) -> int:
        """Greatest age of an echo on a healthy link, in ns: the way there, the wait for the next heartbeat, the way back."""
        return 2 * self.heartbeat_ns

    @property
    def death_ns_max(self) -> int:
        """Within this time a death is known to every node that was up with the dead one. Stated, and tested."""
        return self.dead_ns + 2 * self.heartbeat_ns

    @property
    def cut_ns_max(self) -> int:
        """Within this time both ends know that their link is cut, one way or both."""
        return self.death_ns_max + self.echo_ns

    @property
    def heal_ns_max(self) -> int:
        """Within this time after a partition all are up again and views agree: the longest wait, a dial, and some rounds."""
        return self.backoff_ns_max + self.attempt_ns + 10 * self.heartbeat_ns
