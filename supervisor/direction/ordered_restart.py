"""Ordered restart: backplanes that somebody wants started again, one after the other. Part of the director, as pure.

One that lives is drained, its components go down, its process ends and is started again (`begin`: the entry for whoever
restarts a child in order); one that had ended, or was given up, is started with a fresh history. That counts for no
restart intensity, since nothing has failed. What happens to the new process is judged as ever (restart.py). An order ends
once all its backplanes are where they are to be, at the first that is not, or at its limit. Orders wait for their target
only: two for one backplane are carried out one after the other, all others at the same time.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    DeadlineExceeded,
    InternalError,
    NotFound,
    Unavailable,
)

from . import draining, group_restart
from .child import Child, Phase
from .effects import Answer, Caller, Effect, Kill, Refuse, Say
from .events import RestartOrdered
from .movement import Movement, told
from .orders import ORDERS_MAX
from .restart import RestartHistory

_GONE = (Phase.FAILED, Phase.ENDED)


@dataclass(slots=True)
class RestartOrder:
    """One order, from when it was given."""

    caller: Caller
    #: In this order.
    backplanes: tuple[str, ...]
    ends_ns: int
    is_now: bool
    #: How many are done.
    done_count: int = 0
    #: The generation that the present one had when its turn came; None: it has not come.
    old_generation: int | None = None

    @property
    def present(self) -> str:
        return self.backplanes[self.done_count]


class OrderedRestarts:
    """Those that have not ended, oldest first."""

    def __init__(self, children: Mapping[str, Child], movement: Movement) -> None:
        self._children, self._movement = children, movement
        self._orders: list[RestartOrder] = []
        self._effects: list[Effect] = []

    def order(self, event: RestartOrdered, now_ns: int, *, is_going_down: bool) -> list[Effect]:
        """Take one in, or refuse it."""
        try:
            if is_going_down:
                raise Unavailable("the system is going down")
            for name in event.backplanes:
                if name not in self._children:
                    near = difflib.get_close_matches(name, self._children, n=1)
                    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(self._children))}"
                    raise NotFound(f"no backplane {name!r} ({hint})")
            if len(self._orders) >= ORDERS_MAX:
                raise Busy(f"{ORDERS_MAX} orders to restart have not ended yet", retry_after=1.0)
        except BackplaneError as error:
            return [Refuse(event.caller, error)]
        self._orders.append(RestartOrder(event.caller, event.backplanes, now_ns + event.limit_ns, event.is_now))
        return []

    def advance(self, now_ns: int) -> list[Effect]:
        """Everything that can be begun or ended now."""
        for order in tuple(self._orders):
            while order in self._orders and self._advance(order, now_ns):
                pass
        effects, self._effects = self._effects, []
        return effects

    def refuse_all(self) -> list[Effect]:
        """The system goes down."""
        refused: list[Effect] = [
            Refuse(order.caller, Unavailable("the system is going down")) for order in self._orders
        ]
        self._orders.clear()
        return refused

    def wakes_at_ns(self) -> int | None:
        """When the next one runs out."""
        return min((order.ends_ns for order in self._orders), default=None)

    def _advance(self, order: RestartOrder, now_ns: int) -> bool:
        """Whether there may be more to do."""
        child = self._children.get(order.present)
        if child is None:
            self._refuse(order, NotFound(f"backplane {order.present!r} is gone: the configuration has changed"))
        elif order.ends_ns <= now_ns:
            self._refuse(order, DeadlineExceeded(self._late(order, child)))
        elif order.old_generation is None:
            if self._is_in_the_way(order, child):
                return False
            order.old_generation = child.generation
            self._effects += begin(self._children, child, now_ns, is_now=order.is_now)
        elif child.generation == order.old_generation or child.is_leaving:
            return False
        elif child.phase in _GONE:
            self._refuse(order, InternalError(f"backplane {child.name!r}: {child.reason}"))
        elif failed := [told(child, name, failure) for name, failure in child.failures.items()]:
            self._refuse(order, InternalError("; ".join(failed)))
        elif not child.has_reached(self._movement.targets(self._movement.standings())):
            return False
        else:
            order.done_count, order.old_generation = order.done_count + 1, None
            if order.done_count == len(order.backplanes):
                there = [self._children[name] for name in order.backplanes if name in self._children]
                generations = {child.name: child.generation for child in there}
                self._effects.append(Answer(order.caller, {"backplanes": generations}))
                self._orders.remove(order)
        return True

    def _is_in_the_way(self, order: RestartOrder, child: Child) -> bool:
        """It is being restarted by another order, or goes down with another that died."""
        others = (one for one in self._orders if one is not order and one.old_generation is not None)
        return child.is_leaving or any(one.present == order.present for one in others)

    def _refuse(self, order: RestartOrder, error: BackplaneError) -> None:
        left = order.backplanes[order.done_count + (order.old_generation is not None) :]
        if left:
            error.message += f"; not restarted: {', '.join(left)}"
        self._effects.append(Refuse(order.caller, error))
        self._orders.remove(order)

    def _late(self, order: RestartOrder, child: Child) -> str:
        who = f"backplane {child.name!r}"
        if order.old_generation is None:
            return f"{who} is not restarted: it waits for another restart of it to end"
        waiting = self._movement.waiting()
        behind = [f"{name!r} is still in its hook of {to.value}" for name, to in child.moving.items()]
        behind += [f"{name!r} waits for {', '.join(waiting[name])}" for name in child.states if waiting.get(name)]
        if not child.is_movable or child.generation == order.old_generation:
            behind = [f"it is {child.phase.value}"]
        return f"{who} is not up again yet, and goes on: {'; '.join(behind) or 'it has just begun'}"


def begin(children: Mapping[str, Child], child: Child, now_ns: int, *, is_now: bool = False) -> list[Effect]:
    """Restart `child`, and those that its strategy names, in order. Not while it is leaving."""
    child.is_ordered = True
    if not child.is_living:
        child.history, child.hook_histories = RestartHistory(), {}
        child.spawns_after = frozenset()
        child.enter(Phase.WAITING, now_ns, now_ns)
        return [Say(f"backplane {child.name!r}: ordered to start")]
    others = group_restart.begin_ordered(children, child, now_ns)
    with_whom = f", and with it {', '.join(one.name for one in others)} ({child.policy.strategy})" if others else ""
    effects: list[Effect] = [Say(f"backplane {child.name!r}: ordered to restart{with_whom}")]
    for one in (child, *others):
        if is_now or one.phase is Phase.STARTING:  # that serves nobody yet
            one.reason = "killed: ordered to restart at once"
            one.enter(Phase.KILLED, now_ns)
            effects.append(Kill(one.name, one.generation))
        else:
            draining.order(one)
            draining.limit_hooks(one, now_ns)
    return effects
