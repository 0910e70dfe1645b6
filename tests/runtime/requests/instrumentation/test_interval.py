"""Intervals: what they say adds up to what the kernel says, whenever it is looked, whatever has happened."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from appbackplane.runtime.requests.instrumentation.interval import IntervalRecord, between
from appbackplane.runtime.requests.ledger.element import LANES, Element, Failure
from appbackplane.runtime.requests.ledger.figures import Figures, figures_of
from appbackplane.runtime.requests.ledger.ledger import Ledger
from appbackplane.runtime.requests.policy import KernelPolicy

SECOND_NS = 10**9
WORKERS = ("worker-1", "worker-2", "worker-3")
TOTALS = ("posted", "ended", "failed", "lost", "unclaimed", "withdrawn", "joined", "refused")


class Kernel:
    """A ledger, and a clock that each step moves on."""

    def __init__(self, policy: KernelPolicy | None = None) -> None:
        self.ledger = Ledger(policy or KernelPolicy(workers=3, ready=5, rejoin=4))
        self.now_ns = 10**12
        self.ids = 0
        self.held: dict[str, list[Element]] = {name: [] for name in WORKERS}

    def post(self, lane: int = 3, owner: str = "me") -> None:
        self.ids += 1
        if not self.ledger.post(Element(self.ids, None, "Work", owner, 0, lane), self.now_ns):
            self.ledger.refused_total += 1  # as the ledger does

    def take(self, worker: str, count: int = 1) -> None:
        if not self.held[worker]:
            self.held[worker] = self.ledger.take(worker, count, self.now_ns)

    def end(self, worker: str, run_ns: int, failure: Failure | None = None) -> None:
        if self.held[worker]:
            self.ledger.end(worker, self.held[worker].pop(0), None, failure, run_ns, self.now_ns)

    def give_back(self, worker: str) -> None:
        self.ledger.give_back(worker, self.held[worker], self.now_ns)
        self.held[worker] = []

    def lose(self, worker: str) -> None:
        self.ledger.lose(worker, self.held[worker], "it died", self.now_ns)
        self.held[worker] = []

    def rejoin(self) -> None:
        self.ledger.rejoin("me")

    def look(self) -> Figures:
        """As `SynchronizedLedger.interval_figures`."""
        figures = figures_of(self.ledger, self.now_ns)
        self.ledger.entries.take_peaks()
        self.ledger.executing.take_peaks()
        return figures


def recorded(before: Figures, after: Figures) -> IntervalRecord:
    return between(before, after, "index", "main", 1_700_000_000 * SECOND_NS)


WHO = st.sampled_from(WORKERS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.integers(0, 3)),
        st.tuples(st.just("take"), WHO, st.integers(1, 3)),
        st.tuples(st.just("end"), WHO, st.integers(0, SECOND_NS), st.sampled_from([None, Failure("it broke")])),
        st.tuples(st.just("give_back"), WHO),
        st.tuples(st.just("lose"), WHO),
        st.tuples(st.just("rejoin")),
        st.tuples(st.just("look")),
        st.tuples(st.just("pass"), st.integers(0, 3 * SECOND_NS)),
    ),
    max_size=80,
)


@given(STEPS)
def test_intervals_add_up_to_the_totals(steps: Sequence[tuple[object, ...]]) -> None:
    """Who sums up a day from its records finds what the kernel counted; nothing twice, nothing between two."""
    kernel = Kernel()
    first = before = kernel.look()
    records: list[IntervalRecord] = []
    for what, *arguments in [*steps, ("look",)]:
        kernel.now_ns += 1_000
        if what == "look":
            after = kernel.look()
            records.append(recorded(before, after))
            before = after
        elif what == "pass":
            kernel.now_ns += int(str(arguments[0]))
        else:
            getattr(kernel, str(what))(*arguments)
    last = before
    for name in TOTALS:
        assert sum(getattr(record, name) for record in records) == getattr(last, f"{name}_total")
    assert sum(record.interval_ns for record in records) == last.at_ns - first.at_ns
    for name, (ended, run_ns, _) in last.by_worker.items():
        of_it = [record.by_worker[name] for record in records if name in record.by_worker]
        assert sum(each.ended for each in of_it) == ended
        assert abs(sum(each.run_ms for each in of_it) - run_ns / 1e6) < 1e-3
    for record in records:
        assert record.wait_ms is None or record.wait_ms >= 0
        assert 0 <= record.utilisation <= 1 and all(0 <= each.busy <= 1 for each in record.by_worker.values())
        for now, most in ((record.ready, record.ready_max), (record.executing, record.executing_max)):
            assert len(now) == LANES and all(a <= b for a, b in zip(now, most, strict=True))


def test_a_request_of_an_hour_is_no_hour_of_idle_workers() -> None:
    """What counts only what has ended shows nothing for an hour, and then an hour's work in a second."""
    kernel = Kernel()
    before = kernel.look()
    kernel.post()
    kernel.take("worker-1")
    for _ in range(3):
        kernel.now_ns += SECOND_NS
        after = kernel.look()
        record = recorded(before, after)
        assert (record.utilisation, record.by_worker["worker-1"].busy) == (round(1 / 3, 4), 1.0)
        before = after
    kernel.end("worker-1", 3 * SECOND_NS)
    kernel.now_ns += SECOND_NS
    record = recorded(before, kernel.look())
    assert (record.utilisation, record.run_ms, record.throughput) == (0.0, 3_000.0, 1.0)


