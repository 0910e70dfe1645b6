"""The lease in worlds that hypothesis thinks of: clocks that differ, nodes that stop, a store that loses what it is asked.

Each node decides by `Lease` alone, and is as slow as it may be: what is primary there goes on until it is told to be gone,
or the kernel ends it. Should two be primary at one instant, all that is promised about failover is worth nothing.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appbackplane.supervisor.cluster.lease import (
    Answer,
    BecomePrimary,
    ClusterRole,
    Conflict,
    Fuse,
    Lease,
    LogMessage,
    ReadRecord,
    Swap,
    Trouble,
    Withdraw,
)
from appbackplane.supervisor.cluster.record import FUSE, TAKEN_OVER, LeaseRecord, Snapshot, tenths
from tests.profiles import examples

TTL_NS = 1_000_000_000
MS = 1_000_000
#: Of each clock, so that two differ by a tenth at most: what the margins are made for.
RATES = (0.953, 1.0, 1.047)


@dataclass
class Store:
    """Keeps one record."""

    snapshot: Snapshot = field(default_factory=lambda: Snapshot("0"))

    def serve(self, asked: ReadRecord | Swap) -> Answer:
        """As a good one does."""
        if isinstance(asked, Swap):
            if asked.version != self.snapshot.version:
                return Conflict()
            self.snapshot = Snapshot(str(int(self.snapshot.version) + 1), asked.record)
        return self.snapshot


class Node:
    """One supervisor, with its own clock; `world` calls it when time has come."""

    def __init__(self, world: World, name: str, rate: float) -> None:
        self.world, self.name, self.rate = world, name, rate
        self.offset_ns = world.random.randrange(10**12)
        self.is_candidate, self.stopped_until_ns = True, 0
        self.lives_count = 0
        self.begin()

    def begin(self) -> None:
        """A new process, of which the store has never heard."""
        self.lives_count += 1
        self.is_primary = self.is_alive = False
        self.is_alive = True
        self.fuse_ns: int | None = None
        self.gone_by_ns: int | None = None
        self.is_asked_to_go = False
        self.lease = Lease("c", self.name, f"{self.name}{self.lives_count}", TTL_NS, self.clock())
        self.turn()

    def clock(self) -> int:
        """What it reads."""
        return self.offset_ns + int(self.world.now_ns * self.rate)

    def real(self, clock_ns: int) -> int:
        """When it will read that, at the latest."""
        return int((clock_ns - self.offset_ns) / self.rate) + 1

    @property
    def is_running(self) -> bool:
        return self.is_alive and self.world.now_ns >= self.stopped_until_ns

    def turn(self) -> None:
        """One turn of its loop; a node that is stopped does nothing."""
        if not self.is_running:
            return
        if self.gone_by_ns is not None and self.clock() >= self.gone_by_ns:
            self.gone()
        facts = {"is_candidate": self.is_candidate, "is_clear": not self.is_primary}
        self.do(self.lease.turn(self.clock(), **facts))
        next_ns = self.lease.next_ns()
        if next_ns is not None:
            self.world.at(self.real(next_ns), self.turn)

    def do(self, effects: list[object]) -> None:
        """What was decided."""
        for effect in effects:
            if isinstance(effect, ReadRecord | Swap):
                self.world.ask(self, effect, self.lives_count)
            elif isinstance(effect, Fuse):
                self.fuse_ns = effect.at_ns
                if effect.at_ns is not None:
                    self.world.at(self.real(effect.at_ns), self.check_fuse)
            elif isinstance(effect, BecomePrimary):
                assert self.fuse_ns is not None, "the kernel knows first"
                self.is_primary, self.gone_by_ns = True, None
                self.world.granted(self, effect.epoch)
            elif isinstance(effect, Withdraw):
                self.gone_by_ns = effect.gone_by_ns
                leisure_ns = self.world.random.randrange(3 * TTL_NS)  # as long as its hooks like
                lives = self.lives_count
                self.world.at(self.world.now_ns + leisure_ns, lambda lives=lives: self.gone_of(lives))
                if effect.gone_by_ns is not None:
                    self.world.at(self.real(effect.gone_by_ns), self.turn)
            else:
                assert isinstance(effect, LogMessage)

    def gone_of(self, lives: int) -> None:
        """Its components have let go by themselves."""
        if self.is_running and lives == self.lives_count and self.lease.phase is ClusterRole.LEAVING:
            self.gone()
            self.turn()

    def gone(self) -> None:
        self.is_primary, self.gone_by_ns = False, None

    def check_fuse(self) -> None:
        """The kernel looks, whether the process is stopped or not."""
        if self.is_alive and self.fuse_ns is not None and self.clock() >= self.fuse_ns:
            self.die()

    def die(self) -> None:
        """With all its backplanes."""
        self.is_alive = self.is_primary = False
        self.fuse_ns = None

    def answered(self, answer: Answer, lives: int) -> None:
        """The store's answer has come; one who is stopped reads it later."""
        if not self.is_alive or lives != self.lives_count:
            return
        if not self.is_running:
            self.world.at(self.stopped_until_ns, lambda: self.answered(answer, lives))
            return
        self.do(self.lease.heard(answer, self.clock()))
        self.turn()


