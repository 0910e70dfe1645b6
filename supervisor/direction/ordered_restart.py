"""Ordered restart: restarts the backplanes that a client names, one after the other. Part of the director; pure.

A living backplane is drained, its components go down, its process exits and is started again (`begin`). One that had ended,
or was given up, is started with a new history. An ordered restart is no failure, so it does not count towards the restart
intensity. Failures of the new process are judged as usual (restart.py). An order ends when all its backplanes have reached
their targets, at the first one that fails, or at its time limit. Orders are serialised per target only: two for one backplane
are carried out one after the other, all others at the same time. For a rolling order, rolling.py decides the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    InternalError,
    NotFound,
    Unavailable,
)

from . import draining, group_restart
from .child.child import Child
from .child.process import GONE, Phase
from .effects import Caller, Effect, Kill, Refuse, ReplyToCaller, Say
from .events import RestartOrdered
from .movement import Movement, told
from .orders import ORDERS_MAX
from .rolling import Begin, Rolling, RollingStop, Wait


@dataclass(slots=True)
class RestartOrder:
    """One order and its progress, until it has ended."""

    caller: Caller
    #: The ordered backplanes, restarted in this order.
    backplanes: tuple[str, ...]
    #: These, and those that their strategies name.
    concerned: tuple[str, ...]
    ends_ns: int
    is_now: bool
    #: How many of `backplanes` are done.
    done_count: int = 0
    #: The generation of the current backplane before its restart; None: that has not begun.
    old_generation: int | None = None
    rolling: Rolling | None = None
    #: When a rolling order has to be advanced again.
    looks_at_ns: int | None = None

    @property
    def begun(self) -> str | None:
        """The backplane that is being restarted; None: none is."""
        if self.rolling is not None:
            return self.rolling.present
        return None if self.old_generation is None else self.present

    @property
    def present(self) -> str:
        return self.backplanes[self.done_count]


class OrderedRestarts:
    """The orders that have not ended, oldest first; `ORDERS_MAX` at most."""

    def __init__(self, children: Mapping[str, Child], movement: Movement) -> None:
        self._children, self._movement = children, movement
        self.orders: list[RestartOrder] = []
        self._effects: list[Effect] = []

    def order(self, event: RestartOrdered, now_ns: int, *, is_going_down: bool) -> list[Effect]:
        """Accept an order, or refuse it with `Unavailable`, `NotFound`, `FailedPrecondition` or `Busy`."""
        try:
            if is_going_down:
                raise Unavailable("the system is going down")
            names, concerned = self._names(event), self.concerned(event)
            rolling = Rolling(self._children, names, is_forced=event.is_forced) if event.is_rolling else None
            if len(self.orders) >= ORDERS_MAX:
                raise Busy(f"{ORDERS_MAX} orders to restart have not ended yet", retry_after=1.0)
        except BackplaneError as error:
            return [Refuse(event.caller, error)]
        order = RestartOrder(event.caller, names, concerned, now_ns + event.limit_ns, event.is_now, rolling=rolling)
        self.orders.append(order)
        return []

    def concerned(self, event: RestartOrdered) -> tuple[str, ...]:
        """The backplanes that this order would restart, including those that their strategies name. Raises `NotFound`."""
        names = self._names(event)
        if event.is_rolling:
            return names
        others = [group_restart.others_of(self._children, self._children[name]) for name in names]
        return tuple(dict.fromkeys((*names, *(other.name for group in others for other in group))))

    def advance(self, now_ns: int) -> list[Effect]:
        """Begin and end all restarts that are possible now. Returns all effects since the last call."""
        is_settled = False
        while not is_settled:  # an order that ends may have been in the way of an older one
            is_settled = True
            for order in tuple(self.orders):
                while order in self.orders and self._advance(order, now_ns):
                    is_settled = False
        effects, self._effects = self._effects, []
        return effects

    def refuse_all(self) -> list[Effect]:
        """Refuse all orders with `Unavailable`, because the system goes down."""
        refused: list[Effect] = [Refuse(order.caller, Unavailable("the system is going down")) for order in self.orders]
        self.orders.clear()
        return refused

    def wakes_at_ns(self) -> int | None:
        """When the next time limit ends or the next rolling order has to be advanced; None: never."""
        waits = [order.ends_ns for order in self.orders]
        waits += [order.looks_at_ns for order in self.orders if order.looks_at_ns is not None]
        return min(waits, default=None)

    def _names(self, event: RestartOrdered) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for word in event.backplanes for name in self._meant(word)))

    def _meant(self, word: str) -> list[str]:
        """The named backplane, or all replicas of that common name. Raises `NotFound`."""
        there = [child for child in self._children.values() if not child.departure.is_removed]
        alike = [child.name for child in there if child.settings.replica_of == word]
        if not alike and self._is_removed(word):
            known = [*(c.name for c in there), *dict.fromkeys(filter(None, (c.settings.replica_of for c in there)))]
            near = nearest(word, known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(known))}"
            raise NotFound(f"no backplane {word!r} ({hint})")
        return alike or [word]

    def _roll(self, order: RestartOrder, rolling: Rolling, now_ns: int) -> bool:
        """`_advance` for a rolling order."""
        older = self.orders[: self.orders.index(order)]
        if any(one.rolling is not None and one.rolling.touches(rolling) for one in older):
            return False
        step, order.looks_at_ns = rolling.step(now_ns), None
        if isinstance(step, Begin):
            self._effects += begin(self._children, self._children[step.backplane], now_ns, is_alone=True)
            return True
        if isinstance(step, Wait):
            order.looks_at_ns = step.until_ns
            return False
        if isinstance(step, RollingStop):
            self._refuse(order, InternalError(step.because))
        else:
            self._answer(order)
        return True

    def _advance(self, order: RestartOrder, now_ns: int) -> bool:
        """Take one step of an order; True: call it again, if the order has not ended."""
        if gone := [name for name in order.backplanes[order.done_count :] if self._is_removed(name)]:
            self._refuse(order, NotFound(f"backplane {gone[0]!r} has been removed from the configuration"))
            return True
        if order.ends_ns <= now_ns:
            self._refuse(order, DeadlineExceeded(self._late(order)))
            return True
        if order.rolling is not None:
            return self._roll(order, order.rolling, now_ns)
        child = self._children[order.present]
        if order.old_generation is None:
            if self._is_in_the_way(order, child):
                return False
            order.old_generation = child.process.generation
            self._effects += begin(self._children, child, now_ns, is_now=order.is_now)
        elif child.process.generation == order.old_generation or child.departure.is_leaving:
            return False
        elif child.process.phase in GONE:
            self._refuse(order, InternalError(f"backplane {child.name!r}: {child.history.reason}"))
        elif failed := [told(child, name, failure) for name, failure in child.components.failures.items()]:
            self._refuse(order, InternalError("; ".join(failed)))
        elif not child.has_reached(self._movement.targets(self._movement.standings())):
            return False
        else:
            order.done_count, order.old_generation = order.done_count + 1, None
            if order.done_count == len(order.backplanes):
                self._answer(order)
        return True

    def _answer(self, order: RestartOrder) -> None:
        there = [self._children[name] for name in order.backplanes if name in self._children]
        generations = {child.name: child.process.generation for child in there}
        unfinished = draining.unfinished(self._children[name] for name in order.concerned if name in self._children)
        self._effects.append(ReplyToCaller(order.caller, {"backplanes": generations, "unfinished": unfinished}))
        self.orders.remove(order)

    def _is_removed(self, name: str) -> bool:
        return name not in self._children or self._children[name].departure.is_removed

    def _is_in_the_way(self, order: RestartOrder, child: Child) -> bool:
        """Whether another order restarts it, or it is leaving for another reason."""
        return child.departure.is_leaving or any(one.begun == order.present for one in self.orders if one is not order)

    def _refuse(self, order: RestartOrder, error: BackplaneError) -> None:
        left = order.backplanes[order.done_count :] if order.rolling is None else order.rolling.left()
        left = [name for name in left if name != order.begun and not self._is_removed(name)]
        how_many = f" ({len(left)} of {len(order.backplanes)} are unchanged)" if order.rolling is not None else ""
        if left:
            error.message += f"; not restarted: {', '.join(left)}{how_many}"
        self._effects.append(Refuse(order.caller, error))
        self.orders.remove(order)

    def _late(self, order: RestartOrder) -> str:
        if order.rolling is not None and order.begun is None:
            return "no replica restarted yet: another replica is not up, or another restart has not ended"
        child = self._children[order.begun or order.present]
        who = f"backplane {child.name!r}"
        if order.begun is None:
            return f"{who} is not restarted yet: an earlier restart of it has not ended"
        waiting = self._movement.waiting()
        behind = [f"{name!r} is still in its hook of {to.value}" for name, to in child.components.moving.items()]
        behind += [
            f"{name!r} waits for {', '.join(waiting[name])}" for name in child.components.states if waiting.get(name)
        ]
        if not child.process.is_movable or child.process.generation == order.old_generation:
            behind = [f"it is {child.process.phase.value}"]
        return f"{who} is not up again yet, and its restart goes on: {'; '.join(behind) or 'it has just begun'}"


def begin(
    children: Mapping[str, Child], child: Child, now_ns: int, *, is_now: bool = False, is_alone: bool = False
) -> list[Effect]:
    """Restart `child`, and (unless `is_alone`) those that its strategy names, in order. It must not be leaving already."""
    child.departure.order()
    child.drain.forget_unfinished()
    if not child.process.is_living:
        child.forget_restarts()
        child.departure.spawn_after(frozenset())
        child.process.enter(Phase.WAITING, now_ns, now_ns)
        return [Say(f"backplane {child.name!r}: ordered to start")]
    others = group_restart.begin_ordered(children, child, now_ns, is_alone=is_alone)
    with_whom = (
        f", and with it {', '.join(one.name for one in others)} ({child.settings.policy.strategy})" if others else ""
    )
    effects: list[Effect] = [Say(f"backplane {child.name!r}: ordered to restart{with_whom}")]
    for one in (child, *others):
        if is_now or one.process.phase is Phase.STARTING:  # a starting one has no callers yet
            one.kill("killed: ordered to restart at once", now_ns)
            one.drain.forget_unfinished()
            effects.append(Kill(one.name, one.process.generation))
        else:
            draining.order(one)
            draining.limit_hooks(one, now_ns)
    return effects