def test_the_most_of_an_interval_is_of_that_interval() -> None:
    """A pool that was full for a moment held up its posters, which its end does not show."""
    kernel = Kernel()
    before = kernel.look()
    for _ in range(4):
        kernel.post(lane=2)
    for worker in WORKERS:
        kernel.take(worker)
        kernel.end(worker, 1)
    record = recorded(before, before := kernel.look())
    assert (record.ready[2], record.ready_max[2]) == (1, 4)
    assert (record.executing[2], record.executing_max[2]) == (0, 1)
    assert recorded(before, kernel.look()).ready_max[2] == 1


def test_waits_are_of_what_was_begun() -> None:
    """Means of all that ever were would hide that it has become slow."""
    kernel = Kernel()
    before = kernel.look()
    kernel.post()
    kernel.now_ns += 5_000_000
    kernel.take("worker-1")
    kernel.end("worker-1", 2_000_000)
    record = recorded(before, before := kernel.look())
    assert (record.wait_ms, record.run_ms) == (5.0, 2.0)
    record = recorded(before, kernel.look())
    assert (record.wait_ms, record.run_ms, record.throughput) == (None, None, 0.0)


def test_what_is_given_back_waits_once_more() -> None:
    """The time that a worker had it is neither a wait nor less than none: the total never shrinks."""
    kernel = Kernel()
    before = kernel.look()
    kernel.post()
    kernel.now_ns += 5_000_000
    kernel.take("worker-1")
    kernel.now_ns += 70_000_000
    kernel.give_back("worker-1")
    assert kernel.look().wait_ns_total == 5_000_000
    kernel.now_ns += 2_000_000
    kernel.take("worker-2")
    after = kernel.look()
    assert after.wait_ns_total == 7_000_000
    assert recorded(before, after).wait_ms == 3.5  # of two executions begun


def test_a_worker_that_was_dismissed_and_came_again_begins_anew() -> None:
    """Its figures are smaller then than they were: the difference is no negative number of requests."""
    kernel = Kernel()
    for _ in range(3):
        kernel.post()
        kernel.take("worker-1")
        kernel.end("worker-1", 10)
        kernel.rejoin()
    before = kernel.look()
    kernel.ledger.dismiss("worker-1")
    kernel.post()
    kernel.take("worker-1")
    kernel.end("worker-1", 10)
    record = recorded(before, kernel.look())
    assert record.by_worker["worker-1"].ended == record.ended == 1
    kernel.ledger.dismiss("worker-1")
    assert recorded(before, kernel.look()).by_worker == {}


def test_idle_is_where_nothing_happened_and_nothing_is_there() -> None:
    """What waits, or has just happened, is no idleness."""
    kernel = Kernel()
    before = kernel.look()
    record = recorded(before, kernel.look())
    assert record.is_idle
    assert not replace(record, joined=1).is_idle
    kernel.post()
    before = kernel.look()
    assert not recorded(before, kernel.look()).is_idle
