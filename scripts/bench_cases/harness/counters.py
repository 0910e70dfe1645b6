"""Counters: the experiment with which seed 003 measures its accessor (section 6), five handlers and four data.

Handlers 1 to 4 count, each its own, and take their time over it. Handler 5 shows counter 1, 2 or 3, whichever its message
says. In version A it is given all four. In version B it is given counter 4, waits for half of its time, reaches for the
one that it is to show, and waits for the other half.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from appbackplane.runtime.dispatcher import Accessor, DataProtector, Dispatcher, Message, message

#: Locked before all others, and behind them: "highest priority" in the paper is what is locked first, and is never given
#: back when an accessor reaches for another. Read the other way round, its table would contradict its section 4.2.
ORDERS = {"highest": 0, "lowest": 9}
#: A run that has not ended by then has come to a stand.
LIMIT_S = 30.0


class Counter:
    def __init__(self) -> None:
        self.value = 0


class Tick(Message):
    """What the timers say; `TickN` to handler N. `delay_s`: how long its handler takes."""

    number: int
    delay_s: float


@message(category=92, id=1)
class Tick1(Tick): ...


@message(category=92, id=2)
class Tick2(Tick): ...


@message(category=92, id=3)
class Tick3(Tick): ...


@message(category=92, id=4)
class Tick4(Tick): ...


@message(category=92, id=5)
class Show(Tick):
    """Of handler 5."""


TICKS: Sequence[type[Tick]] = (Tick1, Tick2, Tick3, Tick4, Show)


class Counters(Dispatcher):
    version = "A"
    order = "highest"

    def setup(self) -> None:
        self.counters = [Counter() for _ in range(4)]
        orders = [1, 2, 3, ORDERS[self.order]]
        pairs = zip(self.counters, orders, strict=True)
        one, two, three, four = (DataProtector(counter, order=order) for counter, order in pairs)
        #: How long each run of handler 5 took, and how many messages are handled.
        self.shown_ms: list[float] = []
        self.handled: list[None] = []
        self.expected = 0
        self.is_done = threading.Event()
        self.register(self.counting(Tick1), one)
        self.register(self.counting(Tick2), two)
        self.register(self.counting(Tick3), three)
        self.register(self.counting(Tick4), four)
        if self.version == "A":
            self.register(self.showing_all(), one, two, three, four)
        else:
            self.register(self.showing_one(), four, one.accessor, two.accessor, three.accessor)

    def counting(self, kind: type[Tick]) -> Callable[..., None]:
        def count(message: Tick, counter: Counter) -> None:
            counter.value += 1
            time.sleep(message.delay_s)
            self.tally()

        count.__annotations__["message"] = kind
        return count

    def showing_all(self) -> Callable[..., None]:
        """Handler 5, version A."""

        def show_of_all(message: Show, one: Counter, two: Counter, three: Counter, four: Counter) -> None:
            began = time.perf_counter()
            shown((one, two, three)[message.number % 3])
            time.sleep(message.delay_s)
            self.shown_ms.append((time.perf_counter() - began) * 1e3)
            self.tally()

        return show_of_all

    def showing_one(self) -> Callable[..., None]:
        """Handler 5, version B."""

        def show_one(
            message: Show, four: Counter, one: Accessor[Counter], two: Accessor[Counter], three: Accessor[Counter]
        ) -> None:
            began = time.perf_counter()
            time.sleep(message.delay_s / 2)
            with (one, two, three)[message.number % 3].lock() as counter:
                shown(counter)
                time.sleep(message.delay_s / 2)
            self.shown_ms.append((time.perf_counter() - began) * 1e3)
            self.tally()

        return show_one

    def tally(self) -> None:
        self.handled.append(None)
        if len(self.handled) == self.expected:
            self.is_done.set()


class CountersB(Counters):
    """With handler 5 as it is better."""

    component_name = "counters"
    version = "B"


def shown(counter: Counter) -> str:
    return f"{counter.value}"


def run_s(counters: Counters, count: int, period_s: float, phases: Sequence[float]) -> float:
    """So many messages to each handler, one every period; from the first of them until all are handled.

    `phases`: when each timer begins, in periods. Raises RuntimeError when it comes to a stand.
    """
    due = sorted((number + phase, kind, number) for kind, phase in enumerate(phases) for number in range(count))
    counters.expected = count * len(TICKS)
    began = time.perf_counter()
    for periods, kind, number in due:
        pause = began + (periods - due[0][0]) * period_s - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        counters.dispatch(TICKS[kind](number, period_s / 2))
    if not counters.is_done.wait(LIMIT_S):
        raise RuntimeError(f"{len(counters.handled)} of {counters.expected} messages were handled in {LIMIT_S:g} s")
    spent = time.perf_counter() - began
    assert [each.value for each in counters.counters] == [count] * 4, "a count was lost"
    return spent