class World:
    """Real time, and all that happens in it."""

    def __init__(self, seed: int, rates: list[float], loss: float, delay_ns_max: int) -> None:
        self.random, self.now_ns = random.Random(seed), 0
        self.loss, self.delay_ns_max = loss, delay_ns_max
        self.store, self.cut = Store(), set[str]()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.grants: list[tuple[int, str, int]] = []
        self.nodes = [Node(self, name, rate) for name, rate in zip("abc", rates, strict=False)]

    def at(self, ns: int, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (max(ns, self.now_ns), self._count, do))

    def ask(self, node: Node, asked: ReadRecord | Swap, lives: int) -> None:
        """It takes its time on the way, there, and back; or it is lost on one of the ways, and that is noticed."""
        there_ns = self.now_ns + self.random.randrange(self.delay_ns_max + 1)

        def arrive() -> None:
            is_lost_there = node.name in self.cut or self.random.random() < self.loss
            answer: Answer = Trouble("lost") if is_lost_there else self.store.serve(asked)
            if self.random.random() < self.loss:
                answer = Trouble("its answer was lost")
            back_ns = self.now_ns + self.random.randrange(self.delay_ns_max + 1)
            self.at(back_ns, lambda: node.answered(answer, lives))

        self.at(there_ns, arrive)

    def granted(self, node: Node, epoch: int) -> None:
        others = [other.name for other in self.nodes if other.is_primary and other is not node]
        assert not others, f"{node.name} and {others} are primary at {self.now_ns / 1e9:.3f} s"
        assert all(epoch > before for _, _, before in self.grants), "an epoch that was there before"
        self.grants.append((self.now_ns, node.name, epoch))

    def run(self, until_ns: int) -> None:
        while self._queue and self._queue[0][0] <= until_ns:
            self.now_ns, _, do = heapq.heappop(self._queue)
            do()
        self.now_ns = until_ns

    def primary(self) -> Node | None:
        return next((node for node in self.nodes if node.is_primary), None)


HAPPENS = st.sampled_from(["stop", "kill", "begin", "cut", "mend", "wish", "unwilling", "willing", "lossy", "good"])


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 2**32), st.lists(st.sampled_from(RATES), min_size=2, max_size=3), st.sampled_from([1, 50, 300, 1500]),
    st.lists(st.tuples(HAPPENS, st.integers(0, 2), st.integers(1, 2500)), max_size=30),
)  # fmt: skip
def test_two_nodes_are_never_primary_at_one_instant(
    seed: int, rates: list[float], delay_ms: int, story: list[tuple[str, int, int]]
) -> None:
    """Whatever happens to them; and each that is has an epoch above all before it. At the end, one is again."""
    world = World(seed, rates, 0.0, delay_ms * MS)
    for what, number, ms in story:
        node = world.nodes[number % len(world.nodes)]
        if what == "stop":
            node.stopped_until_ns = world.now_ns + ms * MS
            world.at(node.stopped_until_ns, node.turn)
        elif what == "kill":
            node.die()
        elif what == "begin" and not node.is_alive:
            node.stopped_until_ns = 0
            node.begin()
        elif what == "cut":
            world.cut.add(node.name)
        elif what == "mend":
            world.cut.discard(node.name)
        elif what == "wish" and node.is_running:
            node.lease.wish = world.nodes[ms % len(world.nodes)].name
        elif what in ("unwilling", "willing"):
            node.is_candidate = what == "willing"
        elif what in ("lossy", "good"):
            world.loss = 0.3 if what == "lossy" else 0.0
        node.turn()
        world.run(world.now_ns + ms * MS)
    world.loss, world.cut, world.delay_ns_max = 0.0, set(), MS
    for node in world.nodes:
        node.stopped_until_ns, node.is_candidate = 0, True
        if not node.is_alive:
            node.begin()
        node.turn()
    world.run(world.now_ns + 20 * TTL_NS)
    assert world.primary() is not None, "nobody is primary, and nothing is in the way"


