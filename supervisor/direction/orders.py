"""Orders: moves that clients have asked for and wait for, serialised for their target only.

Two orders for one component, or one for a component and one for the whole system, are carried out one after the other, in
the order in which they came; all others at the same time: nobody hears "busy" because of somebody else. Each ends, by its
limit at the latest. An order sets where its target is to be, and that holds after whoever gave it is gone; waiting for it
is all that can run out. Pure; the director asks it what to begin, and tells what is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.errors import Busy

from .effects import Caller

#: Orders that wait or are being carried out, at one time. A person gives one; a script that gives more than these does
#: not wait for their ends.
ORDERS_MAX = 64


@dataclass(slots=True)
class Order:
    """One move, from when it was asked for."""

    caller: Caller
    to: ModuleState
    #: None: the whole system.
    component: str | None
    ends_ns: int
    has_begun: bool = False

    def is_in_the_way_of(self, other: Order) -> bool:
        """Whether they concern one target."""
        return self.component is None or other.component is None or self.component == other.component


class Orders:
    """Those that have not ended, oldest first."""

    def __init__(self) -> None:
        self._orders: list[Order] = []

    def add(self, order: Order) -> None:
        """Take one in. Raises `Busy`."""
        if len(self._orders) >= ORDERS_MAX:
            raise Busy(f"{ORDERS_MAX} orders to move have not ended yet", retry_after=1.0)
        self._orders.append(order)

    def next_to_begin(self) -> Order | None:
        """One that nothing older is in the way of; it has begun then."""
        for number, order in enumerate(self._orders):
            if not order.has_begun and not any(older.is_in_the_way_of(order) for older in self._orders[:number]):
                order.has_begun = True
                return order
        return None

    def begun(self) -> list[Order]:
        """Those that are being carried out."""
        return [order for order in self._orders if order.has_begun]

    def end(self, order: Order) -> None:
        """It is done, refused, or has run out."""
        self._orders.remove(order)

    def overdue(self, now_ns: int) -> list[Order]:
        """Those that nobody waits for any more."""
        return [order for order in self._orders if order.ends_ns <= now_ns]

    def wakes_at_ns(self) -> int | None:
        """When the next one runs out."""
        return min((order.ends_ns for order in self._orders), default=None)

    def __iter__(self) -> Iterator[Order]:
        return iter(tuple(self._orders))
