"""Races: posters, rejoiners, changes of size and failures all at once, on real threads; everything comes back exactly once.

One seed decides what is done, if not when; a failure prints it. Set APPBACKPLANE_RACES to a number for so many seeds more.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from appbackplane.runtime.requests import Context, KernelPolicy, Rejoin, RequestKernel, Runnable
from appbackplane.transport.errors import Busy, DeadlineExceeded

from .conftest import LIMIT_S, Live, joined, until

SEEDS = range(1, 3 + int(os.environ.get("APPBACKPLANE_RACES", "0")))
POSTERS = 3
REJOINERS = 2
OWNERS = ("a", "b")
#: Of each poster for each owner.
COUNT = 150
#: How who posts or rejoins may wait.
WAITING: list[dict[str, Any]] = [{"wait": True}, {"timeout": LIMIT_S}, {"timeout": 0.0005}, {"wait": False}]


class Broken(Exception):
    """On purpose."""


class Part(Runnable):
    """Ends, or fails, as its number says."""

    def execute(self, request: int, kernel: Context) -> int:
        if request % 7 == 0:
            raise Broken(str(request))
        return request


class AsyncPart(Runnable):
    """The same, as a coroutine."""

    async def execute(self, request: int, kernel: Context) -> int:
        if request % 7 == 0:
            raise Broken(str(request))
        return request


class Whole(Runnable):
    """Posts parts, and rejoins them all, or leaves some behind, or fails before it has."""

    def execute(self, request: int, kernel: Context) -> int:
        for number in range(request % 5):
            kernel.post(number, Part if number % 2 else AsyncPart, lane=3, priority=99)
        if request % 11 == 0:
            raise Broken(str(request))
        if request % 3 == 0:
            return sum(1 for _ in kernel.joined())
        return len([done.result for done in kernel.map_unordered(range(request % 4), Part)])


class Kernel(RequestKernel):
    runnables = (Part, AsyncPart, Whole)
    policy = KernelPolicy(workers=6, ready=12, rejoin=30, mode="lanes", lanes=(0, 20, 20))


class Race:
    """What goes on at the same time."""

    def __init__(self, kernel: RequestKernel, seed: int) -> None:
        self.kernel, self.seed = kernel, seed
        self.is_over = threading.Event()
        self.problems: list[BaseException] = []
        #: By owner: numbers of requests that were posted, and that came back.
        self.posted: dict[str, Counter[int]] = {owner: Counter() for owner in OWNERS}
        self.returned: dict[str, Counter[int]] = {owner: Counter() for owner in OWNERS}
        self.lock = threading.Lock()

    def begin(self, name: str, function: Callable[[random.Random], None]) -> threading.Thread:
        chance = random.Random(f"{self.seed} {name}")

        def run() -> None:
            try:
                function(chance)
            except BaseException as error:
                self.problems.append(error)
                self.is_over.set()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def post(self, chance: random.Random) -> None:
        kernel = self.kernel.kernel
        for number in range(COUNT):
            for owner in OWNERS:
                runnable = chance.choice([Part, AsyncPart, Whole])
                how: dict[str, Any] = {
                    "owner": owner,
                    "lane": 2 if runnable is Whole else 3,
                    "priority": chance.randrange(98, 101),
                    "boost": chance.random() < 0.2,
                }
                try:
                    element = kernel.post(number, runnable, **how, **chance.choice(WAITING))
                except (Busy, DeadlineExceeded):
                    continue
                with self.lock:
                    self.posted[owner][element.id] += 1

    def rejoin(self, chance: random.Random, owner: str, are_posted: threading.Event) -> None:
        """Until nothing exists, and nothing will."""
        kernel = self.kernel.kernel
        while True:
            was_posted = are_posted.is_set()
            try:
                found, element = kernel.rejoin(owner, **chance.choice(WAITING))
            except DeadlineExceeded:
                continue
            if element is not None:
                assert found is Rejoin.RETURNED
                with self.lock:
                    self.returned[owner][element.id] += 1
            elif found is Rejoin.NONE_EXIST and was_posted:
                return

    def change(self, chance: random.Random) -> None:
        """More and fewer workers, larger and smaller pools, with lanes and without, older and not."""
        while not self.is_over.wait(0.0005):
            self.kernel.change(
                workers=chance.randint(4, 9),
                ready=chance.randint(6, 20),
                rejoin=chance.randint(20, 60),
                mode=chance.choice(["plain", "lanes", "lanes"]),
                ageing=chance.random() < 0.5,
                interval=0.001,
                boost=chance.randint(0, 5),
                on_stall="fail",
            )
            figures = self.kernel.figures()
            assert all(count >= 0 for count in figures.ready + figures.executing_lanes + figures.rejoinable)


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_comes_back_exactly_once(live: Callable[..., Live], seed: int) -> None:
    kernel = Kernel()
    live(kernel)
    race = Race(kernel, seed)
    are_posted = threading.Event()
    posters = [race.begin(f"poster {number}", race.post) for number in range(POSTERS)]
    rejoiners = [
        race.begin(f"rejoiner {number} of {owner}", lambda chance, owner=owner: race.rejoin(chance, owner, are_posted))  # type: ignore[misc]
        for number in range(REJOINERS)
        for owner in OWNERS
    ]
    changer = race.begin("changer", race.change)
    try:
        for thread in posters:
            joined(thread)
        are_posted.set()
        for thread in rejoiners:
            joined(thread)
        race.is_over.set()
        joined(changer)
        assert not race.problems, race.problems
        for owner in OWNERS:
            assert race.returned[owner] == race.posted[owner]
            assert set(race.posted[owner].values()) == {1}
        figures = until(kernel, lambda figures: not figures.executing and not any(figures.ready))
        assert (figures.posting, sum(figures.rejoinable), figures.owners, figures.blocked) == (0, 0, 0, 0)
        assert figures.posted_total == figures.ended_total + figures.withdrawn_total
        assert figures.ended_total == figures.joined_total + figures.unclaimed_total
    except BaseException as error:
        error.add_note(f"seed {seed}; {kernel.figures()}")
        raise
    finally:
        race.is_over.set()
