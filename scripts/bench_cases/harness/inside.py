"""Inside: a whole backplane in this process, with its real worker, scheduler, statistics and lead, and nobody outside.

A driver, itself an action, posts a batch of actions to as many objects and is queued again behind them, so that the
worker is never without work and no other thread takes part. What is measured is all that happens to an action.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appbackplane.runtime import Action, AppObject, Component, Outcome
from appbackplane.runtime.execution.records.recording import Recording
from appbackplane.runtime.process_config import RecordPolicy

from .in_process import backplane_of, config_of

PRIORITIES = 8
BATCH = 1000
#: Objects are visited in this order, over and over: not the one in which they lie in memory.
SEED = 7


class Counting(AppObject):
    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class Nothing(Action):
    """As little as an action can be and still be seen to have run."""

    __slots__ = ()

    def run(self) -> Outcome:
        self.object.number += 1  # type: ignore[attr-defined]
        return Outcome.DONE


class Driver(Action):
    __slots__ = ("inside", "left")

    def __init__(self, inside: Inside, batches: int) -> None:
        super().__init__(inside.component, "inside.drive", PRIORITIES - 1)
        self.inside, self.left = inside, batches

    def run(self) -> Outcome:
        inside = self.inside
        if self.left:
            self.left -= 1
            inside.post_batch()
        elif inside.is_done():
            inside.done.set()
            return Outcome.DONE
        inside.component.post(_again(self))
        return Outcome.DONE


def _again(driver: Driver) -> Driver:
    return Driver(driver.inside, driver.left)


class Holder(Component):
    component_name = "inside"


class Inside:
    """One backplane with `count` objects."""

    def __init__(self, count: int, records: Path | None = None) -> None:
        """`records`: the folder in which its actions are recorded."""
        self.component = Holder()
        self.objects = [self.component.add(Counting(), key=f"object-{n}") for n in range(count)]
        self._order = list(range(count))
        random.Random(SEED).shuffle(self._order)
        self._at = 0
        self._posted = 0
        self.done = threading.Event()
        config = config_of(
            "inside",
            run_dir="/nowhere" if records is None else str(records),
            record=None if records is None else RecordPolicy(size=64 << 20, age_ns=10**15, segment=8 << 20),
            preempt=False,
            priorities=PRIORITIES,
        )
        self.backplane = backplane_of(config, self.component)
        if records is not None:
            self.backplane.recording = Recording(config, self.backplane.engine)
            self.backplane.recording.start()
        self.backplane.start(1)

    def post_batch(self) -> None:
        """One action each to the next objects, their priorities mixed."""
        post, order, at = self.component.post, self._order, self._at
        for number in range(BATCH):
            object = self.objects[order[(at + number) % len(order)]]
            post(Nothing(object, "inside.nothing", number % PRIORITIES))
        self._at = (at + BATCH) % len(order)
        self._posted += BATCH

    def is_done(self) -> bool:
        """Whether all that was posted has run."""
        account = self.backplane.engine.statistics.of("inside.nothing")
        return account.run.count == self._posted

    @property
    def recorded_count(self) -> int:
        recorder = self.backplane.engine.recorders.actions
        return 0 if recorder is None else recorder.count

    def per_s(self, batches: int) -> float:
        """Actions a second over so many batches."""
        self.done.clear()
        began = time.perf_counter()
        self.component.post(Driver(self, batches))
        self.done.wait()
        return batches * BATCH / (time.perf_counter() - began)


@contextmanager
def inside(count: int, records: Path | None = None) -> Iterator[Inside]:
    held = Inside(count, records)
    try:
        yield held
    finally:
        held.backplane.stop(1.0)
