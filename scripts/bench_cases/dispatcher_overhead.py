"""dispatcher_overhead: what it costs to have a handler called by the dispatcher, with two data that nobody else wants.

Posted from inside and run by the real worker, as in `inproc`: the message becomes an action with a priority, an account and an
object, its locks are taken in order and given back. Against calling the same function with the same data; the message is
made on both sides. A surprise would be more than 6 µs, or more objects than the action and its queue need.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from appbackplane.runtime import Action, Outcome
from appbackplane.runtime.dispatcher import DataProtector, Dispatcher, Message, message

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.in_process import dispatching

#: So many wait at most: a handful would measure the driver, thousands the memory.
BATCH = 100
BATCHES, QUICK_BATCHES = 300, 150
#: The messages', which has no quota, and the driver's: it goes on when they are done.
FIRST, LAST = 0, 7


class Balance:
    def __init__(self) -> None:
        self.amount = 0


class Turnover(Balance): ...


@message(category=90, id=1, priority=FIRST)
class Pay(Message):
    amount: int


def pay(message: Pay, balance: Balance, turnover: Turnover) -> None:
    """Little enough that what surrounds it is seen."""
    balance.amount -= message.amount
    turnover.amount += message.amount


class Bank(Dispatcher):
    """One handler, two protectors."""

    def setup(self) -> None:
        self.register(pay, DataProtector(Balance()), DataProtector(Turnover()))
        [self.entry] = self.entries


class Driver(Action):
    """Dispatches batch after batch; queued again behind each."""

    __slots__ = ("bank", "blocks", "done", "left")

    def __init__(self, bank: Bank, batches: int, done: threading.Event) -> None:
        super().__init__(bank, "bench.drive", LAST)
        self.bank, self.left, self.done = bank, batches, done
        #: Allocated for a message that waits for its turn.
        self.blocks = 0.0

    def run(self) -> Outcome:
        if not self.left:
            self.done.set()
            return Outcome.DONE
        self.left -= 1
        dispatch, before = self.bank.dispatch, sys.getallocatedblocks()
        for number in range(BATCH):
            dispatch(Pay(number))
        self.blocks = (sys.getallocatedblocks() - before) / BATCH
        return Outcome.YIELDED


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    bank, batches = Bank(), QUICK_BATCHES if is_quick else BATCHES
    with dispatching(bank, threads=1):

        def dispatched() -> Figures:
            before, driver = bank.entry.calls_count, Driver(bank, batches, threading.Event())
            began = time.perf_counter_ns()
            bank.post(driver)
            driver.done.wait()
            spent_us = (time.perf_counter_ns() - began) / 1e3
            assert bank.entry.calls_count - before == batches * BATCH, "a message was not handled"
            return {"message_us": spent_us / (batches * BATCH), "blocks": driver.blocks}

        yield Sides(dispatched, lambda: {"message_us": called_us(batches)})


def called_us(batches: int) -> float:
    balance, turnover = Balance(), Turnover()
    began = time.perf_counter_ns()
    for _ in range(batches):
        for number in range(BATCH):
            pay(Pay(number), balance, turnover)
    return (time.perf_counter_ns() - began) / 1e3 / (batches * BATCH)


def overhead_us(dispatched: Figures, called: Figures) -> float:
    return dispatched["message_us"] - called["message_us"]


CASE = Case(
    name="dispatcher_overhead",
    what="dispatch a message to a handler with two protectors, nobody else about; reference: call the function",
    requirements=(
        Requirement("over calling it", overhead_us, at_most=6.0, unit="us"),
        Requirement("blocks a queued message", ours("blocks"), at_most=8),
    ),
    open=both,
    rounds=20,
    quick_rounds=7,
)
