"""`order = "shares"`: each priority gets its percentage of the time, none starves beyond its bound, and no time is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.runtime import AppObject, operation
from appbackplane.runtime.objects.action import Action, Outcome
from appbackplane.runtime.scheduling.scheduler import Policy
from appbackplane.runtime.scheduling.time_shares import ROUND_NS, ShareScheduler
from appbackplane.runtime.testing import VirtualBackplane

MS = 1_000_000


class Machine:
    """One worker and its clock. Work of a priority takes as long as `takes_ms` says; each is of an object of its own."""

    def __init__(self, shares: Sequence[int], max_starvation_ms: int = 60_000, **policy: int) -> None:
        self.now_ns = 0
        self.scheduler = ShareScheduler(Policy(priorities=4, **policy), 0, shares, max_starvation_ms * MS)
        self.used_ns: Counter[int] = Counter()

    def post(self, priority: int, count: int = 1) -> None:
        for _ in range(count):
            self.scheduler.post(Action(AppObject(), f"p{priority}", priority), self.now_ns)

    def run(self, until_ms: int, takes_ms: Mapping[int, float], *, is_endless: bool = True) -> list[int]:
        """The priorities of the actions that ran, in order. `is_endless`: each is posted again when it has ended."""
        order = []
        while self.now_ns < until_ms * MS and (priority := self.run_one(takes_ms, is_endless=is_endless)) is not None:
            order.append(priority)
        return order

    def run_one(self, takes_ms: Mapping[int, float], *, is_endless: bool = True) -> int | None:
        """The next one; None: nothing may run."""
        action = self.scheduler.next(self.now_ns)
        if action is None:
            return None
        ran_ns = int(takes_ms[action.priority] * MS)
        self.now_ns += ran_ns
        self.used_ns[action.priority] += ran_ns
        self.scheduler.finished(action, Outcome.DONE, self.now_ns)
        if is_endless:
            self.scheduler.post(Action(action.object, action.name, action.priority), self.now_ns)
        return action.priority


def test_the_example_of_the_source() -> None:
    """90 ms of msg1, then one msg2 for 10 ms, then msg1 again; msg3 after a minute (seed 004)."""
    machine = Machine([90, 10])
    for priority in (0, 1, 2):
        machine.post(priority, 5)
    order = machine.run(200, {0: 30, 1: 10, 2: 1})
    assert order == [0, 0, 0, 1, 0, 0, 0, 1]
    order = machine.run(130_000, {0: 30, 1: 10, 2: 1})
    assert Counter(order)[2] == 2, "once a minute"


@given(
    shares=st.lists(st.integers(1, 50), min_size=2, max_size=4),
    takes_ms=st.lists(st.sampled_from([0.5, 1, 7, 30, 250]), min_size=4, max_size=4),
)
def test_shares_are_of_time_however_long_the_actions_are(shares: list[int], takes_ms: list[float]) -> None:
    """Within 5 % of the share and one action, whatever the lengths."""
    asked = [100 * share // sum(shares) for share in shares]
    asked[0] += 100 - sum(asked)
    machine = Machine(asked)
    for priority in range(len(asked)):
        machine.post(priority, 3)
    machine.run(5_000, dict(enumerate(takes_ms)))
    for priority, share in enumerate(asked):
        wanted_ms = share / 100 * machine.now_ns / MS
        tolerance_ms = 0.05 * wanted_ms + share / 100 * max(takes_ms) + takes_ms[priority] + 100
        assert abs(machine.used_ns[priority] / MS - wanted_ms) <= tolerance_ms


def test_in_a_round_the_most_urgent_goes_first() -> None:
    """The share bounds how much it gets, and not when."""
    machine = Machine([50, 50])
    machine.post(1, 5)
    assert machine.run(30, {1: 10}) == [1, 1, 1]
    machine.post(0, 2)
    assert machine.run(50, {0: 10, 1: 10}) == [0, 0]


def test_no_time_is_lost_and_none_is_saved_up() -> None:
    """Who is alone has all. One that had nothing to do for long gets no more than its share afterwards."""
    machine = Machine([50, 50])
    machine.post(1, 1)
    assert set(machine.run(1_000, {1: 10})) == {1}
    assert machine.now_ns == 1_000 * MS
    machine.post(0, 1)
    before = machine.used_ns.copy()
    machine.run(3_000, {0: 10, 1: 10})
    assert machine.used_ns[0] - before[0] == pytest.approx(1_000 * MS, rel=0.05)


def test_who_has_no_share_gets_what_is_left() -> None:
    """All of it, when the others have nothing to do."""
    machine = Machine([100])
    machine.post(3, 5)
    machine.post(0, 5)
    assert machine.run(1_000, {0: 1, 3: 1}, is_endless=False) == [0] * 5 + [3] * 5


@given(
    shares=st.sampled_from([[60, 40], [100]]),
    bound_ms=st.sampled_from([1, 50, 333, 1_000]),
    takes_ms=st.lists(st.sampled_from([0.5, 5, 12, 20, 40, 90]), min_size=4, max_size=4),
)
def test_nobody_starves_for_longer_than_the_bound(shares: list[int], bound_ms: int, takes_ms: list[float]) -> None:
    """Counted from when an action of it last began, to the next: what runs then has ended by the bound, if that is possible.

    Four in turn, and one in reserve, take at most half of the bound; where actions are longer, each of the others may run once.
    So may each the first time, when its length is not known.
    """
    machine = Machine(shares, bound_ms)
    for priority in (0, 1, 2, 3):
        machine.post(priority, 3)
    last_ns: dict[int, int] = dict.fromkeys(range(4), 0)
    is_possible = 10 * max(takes_ms) <= bound_ms
    while machine.now_ns < 6 * max(bound_ms, 400) * MS:
        began_ns = machine.now_ns
        priority = machine.run_one(dict(enumerate(takes_ms)))
        assert priority is not None
        is_known = is_possible and all(last_ns.values())
        assert began_ns - last_ns[priority] <= bound_ms * MS + (0 if is_known else 4 * max(takes_ms) * MS)
        last_ns[priority] = began_ns
    assert machine.scheduler.starved_count


def test_a_starving_priority_is_served_no_earlier_than_need_be() -> None:
    """By the action that may run before it, if that takes twice as long as before: more would be taken from the others for
    nothing.
    """
    machine = Machine([100], 1_000)
    machine.post(0, 3)
    machine.post(3)
    takes_ms = {0: 20, 3: 1}
    machine.run(940, takes_ms)
    assert machine.used_ns[3] == 0
    machine.run(965, takes_ms)
    assert machine.used_ns[3] == 1 * MS


@pytest.mark.parametrize("long", range(40, 50))
def test_an_action_that_takes_twice_as_long_as_before_makes_nobody_starve(long: int) -> None:
    """A thread that waits for its core makes one action longer than all others, whichever that is."""
    machine = Machine([100], 1_000)
    machine.post(0, 3)
    machine.post(3)
    machine.run_one({0: 15})
    for number in range(50):
        began_ms = machine.now_ns / MS
        if machine.run_one({0: 40 if number == long else 20, 3: 1}) == 3:
            assert began_ms <= 1_000
            return
    pytest.fail("it starves")


def test_starving_begins_when_there_is_work() -> None:
    """A priority that had none for long is not served before all others when it gets some."""
    machine = Machine([100], 1_000)
    machine.post(0, 3)
    machine.run(5_000, {0: 20})
    machine.post(3)
    assert set(machine.run(5_400, {0: 20})) == {0}
    assert 3 in machine.run(6_000, {0: 20, 3: 1})


def test_several_that_get_work_at_once_are_all_served_in_time() -> None:
    """The last of them begins when those before it have ended, and for it, too, a run is kept in reserve."""
    machine = Machine([100], 1_000)
    takes_ms = {0: 20, 1: 100, 2: 100, 3: 100}
    for priority in (1, 2, 3):
        machine.post(priority)
    machine.run(300, takes_ms, is_endless=False)
    machine.post(0, 3)
    machine.run(320, takes_ms)
    for priority in (1, 2, 3):
        machine.post(priority)
    posted_ms, begins_ms = machine.now_ns / MS, dict[int, float]()
    while len(begins_ms) < 4:
        began_ms = machine.now_ns / MS
        begins_ms.setdefault(machine.run_one(takes_ms) or 0, began_ms)
    assert posted_ms + 600 - 1_000 / 8 - takes_ms[0] <= begins_ms[1] < begins_ms[3] <= posted_ms + 900


def test_a_long_action_counts_for_two_bounds() -> None:
    """It may come again; but one in an hour does not make all others wait for less than they agreed to."""
    machine = Machine([100], 1_000)
    machine.post(0, 1)
    machine.post(3)
    machine.run(100, {0: 100, 3: 1})
    begins_ms = []
    while machine.now_ns < 6_000 * MS:
        began_ms = machine.now_ns / MS
        if machine.run_one({0: 1, 3: 1}) == 3:
            begins_ms.append(began_ms)
    early, *_, late = (after - before for before, after in pairwise(begins_ms))
    assert begins_ms[0] <= 800 and early <= 800 and 996 <= late <= 1_000


def test_actions_too_long_for_the_bound_do_not_make_all_starve() -> None:
    """Else all of them would take turns, and shares would mean nothing."""
    machine = Machine([80, 20], 1_000)
    for priority in (0, 1, 2):
        machine.post(priority, 3)
    machine.run(60_000, {0: 5, 1: 5, 2: 400})
    assert machine.used_ns[0] / machine.used_ns[1] == pytest.approx(4, rel=0.1)


def test_time_of_several_at_once_is_shared_between_them() -> None:
    """Two workers: what runs beside another is charged half of the time, or the shares would have 200 %."""
    scheduler = ShareScheduler(Policy(priorities=2), 0, [50, 50], 60_000 * MS)
    for priority in (0, 1):
        for _ in range(2):
            scheduler.post(Action(AppObject(), "x", priority), 0)
    first, second = scheduler.next(0), scheduler.next(0)
    assert first is not None and second is not None and (first.priority, second.priority) == (0, 0)
    scheduler.finished(first, Outcome.DONE, 40 * MS)
    scheduler.finished(second, Outcome.DONE, 40 * MS)
    assert scheduler.quotas.left[0] == 10 * MS - 2, "40 ms together, and a nanosecond for each choice"


def test_what_is_set_aside_is_charged_as_well() -> None:
    """A state machine that defers a request, or a lock that it waits for."""
    scheduler = ShareScheduler(Policy(priorities=2), 0, [50, 50], 60_000 * MS)
    scheduler.post(Action(AppObject(), "x", 0), 0)
    action = scheduler.next(0)
    assert action is not None
    scheduler.set_aside(action, 20 * MS)
    assert scheduler.quotas.left[0] == 30 * MS - 1
    scheduler.requeue([action])
    assert scheduler.next(25 * MS) is action
    assert scheduler.quotas.left[0] == 30 * MS - 2, "nothing ran meanwhile"


def test_a_relief_serves_what_is_above_and_has_time_left() -> None:
    """And begins no round while less urgent work has time left."""
    scheduler = ShareScheduler(Policy(priorities=3), 0, [50, 50], 60_000 * MS)
    for priority in (0, 0, 1, 1):
        scheduler.post(Action(AppObject(), "x", priority), 0)
    assert scheduler.next(0, below=0) is None
    first = scheduler.next(0, below=1)
    assert first is not None and first.priority == 0
    scheduler.finished(first, Outcome.DONE, 60 * MS)
    assert not scheduler.has_work(1) and scheduler.next(60 * MS, below=1) is None
    second = scheduler.next(60 * MS)
    assert second is not None and second.priority == 1


def test_the_cpu_budget_comes_first() -> None:
    """Law 5: what is spent is spent; shares decide among what may run."""
    machine = Machine([50, 50], cpu_limit=10, cpu_exempt=1)
    machine.post(0)
    machine.post(1)
    machine.scheduler.budget.charge(200 * MS)
    assert machine.run(40, {0: 10, 1: 10}) == [0] * 4, "the exempt one"
    assert machine.scheduler.tick_count == 0


def test_a_tick_does_not_forgive() -> None:
    """It resets quotas; a debt of time stays, or one long action a tick would be free."""
    machine = Machine([90, 10], tick_ns=10 * MS)
    machine.post(1)
    machine.run(500, {1: 500})
    machine.post(0)
    assert set(machine.run(4_000, {0: 50, 1: 500})) == {0}, "500 ms of 10 % are five seconds"
    assert 1 in machine.run(6_000, {0: 50, 1: 500})


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([90, 20], "90 + 20 is 110 %, expected 100 %"),
        ([], "nothing is 0 %"),
        ([120, -20], "-20 % is below 0"),
        ([20] * 5, "5 given for 4 priorities"),
    ],
)
def test_shares_that_cannot_be_met(shares: list[int], words: str) -> None:
    """Refused, with the reason."""
    with pytest.raises(ValueError, match=r"shares: ") as raised:
        Machine(shares)
    assert words in str(raised.value)


def test_a_whole_backplane_shares_its_time() -> None:
    """By the keys of its configuration; a call carries its priority as always, and has no quota to change."""

    class Desk(AppObject):
        @operation(priority=0)
        def urgent(self) -> None:
            backplane.clock.work(0.01)

        @operation(priority=1)
        def bulk(self) -> None:
            backplane.clock.work(0.01)

    backplane = VirtualBackplane(order="shares", shares=(80, 20))
    desks = [backplane.add(Desk()) for _ in range(100)]
    for number, desk in enumerate(desks):
        backplane.post(desk, "urgent" if number % 2 else "bulk")
    assert Counter(backplane.run_until_idle()[:50]) == {"urgent": 40, "bulk": 10}
    error = backplane.call("backplane.virtual.quotas", quotas=[1]).error()
    assert 'order = "shares"' in str(error)


def test_one_round() -> None:
    """A percent of it is a millisecond: `shares = [90, 10]` are the 90 ms and 10 ms of the source."""
    assert ROUND_NS == 100 * MS
