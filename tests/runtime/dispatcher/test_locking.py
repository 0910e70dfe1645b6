"""Locking: all interleavings of taking, changing, letting go and becoming urgent, against the slow twin.

What no single example would think of. Set APPBACKPLANE_MODEL_EXAMPLES to a number to search that many programs from a new
seed; the default is few, the same each time, and quick.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appbackplane.runtime.dispatcher import locking
from appbackplane.runtime.dispatcher.locking import MANY, Lock, LockClaim
from tests.models.locking_model import LockingModel, Twin, Want, is_in_a_circle
from tests.profiles import examples


class User:
    """Who holds and waits."""

    def __init__(self, number: int, priority: int) -> None:
        self.number, self.priority = number, priority
        self.held: list[LockClaim] = []
        self.wanted: Sequence[LockClaim] = ()
        self.waits_on: Lock | None = None

    def __repr__(self) -> str:
        return f"user {self.number}"


def locks(count: int) -> list[Lock]:
    return [Lock((rank, rank, 0), f"lock {rank}") for rank in range(count)]


def claims(of: list[Lock], *wants: int, shared: Sequence[int] = ()) -> list[LockClaim]:
    return [LockClaim(of[number], number in shared) for number in wants]


def test_claims_are_taken_in_the_order_of_rank_each_lock_once() -> None:
    """Two handlers that name the same data in another order would wait for each other; who writes as well as looks, writes."""
    of = locks(3)
    asked = [(2, True), (0, False), (2, False), (1, True), (0, True)]
    wanted = [LockClaim(of[number], is_shared) for number, is_shared in asked]
    assert locking.ordered(wanted) == claims(of, 0, 1, 2, shared=[1])


class LockingMachine(RuleBasedStateMachine):
    """Whatever is done to the locks is done to the twin; who has what, and who waits, must be the same after each step."""

    @initialize(
        count=st.integers(1, 5),
        users=st.integers(2, 6),
        passed_max=st.sampled_from([0, 1, 2, 64]),
        readers_max=st.sampled_from([1, 2, MANY]),
    )
    def start(self, count: int, users: int, passed_max: int, readers_max: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(locking, "PASSED_MAX", passed_max)
        self.locks = locks(count)
        self.model = LockingModel(count, passed_max)
        self.locks[0].readers_max = self.model.locks[0].readers_max = readers_max
        self.users = [User(number, number % 3) for number in range(users)]
        self.model.everybody = [Twin(user.number, user.priority) for user in self.users]
        self.let_in: list[int] = []

    def note(self, others: locking.Others) -> None:
        """Who may go on is told so once, and by both alike."""
        ready = [user.number for user in others.ready]  # type: ignore[attr-defined]
        assert ready == [twin.name for twin in self.model.ready]
        assert len(set(ready)) == len(ready)
        self.model.ready.clear()
        for user in others.ready:
            assert user.waits_on is None
            assert not user.wanted
        for user in others.moved:
            assert user.waits_on is not None or user in others.ready

    @precondition(lambda self: any(user.waits_on is None for user in self.users))
    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        """Whoever does not wait wants to hold exactly these from now on."""
        user = data.draw(st.sampled_from([user for user in self.users if user.waits_on is None]))
        numbers = st.integers(0, len(self.locks) - 1)
        wants: list[Want] = sorted(data.draw(st.dictionaries(numbers, st.booleans(), max_size=5)).items())
        is_free, others = locking.change(user, [LockClaim(self.locks[n], shared) for n, shared in wants])
        assert is_free == self.model.change(self.model.everybody[user.number], wants)
        assert is_free == (user.waits_on is None)
        self.note(others)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Also by who waits: his message was taken back."""
        user = data.draw(st.sampled_from(self.users))
        others = locking.release(user)
        self.model.release(self.model.everybody[user.number])
        assert not user.held
        self.note(others)

    @rule(data=st.data(), priority=st.integers(0, 2))
    def set_priority(self, data: st.DataObject, priority: int) -> None:
        """Also of a holder that does not wait; it becomes more urgent, or less."""
        user = data.draw(st.sampled_from(self.users))
        if priority != user.priority:
            user.priority = priority
            others = locking.boosted(user)
            self.model.set_priority(self.model.everybody[user.number], priority)
            self.note(others)

    @invariant()
    def same_facts(self) -> None:
        """Who has what, and who waits for what, in which order they would be let in."""
        for user, twin in zip(self.users, self.model.everybody, strict=True):
            assert [(c.lock.rank[0], c.is_shared) for c in user.held] == sorted(twin.has.items())
            assert [(c.lock.rank[0], c.is_shared) for c in user.wanted] == twin.wants
            assert (user.waits_on is None) == (not twin.wants)
        for lock, twin_lock in zip(self.locks, self.model.locks, strict=True):
            in_order = [user for _, _, user in sorted(lock.waiting, key=lambda entry: entry[:2])]
            expected = sorted(twin_lock.queue, key=lambda each: each.priority)  # stable: of these the oldest
            assert [user.number for user in in_order] == [twin.name for twin in expected]  # type: ignore[attr-defined]
            assert lock.passed_count == twin_lock.passed

    @invariant()
    def exclusive_or_shared(self) -> None:
        """One who writes, or as many who read as there is room for; and the lock knows what they know."""
        for lock in self.locks:
            having = [(user, claim.is_shared) for user in self.users for claim in user.held if claim.lock is lock]
            writers = [user for user, is_shared in having if not is_shared]
            assert len(writers) + bool(len(having) > len(writers)) <= 1
            assert len(having) <= lock.readers_max
            assert (lock.writer and [lock.writer]) == (writers or None)
            assert sorted(map(id, lock.readers)) == sorted(id(user) for user, is_shared in having if is_shared)

    @invariant()
    def nobody_waits_in_a_circle(self) -> None:
        """Who waits holds only what is below; hence no circle. Looked for all the same, by walking."""
        for user in self.users:
            if user.waits_on is not None:
                assert all(claim.lock.rank < user.waits_on.rank for claim in user.held)
                assert not is_in_a_circle(user)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """What is free has nobody waiting, and whoever is next could not be let in now."""
        for lock in self.locks:
            if lock.waiting:
                assert lock.holders, "nobody would ever hand it on"
            assert all(user.waits_on is lock for _, _, user in lock.waiting)
        waiting = [user for user in self.users if user.waits_on is not None]
        assert sum(len(lock.waiting) for lock in self.locks) == len(waiting), "one place each"

    def teardown(self) -> None:
        """Whoever goes on lets go in the end, and then everybody has had his turn."""
        if not hasattr(self, "users"):
            return
        try:
            for _ in range(len(self.users)):
                going = [user for user in self.users if user.waits_on is None]
                assert going, "all of them wait"
                for user in going:
                    self.note_end(user)
            assert not any(user.waits_on for user in self.users)
            assert not any(lock.holders or lock.waiting for lock in self.locks)
        finally:
            self.patch.undo()

    def note_end(self, user: User) -> None:
        others = locking.release(user)
        self.model.release(self.model.everybody[user.number])
        self.note(others)
        self.same_facts()