@pytest.mark.parametrize("rates", [(RATES[0], RATES[-1]), (RATES[-1], RATES[0])])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_clocks_that_differ_by_a_tenth_do_not_make_two_primaries(
    rates: tuple[float, float], *, is_stopped: bool
) -> None:
    """At whatever moment the primary stops, or loses the store, and however long it clings to being it."""
    for ms in range(0, 400, 7):
        world = World(ms, list(rates), 0.0, MS)
        first, second = world.nodes
        second.is_candidate = False
        world.run(3 * TTL_NS + ms * MS)
        assert first.is_primary
        second.is_candidate = True
        if is_stopped:
            first.stopped_until_ns = world.now_ns + 5 * TTL_NS
        else:
            world.cut.add(first.name)
        world.run(world.now_ns + 2 * TTL_NS)
        assert second.is_primary


@given(st.integers(0, 2**32), st.integers(0, 3000))
def test_a_killed_primary_is_followed_within_the_stated_time(seed: int, ms: int) -> None:
    """By another node, whenever it is killed."""
    world = World(seed, [1.0, 1.0], 0.0, MS)
    world.run(3 * TTL_NS + ms * MS)
    first = world.primary()
    assert first is not None
    first.die()
    killed_ns = world.now_ns
    world.run(killed_ns + tenths(TTL_NS, TAKEN_OVER))
    second = world.primary()
    assert second is not None and second is not first


@given(st.integers(0, 2**32))
def test_a_primary_is_handed_over_without_waiting_for_its_lease(seed: int) -> None:
    """To the node that was named, by whichever was asked; a look and two swaps after it has stepped down."""
    world = World(seed, [1.0, 1.0, 1.0], 0.0, MS)
    world.run(3 * TTL_NS)
    first = world.primary()
    assert first is not None
    other, third = (node for node in world.nodes if node is not first)
    third.lease.wish = other.name
    world.run(world.now_ns + 5 * TTL_NS)
    assert world.primary() is other
    assert [name for _, name, _ in world.grants] == [first.name, other.name]


@given(st.integers(0, 2**32), st.integers(0, 5000))
def test_who_cannot_reach_the_store_is_secondary_before_another_is_primary(seed: int, ms: int) -> None:
    """And comes back as a secondary, which is primary again when it is its turn."""
    world = World(seed, [1.0, 1.0], 0.0, MS)
    world.run(3 * TTL_NS)
    first = world.primary()
    assert first is not None
    world.cut.add(first.name)
    world.run(world.now_ns + tenths(TTL_NS, TAKEN_OVER))
    second = world.primary()
    assert second is not None and second is not first and first.is_alive
    world.run(world.now_ns + ms * MS)
    world.cut.clear()
    world.run(world.now_ns + TTL_NS)
    assert world.primary() is second and first.lease.phase is ClusterRole.SECONDARY


def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    """Others count from when the store was told. An answer that is late must not make this node primary for longer."""
    lease, store, now_ns = Lease("c", "a", "a1", TTL_NS, 0), Store(), 0

    def ask() -> ReadRecord | Swap | None:
        effects = lease.turn(now_ns, is_candidate=True, is_clear=True)
        return next((each for each in effects if isinstance(each, ReadRecord | Swap)), None)

    while lease.phase is not ClusterRole.PRIMARY:
        if (asked := ask()) is not None:
            lease.heard(store.serve(asked), now_ns)
        now_ns = max(now_ns, lease.next_ns() or 0)
    renewal = ask()
    assert isinstance(renewal, Swap)
    effects = lease.heard(store.serve(renewal), now_ns + TTL_NS // 5)
    assert effects == [Fuse(now_ns + tenths(TTL_NS, FUSE))]


def test_who_has_a_shorter_lease_waits_for_the_longest_that_was_there() -> None:
    """A record that was removed does not say how long its holder may go on; it was told another `ttl`, and is not restarted."""
    lease, now_ns = Lease("c", "b", "b1", TTL_NS, 0), 0
    held = Snapshot("1", LeaseRecord(epoch=1, holder="a", instance="a1", ttl_ns=10 * TTL_NS))
    found = [held, Snapshot("0")]
    while True:
        asked = [
            each for each in lease.turn(now_ns, is_candidate=True, is_clear=True) if isinstance(each, ReadRecord | Swap)
        ]
        if any(isinstance(each, Swap) for each in asked):
            break
        if asked:
            lease.heard(found.pop(0) if len(found) > 1 else found[0], now_ns)
        next_ns = lease.next_ns()
        assert next_ns is not None
        now_ns = max(now_ns, next_ns)
    assert 10 * TTL_NS <= now_ns <= 11 * TTL_NS
