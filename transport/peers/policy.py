"""Policy of membership: the stated times and bounds, checked together.

All nodes of one system use the same. The figures begin with two that were measured (heartbeats every 200 ms, silence noted
after 600 ms: a cut link or a stopped process is seen within 750 ms) and follow from each other; docs/concepts/membership.md
has what is to be expected from them, and tests/transport/peers holds them to it.
"""

from dataclasses import dataclass, fields
from typing import Final

_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipPolicy:
    """When a peer is suspected, given up, forgotten; how often it is dialled. Raises `ValueError` for what cannot work."""

    #: A node tells each peer that it lives so often: 63 peers cost it 315 small frames a second, and as many to read.
    heartbeat_ns: int = 200 * _MS
    #: So much silence is suspicious: three heartbeats. With two, each lost frame would be one; with more, a stopped peer
    #: is offered calls for longer.
    suspect_ns: int = 600 * _MS
    #: So much silence ends what is outstanding with the peer. Seven heartbeats after the suspicion: with 5 % of frames
    #: lost, ten in a row are lost once in 10^13, and a pause of Python's of a second is lived through.
    dead_ns: int = 2 * _SECOND
    #: Others that are asked about whom one suspects, drawn anew with each heartbeat: SWIM's k. All suspects are in one
    #: question, so that an island that is cut off does not add a storm to its troubles.
    helpers: int = 3
    #: The dead are known, and dialled now and then, for so long: a partition that lasts a lunch break heals by itself.
    forget_ns: int = 3600 * _SECOND
    #: First wait before a peer is dialled again; it doubles.
    backoff_ns: int = 100 * _MS
    #: No wait is longer: most of the time in which a partition heals. 63 peers dialled so often cost nothing.
    backoff_ns_max: int = 2 * _SECOND
    #: A dialled peer that is not up after so long is hung up on: what TCP holds for it is too old, and its own retries
    #: come further and further apart. (Of a line that stands more is waited for each time: dialling.py.)
    attempt_ns: int = 1 * _SECOND
    #: Who was refused (its name is taken, its protocol too old) tries again after so long.
    refused_ns: int = 5 * _SECOND
    #: So far ahead of this host's present clock an incarnation may be: a year, which no clock is wrong by that is looked after.
    #: Without it one lie of the year 2116 would leave its victim no later incarnation to take; and a node that was started
    #: while its clock was wrong could not come back once it is right.
    ahead_ns_max: int = 366 * 24 * 3600 * _SECOND
    #: A node takes a later incarnation at most so often, in so much time, however much later those are that others tell of:
    #: each time all that is outstanding ends. Three: peers may know of different former ones.
    raises_max: int = 3
    raises_ns: int = 60 * _SECOND
    #: Nodes in one mesh, this one included: connections and heartbeats grow with it in each node.
    members_max: int = 64
    #: The dead that are remembered; the one that has been dead for longest goes first.
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
        """An echo of our own words may be so old on a link that is in order: there, until it is sent back, and back."""
        return 2 * self.heartbeat_ns

    @property
    def death_ns_max(self) -> int:
        """A death is known to every node that was up with the dead one after so long: stated, and tested."""
        return self.dead_ns + 2 * self.heartbeat_ns

    @property
    def cut_ns_max(self) -> int:
        """A link that is cut, both ways or one, is known at both of its ends after so long."""
        return self.death_ns_max + self.echo_ns

    @property
    def heal_ns_max(self) -> int:
        """After a partition all are up again, and views agree, after so long: the longest wait, a dial, and some rounds."""
        return self.backoff_ns_max + self.attempt_ns + 10 * self.heartbeat_ns