TestLocking = LockingMachine.TestCase
TestLocking.settings = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


# -- one by one -----------------------------------------------------------------------------------------------------------


def test_a_lock_is_added_as_in_figure_6() -> None:
    """Seed 003, 4.2: of 1, 2, 4, 5, to add 3, 4 and 5 are unlocked, 3 is added, and 4 and 5 are locked again, in this order.

    Unlock less, and two can wait for each other; unlock more, and others change what they need not.
    """
    of = locks(6)
    handler, other, third = User(0, 3), User(1, 3), User(2, 3)
    locking.change(other, claims(of, 3))
    locking.change(handler, claims(of, 1, 2, 4, 5))

    is_free, _ = locking.change(handler, claims(of, 1, 2, 3, 4, 5))
    assert not is_free
    assert handler.held == claims(of, 1, 2)
    assert handler.waits_on is of[3]
    assert [lock.name for lock in of if not lock.holders] == ["lock 0", "lock 4", "lock 5"]

    locking.change(third, claims(of, 4))  # a chance for who waits for what was released
    assert locking.release(other) == ([], [handler])  # it has 3 now, and waits for 4, so who has 4 is to hurry
    assert handler.held == claims(of, 1, 2, 3)
    assert handler.waits_on is of[4]
    assert not of[5].holders, "5 is locked after 4"

    assert locking.release(third) == ([handler], [])
    assert handler.held == claims(of, 1, 2, 3, 4, 5)


def test_to_let_go_of_one_lock_releases_no_other() -> None:
    """At the end of an accessor's block. Were 4 and 5 released, others could change what the handler goes on with."""
    of = locks(6)
    handler, eager = User(0, 3), User(1, 0)
    locking.change(handler, claims(of, 1, 2, 3, 4, 5))
    locking.change(eager, claims(of, 4))
    assert locking.change(handler, claims(of, 1, 2, 4, 5)) == (True, ([], []))
    assert of[4].writer is handler
    assert not of[3].holders


def test_readers_do_not_keep_a_writer_from_it() -> None:
    """One who only looks, and is as urgent, queues behind who waits to write: else readers that overlap lock it for ever."""
    of = locks(1)
    writer, late = User(1, 3), User(2, 3)
    locking.change(User(0, 3), claims(of, 0, shared=[0]))
    locking.change(writer, claims(of, 0))
    assert not locking.change(late, claims(of, 0, shared=[0]))[0]


def test_an_urgent_reader_joins_those_who_read() -> None:
    """It costs who waits to write no more than it would have cost him to be behind it in the queue."""
    of = locks(1)
    locking.change(User(0, 3), claims(of, 0, shared=[0]))
    locking.change(User(1, 3), claims(of, 0))
    assert locking.change(User(2, 2), claims(of, 0, shared=[0]))[0]


