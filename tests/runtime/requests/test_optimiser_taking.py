"""A full rejoin pool grows where owners take in bursts, and not where they are slow: then it is all that bounds the memory."""

from __future__ import annotations

import random

import pytest

from appbackplane.runtime.requests.optimiser import KernelSample, Optimiser, OptimiserPolicy, Setting

SECOND = 1_000_000_000
SLICES = 100
#: Requests that the workers end in a second, however many they are.
WORK_PER_S = 2000


class Taken:
    """A kernel with posters that never stop, whose owners take results evenly, or all there are at a time."""

    def __init__(self, setting: Setting, *, per_s: int = 0, every_s: float = 0.0) -> None:
        self.optimiser = Optimiser(OptimiserPolicy(), setting)
        self.per_s, self.every_slices = per_s, round(every_s * SLICES)
        self.random = random.Random(1)
        self.rejoinable = self.slice = 0
        self.ended: list[int] = []
        self.settings = [setting]

    def run(self, intervals: int) -> None:
        """So many, of a second each."""
        for _ in range(intervals):
            if move := self.optimiser.observe(self.sample(self.optimiser.setting)):
                self.settings.append(move.setting)

    def sample(self, setting: Setting) -> KernelSample:
        """One interval under a setting, a hundredth at a time."""
        ended = 0
        noise = self.random.uniform(0.9, 1.1)
        for _ in range(SLICES):
            self.slice += 1
            room = max(0, setting.rejoin - self.rejoinable)
            made = min(room, WORK_PER_S // SLICES)
            ended += made
            self.rejoinable += made
            taken = round(noise * self.per_s / SLICES)
            if self.every_slices and self.slice % self.every_slices == 0:
                taken = self.rejoinable
            self.rejoinable -= min(self.rejoinable, taken)
        self.ended.append(ended)
        is_full = setting.rejoin - self.rejoinable < WORK_PER_S // SLICES
        return KernelSample(
            interval_ns=SECOND, ended_count=ended, ready_count=0 if is_full else setting.ready, posting_count=1,
            rejoinable_count=self.rejoinable, workers=setting.workers,
            executing_count=0 if is_full else setting.workers,
            blocked_count=0, run_ns=setting.workers * SECOND // WORK_PER_S, wait_ns=0,
        )  # fmt: skip


def test_owners_that_are_slow_get_one_larger_pool_and_never_another() -> None:
    """It would be as full, with a hundred times the results; and how fast they take is no reason to move the workers."""
    slow = Taken(Setting(2, 100, 300), per_s=200)
    slow.run(200)
    assert slow.settings == [Setting(2, 100, 300), Setting(2, 100, 600)]


@pytest.mark.parametrize("every_s", [0.37, 0.83, 2.3, 3.1])
def test_owners_that_take_many_at_once_have_room_for_what_ends_meanwhile(every_s: float) -> None:
    """Each doubling lets more end, until there is room for all."""
    bursts = Taken(Setting(2, 100, 100), every_s=every_s)
    bursts.run(250)
    assert sum(bursts.ended[-30:]) >= 0.9 * 30 * WORK_PER_S


def test_results_that_nobody_takes_are_no_reason_for_room_for_more() -> None:
    """Nor is what is posted meanwhile: it fills the pool, and is not taken."""
    forgotten = Taken(Setting(2, 100, 300))
    forgotten.run(100)
    assert forgotten.settings == [Setting(2, 100, 300)]


def test_another_size_by_hand_is_tried_anew() -> None:
    """Whoever changes it knows of another load; whoever changes something else does not say that memory is cheap."""
    slow = Taken(Setting(2, 100, 300), per_s=200)
    slow.run(50)
    slow.optimiser.adopt(Setting(3, 100, 600))
    slow.run(50)
    assert slow.optimiser.setting == Setting(3, 100, 600)
    slow.optimiser.adopt(Setting(3, 100, 400))
    slow.run(50)
    assert slow.optimiser.setting == Setting(3, 100, 800)
