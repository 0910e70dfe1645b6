"""Applications: one component class that runs in every architecture. Only the TOMLs beside this file differ.

An application says what its work is; who runs it, one thread for all or a pool or a process of its own, is for the TOML
to say (seed 002, "Conceptual Model"). So that this can be seen from outside, every answer names the process and the
thread that served it, and when. `Orders`, `Billing` and `Alerts` are the same class under three names, because names of
components and with them routes are unique in a system.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from enum import Enum
from typing import TypedDict

from appbackplane.runtime import AppObject, Component, StateMachine, operation


class Served(TypedDict):
    """Who did a piece of work, and when: monotonic ns, which all processes of one host share."""

    application: str
    object: str
    process: int
    thread: int
    began_ns: int
    ended_ns: int
    state: str


class Threads(TypedDict):
    """The threads that have served an application so far, and how often."""

    process: int
    served: dict[str, int]


class Tally:
    """Counts by thread. No lock: each object has its own, and its actions run one at a time (law 1)."""

    def __init__(self) -> None:
        self.by_thread: Counter[int] = Counter()

    def serve(self, object: AppObject, seconds: float, state: str = "") -> Served:
        """Do a piece of work that blocks its thread, as a library that knows no `await` would."""
        began_ns, thread = time.monotonic_ns(), threading.get_native_id()
        self.by_thread[thread] += 1
        time.sleep(seconds)
        return Served(
            application=object.name.partition("/")[2].partition(".")[0],
            object=object.name,
            process=os.getpid(),
            thread=thread,
            began_ns=began_ns,
            ended_ns=time.monotonic_ns(),
            state=state,
        )


class Desk(AppObject):
    """One place at which an application works."""

    def __init__(self) -> None:
        self.tally = Tally()

    @operation(priority=1)
    def where(self) -> Served:
        """Which process and thread serve."""
        return self.tally.serve(self, 0.0)

    @operation(priority=4)
    def work(self, seconds: float = 0.05) -> Served:
        """Work for so long, blocking the thread that serves."""
        return self.tally.serve(self, seconds)


class Stage(Enum):
    """Where a ticket is."""

    NEW = "new"
    PAID = "paid"
    SHIPPED = "shipped"


class Ticket(StateMachine):
    """One of many: an order that is paid, then shipped. A shipment that is asked for too early waits for the payment."""

    initial = Stage.NEW

    def __init__(self) -> None:
        self.tally = Tally()

    @operation(priority=4, accepted_in=(Stage.NEW,))
    def pay(self, seconds: float = 0.0) -> Served:
        """NEW becomes PAID; a second payment is refused."""
        self.become(Stage.PAID)
        return self.tally.serve(self, seconds, str(self.state.value))

    @operation(priority=4, accepted_in=(Stage.PAID,), otherwise="defer")
    def ship(self, seconds: float = 0.0) -> Served:
        """PAID becomes SHIPPED."""
        self.become(Stage.SHIPPED)
        return self.tally.serve(self, seconds, str(self.state.value))


class Application(Component):
    """`desks`: places that work at the same time, if there are threads for them. `tickets`: state machines, by number."""

    def __init__(self, desks: int = 1, tickets: int = 0) -> None:
        self._desks = [Desk() for _ in range(desks)]
        self._tickets = [Ticket() for _ in range(tickets)]

    def setup(self) -> None:
        """Desks are anybody's, a ticket has its number."""
        for desk in self._desks:
            self.add(desk)
        for number, ticket in enumerate(self._tickets):
            self.add(ticket, key=f"ticket-{number}")

    @operation(priority=1)
    def threads(self) -> Threads:
        """The threads that have served at desks and tickets."""
        total: Counter[int] = Counter()
        places: list[Desk | Ticket] = [*self._desks, *self._tickets]
        for place in places:
            total += place.tally.by_thread
        return Threads(process=os.getpid(), served={str(thread): count for thread, count in total.items()})


class Orders(Application):
    """An application."""


class Billing(Application):
    """The same, under another name."""


class Alerts(Application):
    """And a third."""