def test_a_waiting_reader_that_becomes_urgent_joins_at_once() -> None:
    """As if it had come as urgent as it is now; it would wait for a writer who may take a second."""
    of = locks(1)
    reader, late = User(0, 3), User(2, 3)
    locking.change(reader, claims(of, 0, shared=[0]))
    locking.change(User(1, 3), claims(of, 0))
    locking.change(late, claims(of, 0, shared=[0]))
    late.priority = 0
    assert locking.boosted(late) == ([late], [])
    assert of[0].readers == [reader, late]


def test_who_was_boosted_waits_at_one_place_only() -> None:
    """A second entry in the queue, left behind, would be good again the next time that it waits, before its turn."""
    of = locks(1)
    first, boosted, patient = User(0, 3), User(1, 5), User(2, 2)
    locking.change(first, claims(of, 0))
    locking.change(boosted, claims(of, 0))
    boosted.priority = 2
    locking.boosted(boosted)
    assert locking.release(first).ready == [boosted]
    locking.change(patient, claims(of, 0))
    locking.change(first, claims(of, 0))
    assert locking.release(boosted).ready == [patient]
    locking.change(boosted, claims(of, 0))
    assert locking.release(patient).ready == [boosted], "before the first, who is less urgent; once"
    assert [entry[2] for entry in of[0].waiting] == [first]


def test_two_readers_that_both_want_to_write_do_not_wait_for_each_other() -> None:
    """To write what is only shared so far, it is given back first: each would wait for the other to stop reading."""
    of = locks(2)
    one, two = User(0, 3), User(1, 3)
    for user in (one, two):
        assert locking.change(user, claims(of, 0, 1, shared=[0]))[0] is (user is one)
    locking.change(one, claims(of, 0, shared=[0]))
    assert two.held == claims(of, 0, 1, shared=[0])
    assert not locking.change(one, claims(of, 0))[0]
    assert one.held == []
    is_free, others = locking.change(two, claims(of, 0, 1))
    assert not is_free
    assert others.ready == [one]
    assert locking.release(one).ready == [two]


def test_who_wrote_and_goes_on_reading_lets_others_read() -> None:
    """Without letting go in between: what it has written is what it sees."""
    of = locks(1)
    writer, reader = User(0, 3), User(1, 3)
    locking.change(writer, claims(of, 0))
    locking.change(reader, claims(of, 0, shared=[0]))
    assert locking.change(writer, claims(of, 0, shared=[0])) == (True, ([reader], []))
    assert of[0].readers == [writer, reader]


def test_whoever_waits_is_let_in_some_time() -> None:
    """Two that are urgent and hand a lock to each other would keep all others from it for ever, quotas or not."""
    of = locks(1)
    patient, urgent = User(0, 7), [User(1, 0), User(2, 0)]
    locking.change(urgent[0], claims(of, 0))
    locking.change(patient, claims(of, 0))
    for round in range(locking.PASSED_MAX):
        having, other = urgent[round % 2], urgent[1 - round % 2]
        locking.change(other, claims(of, 0))
        assert locking.release(having).ready == [other]
    having, other = other, having
    locking.change(other, claims(of, 0))
    assert locking.release(having) == ([patient], [other]), "and the urgent one is to hurry it"
    assert locking.release(patient).ready == [other]


def test_equals_that_are_let_in_in_turn_pass_nobody() -> None:
    """Behind those that all want one datum an urgent one would wait for two of them instead of one, each 65th time."""
    of = locks(1)
    having = User(0, 6)
    locking.change(having, claims(of, 0))
    for number in range(2):
        locking.change(User(1 + number, 6), claims(of, 0))
    for round in range(3 * locking.PASSED_MAX):
        urgent = User(100 + round, 0)
        locking.change(urgent, claims(of, 0))
        assert locking.release(having).ready == [urgent], f"in round {round}"
        [following] = locking.release(urgent).ready
        assert isinstance(following, User)
        locking.change(having, claims(of, 0))
        having = following


def test_urgent_readers_do_not_overlap_for_ever() -> None:
    """Nobody waits in turn where all share: who waits to write is counted past, too."""
    of = locks(1)
    readers = [User(1, 0), User(2, 0)]
    writer = User(0, 7)
    locking.change(readers[0], claims(of, 0, shared=[0]))
    locking.change(writer, claims(of, 0))
    for round in range(locking.PASSED_MAX):
        assert locking.change(readers[1 - round % 2], claims(of, 0, shared=[0]))[0]
        locking.release(readers[round % 2])
    assert not locking.change(readers[1 - locking.PASSED_MAX % 2], claims(of, 0, shared=[0]))[0]
    assert locking.release(readers[locking.PASSED_MAX % 2]).ready == [writer]


def test_a_writer_that_gives_up_lets_the_readers_behind_it_in() -> None:
    """They waited for nobody else."""
    of = locks(1)
    writer, late = User(1, 3), User(2, 3)
    locking.change(User(0, 3), claims(of, 0, shared=[0]))
    locking.change(writer, claims(of, 0))
    locking.change(late, claims(of, 0, shared=[0]))
    assert locking.release(writer).ready == [late]
