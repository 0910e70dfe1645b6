"""Parallelism found by trials: the decider against models of a function, with noise, and the lanes of a stage that obey it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from appbackplane.runtime import DeclarationError, Flow, current, sink, stage
from appbackplane.runtime.flows.outlet import Origin, StageOutlet
from appbackplane.runtime.flows.parallelism import PERIOD_NS, ROUNDS_MIN, Parallelism
from appbackplane.runtime.flows.parts import StagePart
from appbackplane.runtime.testing import VirtualBackplane

#: Throughput with so many lanes, over that of one.
Load = Callable[[int], float]
SEEDS = range(3)
NOISE = 0.1
#: Seconds that one lane alone takes for a chunk, and items of a chunk.
CHUNK_S, CHUNK_ITEMS = 0.08, 64
#: Periods until a stage has settled. One period in that model lasts 0.32 s with any number of lanes, if they do not slow down.
SETTLED = 80


def blocks(lanes: int) -> float:
    """A function that sleeps."""
    return float(lanes)


def computes(lanes: int) -> float:
    """A function that holds the interpreter; a second thread costs a little."""
    return 1.0 if lanes == 1 else 0.95


def database(served: int) -> Load:
    """Serves some at a time, and loses as much again as it is asked for more."""
    return lambda lanes: float(lanes) if lanes <= served else served * served / lanes


class Stage:
    """A stage whose lanes always have a chunk, or as often as it has demand."""

    def __init__(self, load: Load, most: int, seed: int, noise: float = NOISE) -> None:
        self.noise = noise
        self.load, self.most, self.random = load, most, Random(seed)
        self.decider = Parallelism()
        self.now_s = 0.0
        self.is_followed = True
        self.limits: list[int] = []
        #: By lane: what is left of its chunk, in seconds of a lane alone, and how long it has run.
        self._running: dict[int, list[float]] = {}
        self._wobble = 1.0
        self._period = 0.0

    def run(self, seconds: float) -> None:
        """Let so much time pass; `limits` has the number of lanes at each end of a chunk."""
        self.limits = []
        self._run(seconds)

    def run_periods(self, count: int) -> None:
        """As `run`, as long as so many periods take at the slowest number of lanes met."""
        self.limits = []
        for _ in range(count):
            lanes = self.decider.limit
            self._run(max(PERIOD_NS / 1e9, ROUNDS_MIN * CHUNK_S * lanes / self.load(lanes)))

    def usual(self) -> int:
        """The number of lanes at most times of the last run."""
        return max(set(self.limits), key=self.limits.count)

    def _run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self._step()
            self.limits.append(self.decider.limit)

    def _step(self) -> None:
        random = self.random
        for lane in range(self.decider.limit):
            self._running.setdefault(lane, [CHUNK_S * (1 + random.uniform(-self.noise, self.noise)), 0.0])
        if self.now_s - self._period > PERIOD_NS / 1e9:
            self._period, self._wobble = self.now_s, 1 + random.uniform(-self.noise, self.noise)
        speed = self.load(len(self._running)) / len(self._running) * self._wobble
        first = min(self._running, key=lambda lane: self._running[lane][0])
        took_s = self._running[first][0] / speed
        self.now_s += took_s
        for each in self._running.values():
            each[0] -= took_s * speed
            each[1] += took_s
        _, ran_s = self._running.pop(first)
        self.decider.ran(
            CHUNK_ITEMS, round(ran_s * 1e9), lane=first, is_followed=self.is_followed, most=self.most,
            now_ns=round(self.now_s * 1e9),
        )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("load", "most", "least_right", "most_right"),
    [(blocks, 8, 8, 8), (blocks, 32, 32, 32), (computes, 8, 1, 1), (database(3), 16, 3, 3), (database(4), 16, 4, 5),
     (database(5), 16, 4, 6), (database(8), 32, 7, 9)],
    ids=["blocks8", "blocks32", "computes", "serves3", "serves4", "serves5", "serves8"],
)  # fmt: skip
def test_it_finds_the_number_that_pays_and_stays_there(
    load: Load, most: int, least_right: int, most_right: int, seed: int
) -> None:
    """Within `SETTLED` periods, with 10 % of noise; and trials take less than a quarter of the chunks from then on."""
    stage = Stage(load, most, seed)
    stage.run_periods(SETTLED)
    stage.run_periods(SETTLED)
    assert least_right <= stage.usual() <= most_right
    right = sum(least_right <= each <= most_right for each in stage.limits)
    assert right >= 0.75 * len(stage.limits)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("before", "after", "least_right", "most_right"),
    [(computes, blocks, 16, 16), (blocks, computes, 1, 1), (database(4), database(8), 7, 9), (database(8), database(3), 3, 4)],
    ids=["blocks_now", "computes_now", "serves_more", "serves_less"],
)  # fmt: skip
def test_it_follows_another_load(before: Load, after: Load, least_right: int, most_right: int, seed: int) -> None:
    """Within 80 periods: a number that was right once would hold up the flow, or the other stages."""
    stage = Stage(before, 16, seed)
    stage.run_periods(SETTLED)
    stage.load = after
    stage.run_periods(SETTLED)
    stage.run_periods(SETTLED // 2)
    assert least_right <= stage.usual() <= most_right


def test_twice_the_noise_does_not_make_it_wander() -> None:
    """A close result is measured again: of the chunks of five runs, 81 % have about the right number; 73 % if it were not."""
    shares = []
    for seed in range(5):
        stage = Stage(lambda lanes: float(min(lanes, 6)), 16, seed, noise=2 * NOISE)
        stage.run_periods(SETTLED)
        stage.run_periods(2 * SETTLED)
        shares.append(sum(5 <= each <= 7 for each in stage.limits) / len(stage.limits))
    assert sum(shares) / len(shares) > 0.78


def test_an_idle_stage_keeps_its_lanes() -> None:
    """Without chunks that wait, more lanes would change nothing, and fewer could not be judged."""
    stage = Stage(blocks, 8, 0)
    stage.is_followed = False
    stage.run(30.0)
    assert set(stage.limits) == {1}
    stage.is_followed = True
    stage.run(30.0)
    assert stage.usual() == 8
    stage.is_followed = False
    stage.run(60.0)
    assert len(set(stage.limits[len(stage.limits) // 2 :])) == 1


def test_lanes_that_seldom_run_are_held_up_by_something_else() -> None:
    """By the threads, or the stage behind: further lanes would be held up, too."""
    decider = Parallelism()
    for number in range(1_000):
        decider.ran(64, 10_000_000, lane=0, is_followed=True, most=8, now_ns=number * 100_000_000)
        assert decider.limit == 1


def test_chunks_of_a_lane_that_was_taken_away_are_not_counted() -> None:
    """They run with more lanes than there will be: fewer lanes would seem to serve as much."""
    decider = Parallelism()
    decider.limit = 2
    for number in range(1_000):
        decider.ran(64, 100_000_000, lane=2, is_followed=True, most=8, now_ns=number * 100_000_000)
    assert decider.limit == 2


def test_there_are_never_more_lanes_than_threads() -> None:
    """Also where threads are taken away while it runs."""
    stage = Stage(blocks, 8, 1)
    stage.run(60.0)
    assert stage.usual() == 8
    stage.most = 3
    stage.run(1.0)
    assert stage.decider.limit <= 3
    stage.run(60.0)
    assert max(stage.limits[10:]) == 3 == stage.usual()


def test_demand_for_less_than_one_more_lane_is_served() -> None:
    """With a second lane nothing waits any more: a fifth more is served, though it is no 30 %."""
    decider, now_ns = Parallelism(), 0
    for number in range(200):
        now_ns += 80_000_000 if decider.limit == 1 else 65_000_000
        decider.ran(64, 80_000_000, lane=number % decider.limit, is_followed=decider.limit == 1, most=8, now_ns=now_ns)
    assert decider.limit == 2


def test_credits_give_each_lane_four_chunks() -> None:
    """Otherwise eight lanes would share four chunks, and half of them wait."""
    outlet = StageOutlet(1_024, [None])
    assert outlet.chunk_max == 256
    outlet.spread(8)
    assert outlet.chunk_max == 32
    assert outlet.put([(0, [*range(100)])], Origin(), 0)
    chunk, _ = outlet.take(0)
    assert chunk is not None and len(chunk.items) == 32
    outlet.spread(1)
    assert outlet.chunk_max == 256
    outlet.spread(256)
    assert outlet.chunk_max == 1


@pytest.mark.parametrize("given", ["many", "Auto", 0, 257, None, True, 1.0])
def test_another_text_is_refused(given: Any) -> None:
    """The message names what is possible."""
    with pytest.raises(DeclarationError, match=r'expected a whole number, 1 to 256, or "auto"'):
        stage(parallel=given)(lambda item: item)


def test_lanes_of_keys_cannot_change() -> None:
    """A key would change its lane, and overtake itself."""
    for decorator in (stage, sink):
        with pytest.raises(DeclarationError, match=r'parallel="auto" with by=.*give a number, or leave out `by`'):
            decorator(parallel="auto", by="user")(lambda item: item)


class Sleeping:
    """A flow with a sink that takes time, under `parallel="auto"`. It is put what the test gives."""

    def __init__(self, threads: int, *, faster: bool) -> None:
        self.kept: list[int] = []
        self.lanes: set[str] = set()

        @sink(parallel="auto")
        def keep(number: int) -> None:
            self.kept.append(number)
            self.lanes.add(current().object.name)
            lanes = part.lanes[0].lanes_found or 0
            self.backplane.clock.sleep(0.01 / lanes if faster else 0.01)

        part, inlet = Flow("f", keep).construct()
        assert isinstance(part, StagePart)
        self.backplane = VirtualBackplane(part, inlet)
        self.backplane.backplane._platform.count_threads = lambda: threads
        self.put_count = 0

    @property
    def parallel(self) -> int:
        """As the statistics tell it."""
        found: int = self.backplane.backplane.statistics()["flows"]["f_keep"]["parallel"]
        return found

    def put(self, pieces: int) -> None:
        """So many pieces of 512 items, four under way at a time."""
        for _ in range(pieces // 2):
            for _ in range(2):
                self.backplane.call("f.put", items=[*range(self.put_count, self.put_count + 512)])
                self.put_count += 512
            self.backplane.run_until_idle()


def test_a_stage_of_one_thread_has_one_lane() -> None:
    """As in any virtual backplane."""
    flow = Sleeping(1, faster=True)
    flow.put(20)
    assert flow.parallel == 1 and flow.lanes == {"virtual/f_keep.0"}


def test_lanes_that_pay_are_added_and_nothing_is_lost() -> None:
    """The virtual clock runs one action at a time; here the function becomes faster with each lane instead."""
    flow = Sleeping(4, faster=True)
    flow.put(100)
    assert flow.parallel in (3, 4)
    assert flow.lanes == {f"virtual/f_keep.{number}" for number in range(4)}
    assert sorted(flow.kept) == [*range(flow.put_count)]
    assert flow.backplane.backplane.statistics()["flows"]["f"]["edge"]["used"] == 0


def test_a_lane_that_does_not_pay_gets_no_more_chunks_and_serves_what_it_has() -> None:
    """It is the trial that adds it, and takes it away."""
    flow = Sleeping(4, faster=False)
    flow.put(100)
    assert flow.parallel in (1, 2) and flow.lanes == {"virtual/f_keep.0", "virtual/f_keep.1"}
    assert sorted(flow.kept) == [*range(flow.put_count)]


def test_fewer_threads_at_run_time_are_fewer_lanes() -> None:
    """Threads can be changed while a backplane runs."""
    flow = Sleeping(4, faster=True)
    flow.put(100)
    flow.backplane.backplane._platform.count_threads = lambda: 1
    flow.put(4)
    assert flow.parallel == 1
    flow.lanes.clear()
    flow.put(10)
    assert flow.lanes == {"virtual/f_keep.0"}
    assert sorted(flow.kept) == [*range(flow.put_count)]
