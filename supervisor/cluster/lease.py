"""Lease: when this node takes the lease of its cluster, renews it, and gives it up. Pure: facts and `now_ns` in, effects out.

At every instant at most one node is primary. Other nodes wait for a whole lease, from when they saw the record change. The
holder counts from when it requested its last swap of the record, so it steps down while the lease is still its own. At five
tenths of the lease it goes down in order, at eight it kills what is left, and at nine the kernel kills this process (`Fuse`),
should it be stopped. `now_ns` is of a clock that goes on while the machine sleeps. The store gets one request at a time; a late
answer grants no more time, because the lease counts from the request.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .record import AGAIN, FUSE, KILL, LOOK, QUIT, RENEW, LeaseRecord, Snapshot, tenths


class ReadRecord(msgspec.Struct, frozen=True):
    """Read the record; answered by `Lease.heard`."""


class Swap(msgspec.Struct, frozen=True):
    """Write `record` if the store still is at `version`; answered by `Lease.heard`."""

    version: str
    record: LeaseRecord


class Fuse(msgspec.Struct, frozen=True):
    """Have the kernel kill this process at `at_ns`, unless another `Fuse` comes first; None: disarm."""

    at_ns: int | None


class BecomePrimary(msgspec.Struct, frozen=True):
    """This node is primary now."""

    epoch: int


class Withdraw(msgspec.Struct, frozen=True):
    """Make this node secondary; kill what is left at `gone_by_ns`. None: no limit, the lease is renewed meanwhile."""

    because: str
    gone_by_ns: int | None


class LogMessage(msgspec.Struct, frozen=True):
    """A line for the log."""

    text: str
    is_error: bool = False


Effect = ReadRecord | Swap | Fuse | BecomePrimary | Withdraw | LogMessage


class Conflict(msgspec.Struct, frozen=True):
    """Answer to a swap: the store is at another version."""


class Trouble(msgspec.Struct, frozen=True):
    """The store failed or did not answer: the request may or may not have been carried out."""

    because: str


Answer = Snapshot | Conflict | Trouble


class ClusterRole(StrEnum):
    """Role of this node in its cluster."""

    SECONDARY = "secondary"
    PRIMARY = "primary"
    LEAVING = "leaving"  # stepping down: it keeps the lease until nothing here needs it


class Lease:
    """One node's part in the lease protocol of its cluster."""

    def __init__(self, cluster: str, me: str, instance: str, ttl_ns: int, now_ns: int) -> None:
        """`instance`: id of this process, so that a restarted node is not taken for its former self."""
        self.cluster, self.me, self.phase = cluster, me, ClusterRole.SECONDARY
        self._instance, self._ttl_ns = instance, ttl_ns
        #: Longest `ttl` seen of any holder: nodes may be reconfigured one after the other.
        self._longest_ns = ttl_ns
        #: Content of the store as last answered, and since when it is known; None: no answer yet.
        self.seen: Snapshot | None = None
        self._seen_ns = now_ns
        #: A swap may have been carried out, or another node's was: read the record before the next swap.
        self._is_stale = False
        #: When the swap was requested by which the lease is, or may become, this node's.
        self._good_ns = now_ns
        self._asked: ReadRecord | Swap | None = None
        self._asked_ns = self._next_ns = now_ns
        #: `_is_taking`: the pending swap would make this node primary. `_is_late`: it took too long, and will not.
        self._is_taking = self._is_late = False
        self._is_hurried = self._is_given_back = False
        #: Node that an operator here wants as primary; "": none, or the wish has been passed on.
        self.wish = ""
        #: Epoch of this node's own time as primary; 0: it is not.
        self.epoch = 0
        #: Why the store does not answer; "": it does.
        self.problem = ""
        self._cannot_swap = False
        #: Another process renews the lease under this node's name.
        self.has_twin = False
        self._could_take = False

    @property
    def record(self) -> LeaseRecord | None:
        """The last known record, which names the primary."""
        return None if self.seen is None else self.seen.record

    def next_ns(self) -> int | None:
        """When to call `turn` at the latest; None: at the next event."""
        waits = [self._next_ns] if self._asked is None else []
        if self._could_take and not self._is_stale:
            waits.append(self._free_ns())
        is_leaving_in_order = self.phase is ClusterRole.LEAVING and not self._is_hurried
        if self._is_taking or self.phase is ClusterRole.PRIMARY or is_leaving_in_order:
            waits.append(self._good_ns + self._of(QUIT))
        return min(waits, default=None)

    # Inputs

    def heard(self, answer: Answer, now_ns: int) -> list[Effect]:
        """Take the store's answer, or its failure."""
        asked, self._asked = self._asked, None
        assert asked is not None, "an answer to nothing"
        effects = self._note(asked, answer)
        if isinstance(answer, Snapshot):
            self._is_stale = False
            effects += self._learn(answer, now_ns)
        else:
            self._is_stale = True
        if isinstance(answer, Trouble):
            self._next_ns = now_ns + self._of(AGAIN)
        elif isinstance(asked, Swap) or self.phase is not ClusterRole.SECONDARY:
            self._next_ns = now_ns
        else:
            self._next_ns = now_ns + self._of(LOOK)
        if isinstance(asked, Swap):
            effects += self._swapped(asked, now_ns, is_done=isinstance(answer, Snapshot))
        elif isinstance(answer, Snapshot) and self.phase is not ClusterRole.SECONDARY and not self._is_mine():
            effects += self._lost(now_ns)
        return effects

    def turn(self, now_ns: int, *, is_candidate: bool, is_clear: bool) -> list[Effect]:
        """Effects that are due. `is_candidate`: this node wants to be primary. `is_clear`: nothing here is primary."""
        self._could_take = False
        if self.phase is ClusterRole.SECONDARY:
            return self._stand_by(now_ns, is_candidate=is_candidate, is_clear=is_clear)
        effects: list[Effect] = []
        is_over = now_ns >= self._good_ns + self._of(QUIT)
        if is_over:
            ago = f"{(now_ns - self._good_ns) / 1e9:.1f} s ago, of {self._ttl_ns / 1e9:g} s"
            why = f"the lease was last renewed {ago} ({self.problem or 'the store has not answered yet'})"
            effects += self._withdraw(why, self._good_ns + self._of(KILL))
        elif heir := self._heir():
            effects += self._withdraw(f"node {heir!r} is to become primary", None)
        elif not is_candidate:
            effects += self._withdraw("this node is to be secondary", None)
        if self.phase is ClusterRole.LEAVING and is_clear and (is_over or not self._is_mine()):
            return effects + self._stepped_down()
        if self._asked is None and now_ns >= self._next_ns:
            effects.append(self._renew(now_ns, is_clear=is_clear))
        return effects

    def release(self) -> Swap | None:
        """The swap that gives the lease back at the very end; None: the lease is not this node's."""
        if self.phase is ClusterRole.SECONDARY or self.seen is None or not self._is_mine():
            return None
        return Swap(self.seen.version, self._given_back())

    # Secondary

    def _stand_by(self, now_ns: int, *, is_candidate: bool, is_clear: bool) -> list[Effect]:
        if self.has_twin and now_ns >= self._free_ns():
            self.has_twin = False  # it has fallen silent
        if self._asked is not None:
            if self._is_taking and not self._is_late and now_ns >= self._good_ns + self._of(QUIT):
                self._is_late, self._is_taking = True, False  # this process runs and knows it: no fuse is needed
                return [Fuse(None)]
            return []
        self._could_take = is_candidate and is_clear and not self.has_twin and self.seen is not None
        if self.seen is not None and self._could_take and not self._is_stale and now_ns >= self._free_ns():
            self._is_taking, self._could_take = True, False
            self._good_ns = now_ns
            epoch = 1 if self.record is None else self.record.epoch + 1
            claim = LeaseRecord(epoch=epoch, holder=self.me, instance=self._instance, ttl_ns=self._ttl_ns)
            return [Fuse(now_ns + self._of(FUSE)), self._ask(Swap(self.seen.version, claim), now_ns)]
        if now_ns < self._next_ns:
            return []
        record = self.record
        if self.wish and record is not None and record.holder == self.wish:
            self.wish = ""
        if self.seen is None or self._is_stale or record is None or not self.wish or not record.holder:
            return [self._ask(ReadRecord(), now_ns)]
        return [self._ask(Swap(self.seen.version, msgspec.structs.replace(record, next=self.wish)), now_ns)]

    def _free_ns(self) -> int:
        """The earliest time at which this node may take the lease."""
        record = self.record
        if record is None:  # never written; or removed, perhaps while a node holds the lease
            return self._seen_ns + self._longest_ns
        if self._is_mine() or (not record.holder and record.next in ("", self.me)):
            return self._seen_ns  # given back; or in our name from an earlier time: nothing here is primary
        return self._seen_ns + record.ttl_ns

    # Primary, and stepping down

    def _renew(self, now_ns: int, *, is_clear: bool) -> Effect:
        record = self.record
        if self.seen is None or record is None or self._is_stale or not self._is_mine():
            return self._ask(ReadRecord(), now_ns)
        if self.phase is ClusterRole.LEAVING and is_clear:
            self._is_given_back = True
            return self._ask(Swap(self.seen.version, self._given_back()), now_ns)
        renewed = msgspec.structs.replace(record, beat=record.beat + 1, ttl_ns=self._ttl_ns, next=self._heir())
        return self._ask(Swap(self.seen.version, renewed), now_ns)

    def _given_back(self) -> LeaseRecord:
        beat = 0 if self.record is None else self.record.beat + 1
        return LeaseRecord(epoch=self.epoch, holder="", beat=beat, ttl_ns=self._ttl_ns, next=self._heir())

    def _heir(self) -> str:
        """Node that the lease is to go to; "": any node, or it stays."""
        named = self.wish or ("" if self.record is None else self.record.next)
        return "" if named == self.me else named

    def _withdraw(self, because: str, gone_by_ns: int | None) -> list[Effect]:
        if self.phase is ClusterRole.LEAVING and (gone_by_ns is None or self._is_hurried):
            return []
        self.phase, self._is_hurried = ClusterRole.LEAVING, gone_by_ns is not None
        return [Withdraw(because, gone_by_ns)]

    def _lost(self, now_ns: int) -> list[Effect]:
        """The lease was ours, and the store no longer says so."""
        record = self.record
        if self._is_given_back and record is not None and not record.holder:
            return self._stepped_down()  # the answer to our giving back was lost
        if record is None:  # others wait as if it had been renewed just now
            said, gone_by_ns = "the lease was removed from its store", self._good_ns + self._of(KILL)
        else:
            said, gone_by_ns = f"the lease belongs to node {record.holder!r}, epoch {record.epoch}", now_ns
        return [LogMessage(f"cluster {self.cluster!r}: {said}, while this node is primary", True),
                *self._withdraw(said, gone_by_ns)]  # fmt: skip

    def _stepped_down(self) -> list[Effect]:
        self.phase, self.wish, self.epoch = ClusterRole.SECONDARY, "", 0
        self._is_hurried = self._is_given_back = False
        return [Fuse(None), LogMessage(f"cluster {self.cluster!r}: this node is secondary")]

    # Answers of the store

    def _ask(self, asked: ReadRecord | Swap, now_ns: int) -> ReadRecord | Swap:
        self._asked, self._asked_ns = asked, now_ns
        return asked

    def _note(self, asked: ReadRecord | Swap, answer: Answer) -> list[Effect]:
        is_same = isinstance(answer, Snapshot) and self.seen is not None and answer.version == self.seen.version
        if self._cannot_swap and isinstance(asked, ReadRecord) and is_same and self._could_take:
            return []  # a successful read is no news while swaps fail
        self._cannot_swap = isinstance(answer, Trouble) and isinstance(asked, Swap)
        before, self.problem = self.problem, answer.because if isinstance(answer, Trouble) else ""
        if bool(before) == bool(self.problem):
            return []
        said = f"does not answer: {self.problem}" if self.problem else "answers again"
        return [LogMessage(f"cluster {self.cluster!r}: its store {said}", bool(self.problem))]

    def _learn(self, found: Snapshot, now_ns: int) -> list[Effect]:
        before, record = self.seen, found.record
        self.seen = found
        if record is not None:
            self._longest_ns = max(self._longest_ns, record.ttl_ns)
        if before is not None and before.version == found.version:
            return []
        self._seen_ns = now_ns
        was = None if before is None else before.record
        if record is None or not record.holder or self._is_mine():
            return []
        is_same = was is not None and (was.holder, was.epoch) == (record.holder, record.epoch)
        if record.holder == self.me:
            if not (is_same and was is not None and was.beat != record.beat) or self.has_twin:
                return []
            self.has_twin = True
            what = f"another node calls itself {self.me!r}, too, and is primary: give each node its own [node] name"
            return [LogMessage(f"cluster {self.cluster!r}: {what}", True)]
        if is_same:
            return []
        return [LogMessage(f"cluster {self.cluster!r}: node {record.holder!r} is primary, epoch {record.epoch}")]

    def _swapped(self, asked: Swap, now_ns: int, *, is_done: bool) -> list[Effect]:
        record, was_late = asked.record, self._is_late
        was_taking, self._is_taking, self._is_late = self._is_taking, False, False
        if was_taking or was_late:
            if not is_done or was_late or now_ns >= self._asked_ns + self._of(QUIT):
                return [] if was_late else [Fuse(None)]
            self.phase, self.epoch, self.wish = ClusterRole.PRIMARY, record.epoch, ""
            self._next_ns = self._good_ns + self._of(RENEW)
            return [Fuse(self._good_ns + self._of(FUSE)), BecomePrimary(record.epoch)]
        if not is_done:
            return []
        if not record.holder:
            return self._stepped_down() if self.phase is ClusterRole.LEAVING else []
        if record.holder != self.me:
            self.wish = ""  # passed on once: if that node does not take it, others may
            self._next_ns = now_ns + self._of(LOOK)
            return []
        if self.phase is ClusterRole.SECONDARY:
            return []  # a renewal from a time as primary that is over
        self._good_ns = self._asked_ns
        self._next_ns = self._good_ns + self._of(RENEW)
        return [Fuse(self._good_ns + self._of(FUSE))]

    def _is_mine(self) -> bool:
        record = self.record
        return record is not None and (record.holder, record.instance) == (self.me, self._instance)

    def _of(self, count: float) -> int:
        return tenths(self._ttl_ns, count)
