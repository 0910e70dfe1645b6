"""Orders: moves that clients have ordered and wait for, serialised per target only.

Two orders with a component in common are carried out in the order in which they came; all others at the same time, so no client
gets `Busy` because of another's target. Each ends at its time limit at the latest. An order changes its target for good, even
if its client has gone; the limit ends only the wait. Pure; `Movement` asks which order to begin, and reports which are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.errors import Busy

from .effects import Caller

#: Bound of orders that wait or are being carried out. A person gives one at a time; only a script that does not wait for
#: their ends gives more than this.
ORDERS_MAX = 64


@dataclass(slots=True)
class Order:
    """One ordered move and its caller, until it has ended."""

    caller: Caller
    to: ModuleState
    #: None: the whole system.
    components: tuple[str, ...] | None
    #: Its target, in words.
    what: str
    ends_ns: int
    has_begun: bool = False

    def is_in_the_way_of(self, other: Order) -> bool:
        """Whether both move a component, or one is for the whole system."""
        return (
            self.components is None or other.components is None or not set(self.components).isdisjoint(other.components)
        )


class Orders:
    """The orders that have not ended, oldest first; `ORDERS_MAX` at most."""

    def __init__(self) -> None:
        self._orders: list[Order] = []

    def add(self, order: Order) -> None:
        """Add an order. Raises `Busy` at `ORDERS_MAX`."""
        if len(self._orders) >= ORDERS_MAX:
            raise Busy(f"{ORDERS_MAX} orders to move have not ended yet", retry_after=1.0)
        self._orders.append(order)

    def next_to_begin(self) -> Order | None:
        """The oldest order without an older one in its way, marked as begun; None: there is none."""
        for number, order in enumerate(self._orders):
            if not order.has_begun and not any(older.is_in_the_way_of(order) for older in self._orders[:number]):
                order.has_begun = True
                return order
        return None

    def begun(self) -> list[Order]:
        """The orders that are being carried out."""
        return [order for order in self._orders if order.has_begun]

    def end(self, order: Order) -> None:
        """Remove an order that is done, refused, or past its time limit."""
        self._orders.remove(order)

    def overdue(self, now_ns: int) -> list[Order]:
        """The orders past their time limit."""
        return [order for order in self._orders if order.ends_ns <= now_ns]

    def wakes_at_ns(self) -> int | None:
        """The nearest time limit; None: there is no order."""
        return min((order.ends_ns for order in self._orders), default=None)

    def __iter__(self) -> Iterator[Order]:
        return iter(tuple(self._orders))
