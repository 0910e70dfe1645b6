"""Movement: the targets of all components, and the moves towards them. Part of the director; pure.

Targets follow from the system's role, from orders (orders.py), and from given-up components; the order of moves is that of
lifecycle.py. A failed hook affects only its component and the dependents that wait for it: all processes go on. It is retried
by the `restart` policy of its backplane (restart.py), and shown with its reason and those dependents. A hook that exceeds its
time limit is shown, too, but not retried while it still runs; if it ends after all, that counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from appbackplane.runtime.objects.module_state import ModuleState
from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import (
    BackplaneError,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    NotFound,
    Unavailable,
)

from . import standing_by
from .child.child import Child
from .child.components import HookFailure
from .child.process import GONE, Phase
from .effects import Effect, Move, Refuse, ReplyToCaller, Say
from .events import Moved, MoveFailed, MoveOrdered
from .lifecycle import HEIGHT, Standing, all_above, dependants, is_there, moves, next_step, targets, waits_for
from .orders import Order, Orders
from .replicas import linked
from .restart import GiveUp, Random, StartAgain

#: How long a reply to a move up is awaited, whatever the hook's own limit: a century, and it fits into a machine word.
LATE_LIMIT_NS = 100 * 365 * 86_400 * 1_000_000_000
#: Before the name of a backplane in an order, where a component may have the same name.
BACKPLANE = "backplane."
#: By `on_give_up`: the highest state allowed to dependents of a given-up component.
_CEILINGS = {
    "secondary": ModuleState.SECONDARY,
    "down": ModuleState.DOWN,
    "shutdown": ModuleState.DOWN,
}


class Movement:
    """All components of a system, as modules of one graph."""

    def __init__(
        self,
        children: Mapping[str, Child],
        role: ModuleState,
        random: Random,
        ceiling: ModuleState = ModuleState.PRIMARY,
    ) -> None:
        self._children = children
        #: The target of the system, and those of components that were ordered elsewhere.
        self.role = role
        self.wanted: dict[str, ModuleState] = {}
        #: The highest state allowed on this node; and the epoch while it is a cluster's primary (standing_by.py).
        self.limit(ceiling)
        #: All backplanes have registered, and the plan has no errors; until then no component moves.
        self.is_planned = False
        #: All components are to go down, whatever was ordered.
        self.is_going_down = False
        self._random = random
        self._orders = Orders()
        self._effects: list[Effect] = []

    # Current states and targets

    def standings(self) -> dict[str, Standing]:
        """The standings of all components of the system, one for each replica."""
        # A backplane reconfigured since it registered may have lost components to others: the others' standings win.
        children = sorted(self._children.values(), key=lambda child: not child.is_past)
        return linked({name: each for child in children for name, each in child.standings().items()})

    def targets(self, standings: Mapping[str, Standing]) -> dict[str, ModuleState]:
        """The target state of each component."""
        if self.is_going_down:
            return dict.fromkeys(standings, ModuleState.DOWN)
        wanted = {name: self._goal(standing) for name, standing in standings.items()}
        ceilings = self._ceilings()
        for child in self._children.values():
            if child.process.phase is Phase.FAILED and child.settings.policy.strategy == "one_for_all":
                ceiling = _CEILINGS[child.settings.policy.on_give_up]
                for name in standings:
                    if HEIGHT[wanted[name]] > HEIGHT[ceiling]:
                        wanted[name] = ceiling
        found = targets(standings, self.role, wanted, ceilings)
        for child in self._children.values():
            if child.departure.is_leaving:
                found |= dict.fromkeys(map(child.node, child.components.states), ModuleState.DOWN)
        return found

    def _goal(self, standing: Standing) -> ModuleState:
        """Its ordered state, or the highest that its node allows."""
        wanted = self.wanted.get(standing.component, self.role)
        return standing_by.highest(self._children[standing.backplane], wanted, self.ceiling)

    def waiting(self) -> dict[str, list[str]]:
        """For each component that rests below or above its target, the nodes that have to move before it."""
        standings = self.standings()
        goals, above = self.targets(standings), dependants(standings)
        return {
            name: waits_for(name, to, standings, goals, above)
            for name, standing in standings.items()
            if standing.is_idle and (to := next_step(standing.state, goals[name])) is not None
        }

    def held_up_by(self, node: str) -> list[str]:
        """Its direct and indirect dependents that are not in their ordered state."""
        standings = self.standings()
        return [
            name
            for name in sorted(all_above({node}, standings) - {node})
            if standings[name].state is not self._goal(standings[name])
        ]

    def failures(self) -> Iterable[tuple[Child, str, HookFailure]]:
        """The (child, component, failure) of all hooks that have failed, or have not ended in time."""
        return [
            (child, name, found)
            for child in self._children.values()
            for name, found in child.components.failures.items()
        ]

    def problems(self) -> list[str]:
        """All current failures, one line each, those that are being retried included."""
        problems = ((child.name, child.problem) for child in self._children.values())
        lines = [f"backplane {name!r}: {problem}" for name, problem in problems if problem is not None]
        for child, name, failure in self.failures():
            held_up = self.held_up_by(child.node(name))
            because = f"; waiting for it: {', '.join(held_up)}" if held_up else ""
            lines.append(f"{told(child, name, failure)}{because}")
        return lines

    def is_settled(self) -> bool:
        """Whether no component moves, or will move without an event, except for later retries."""
        return all(
            child.process.phase in GONE
            or (
                child.process.phase is Phase.UP
                and not child.departure.is_leaving
                and not child.components.is_moving_in_time
            )
            for child in self._children.values()
        )

    def limit(self, ceiling: ModuleState, epoch: int = 0) -> None:
        """Set the highest state allowed on this node, and the epoch while it is its cluster's primary."""
        self.ceiling, self.epoch = ceiling, epoch

    def become(self, role: ModuleState) -> None:
        """Make `role` the target of all components; earlier orders are void."""
        self.role = role
        self.wanted.clear()

    # Events

    def moved(self, child: Child, event: Moved) -> None:
        """Note that a hook has succeeded."""
        to, had_failed = child.components.end_move(event.component)
        if had_failed:
            self._effects.append(Say(f"backplane {child.name!r}: component {event.component!r} is {to.value} now"))

    def failed(self, child: Child, event: MoveFailed, now_ns: int) -> str | None:
        """Note that a hook has raised, and plan a retry or give it up. Returns the reason if the system has to go down."""
        name, components = event.component, child.components
        failure = components.fail_move(name, event.reason, now_ns)
        line = told(child, name, failure)
        if failure.to is ModuleState.DOWN or self.is_going_down:
            self._effects.append(Say(line, is_error=True))
            return None
        verdict = components.judge_failure(name, child.settings.policy, now_ns, self._random)
        if isinstance(verdict, StartAgain):
            when = "now" if verdict.at_ns <= now_ns else f"in {(verdict.at_ns - now_ns) / 1e9:.1f} s"
            self._effects.append(Say(f"{line}; trying it again {when}", is_error=True))
            return None
        return self._give_up(child, name, f"{line}; given up: {verdict.because}", isinstance(verdict, GiveUp))

    def time_passed(self, now_ns: int) -> str | None:
        """Give up hooks that exceeded their time limit. Returns the reason if the system has to go down."""
        for child in self._children.values():
            for name in child.components.overdue(now_ns):
                reason = f"its hook has not ended within {child.settings.start_limit_ns / 1e9:g} s"
                failure = child.components.give_up_hook(name, reason, now_ns)
                because = self._give_up(
                    child, name, told(child, name, failure), child.settings.policy.type != "temporary"
                )
                if because is not None:
                    return because
        return None

    def _give_up(self, child: Child, component: str, line: str, is_told: bool) -> str | None:
        """`is_told`: apply `on_give_up`: its dependents are lowered (and named in the log), or the system goes down."""
        if is_told and child.settings.policy.on_give_up == "shutdown":
            return line
        self._effects.append(Say(line + (self.consequence(child, [component]) if is_told else ""), is_error=True))
        return None

    def consequence(self, child: Child, components: Iterable[str]) -> str:
        """The part of the log line that names the dependents lowered by a give-up; "": there are none."""
        standings = self.standings()
        ceiling, goals = _CEILINGS[child.settings.policy.on_give_up], self.targets(standings)
        nodes = set(map(child.node, components))
        if child.settings.policy.strategy == "one_for_all" and child.process.phase is Phase.FAILED:
            above = set(standings)
        else:
            above = all_above(nodes, standings)
        lowered = sorted(
            name for name in above - nodes if standings[name].holds > HEIGHT[ceiling] >= HEIGHT[goals[name]]
        )
        return f"; dependents lowered to {ceiling.value}: {', '.join(lowered)}" if lowered else ""

    # Orders

    def order(self, event: MoveOrdered, now_ns: int) -> None:
        """Accept a client's order, or refuse it with an error."""
        try:
            if self.is_going_down:
                raise Unavailable("the system is going down")
            components, what = self._named(event.name)
            self._orders.add(Order(event.caller, event.to, components, what, now_ns + event.limit_ns))
        except BackplaneError as error:
            self._effects.append(Refuse(event.caller, error))

    def _named(self, name: str | None) -> tuple[tuple[str, ...] | None, str]:
        """The components that an order is for (None: all), and its target in words. Raises `NotFound`.

        Where a component and a backplane have the same name, it is the component's; `backplane.NAME` is always a backplane's.
        """
        if name is None:
            return None, "the system"
        known = {standing.component for standing in self.standings().values()}
        if name in known:
            return (name,), f"component {name!r}"
        backplane = name.removeprefix(BACKPLANE)
        homes = [child for child in self._children.values() if backplane in (child.name, child.settings.replica_of)]
        if any(child.settings.replica_of not in (None, backplane) for child in homes):
            raise FailedPrecondition(
                f"{backplane!r} is a replica of {homes[0].settings.replica_of!r}: move that, or scale it"
            )
        if homes:
            return tuple(
                sorted({each for child in homes for each in child.components.states})
            ), f"backplane {backplane!r}"
        known |= {child.name for child in self._children.values()}
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(known)) or 'none yet'}"
        raise NotFound(f"no component or backplane {name!r} ({hint})")

    def refuse_orders(self) -> None:
        """Refuse all orders, because the system goes down."""
        for order in self._orders:
            self._refuse(order, Unavailable("the system is going down"))

    def wakes_at_ns(self) -> int | None:
        """When the next time limit of a hook or order ends, or the next retry is due; None: never."""
        waits = [due_ns for child in self._children.values() for due_ns in child.components.hooks_due_ns.values()]
        waits += [failure.retry_ns for _, _, failure in self.failures() if failure.retry_ns is not None]
        if (ends_ns := self._orders.wakes_at_ns()) is not None:
            waits.append(ends_ns)
        return min(waits, default=None)

    # Consequences

    def advance(self, now_ns: int) -> list[Effect]:
        """Begin and end all orders and moves that are possible now. Returns all effects since the last call."""
        for child in self._children.values():
            child.components.begin_retries(now_ns)
        while True:
            begun = self.is_planned and self._begin_orders()
            if self.is_planned or self.is_going_down:
                self._begin_moves(now_ns)
            ended = self._end_orders(now_ns)
            if not (begun or ended):
                break
        effects, self._effects = self._effects, []
        return effects

    def _begin_moves(self, now_ns: int) -> None:
        standings = self.standings()
        for name, to in moves(standings, self.targets(standings)):
            child, component = self._children[standings[name].backplane], standings[name].component
            if child.drain.is_pending:
                continue
            limit_ns, due_ns = child.settings.stop_limit_ns, None
            if to is not ModuleState.DOWN:
                limit_ns, due_ns = LATE_LIMIT_NS, now_ns + child.settings.start_limit_ns
            child.components.begin_move(component, to, due_ns)
            self._effects.append(Move(child.name, child.process.generation, component, to.value, limit_ns, self.epoch))

    def _begin_orders(self) -> bool:
        has_begun = False
        while (order := self._orders.next_to_begin()) is not None:
            has_begun = True
            try:
                self._begin(order)
            except BackplaneError as error:
                self._refuse(order, error)
        return has_begun

    def _begin(self, order: Order) -> None:
        """Set the target of an order. Raises `FailedPrecondition` if it cannot be reached, `NotFound`."""
        standings = self.standings()
        if order.components is None:
            self.become(order.to)
        else:
            self._want(order.components, order.to, standings)
        for name in self._concerned(order, standings):
            self._children[standings[name].backplane].components.forget_failure(standings[name].component)

    def _want(self, components: Iterable[str], to: ModuleState, standings: Mapping[str, Standing]) -> None:
        before = dict(self.wanted)
        self.wanted |= dict.fromkeys(components, to)
        try:
            for component in components:
                self._check(component, to, standings)
        except BackplaneError:
            self.wanted = before
            raise

    def _check(self, component: str, to: ModuleState, standings: Mapping[str, Standing]) -> None:
        """Raise `FailedPrecondition` if the component cannot reach `to`, `NotFound` if it is not there any more."""
        if not _nodes((component,), standings):
            raise NotFound(f"component {component!r} has been removed from the configuration")
        homes = {name: self._children[standings[name].backplane] for name in _nodes((component,), standings)}
        if to is not ModuleState.DOWN and all(child.process.phase in GONE for child in homes.values()):
            child = next(iter(homes.values()))
            raise FailedPrecondition(f"backplane {child.name!r} of component {component!r}: {child.history.reason}")
        goals, ceilings = self.targets(standings), self._ceilings()
        there = [name for name, child in homes.items() if child.process.phase not in GONE] or homes
        if any(homes[name].departure.is_leaving or HEIGHT[goals[name]] >= HEIGHT[to] for name in there):
            return
        if any(standing_by.highest(child, to, self.ceiling) is not to for child in homes.values()):
            raise FailedPrecondition(f"{component!r} cannot be {to.value}: this node is secondary in its cluster")
        for other in dict.fromkeys(other for name in homes for other in standings[name].depends_on):
            for bound in (goals.get(other), ceilings.get(other)):
                if bound is not None and HEIGHT[bound] < HEIGHT[to]:
                    why = f"it depends on {other!r}, {_keeps(other, bound, ceilings)}"
                    raise FailedPrecondition(f"{component!r} cannot be {to.value}: {why}")
        raise FailedPrecondition(f"{component!r} cannot be {to.value}: {'; '.join(self.problems())}")

    def _ceilings(self) -> dict[str, ModuleState]:
        found: dict[str, ModuleState] = {}
        for child in self._children.values():
            ceiling = _CEILINGS[child.settings.policy.on_give_up]
            if child.process.phase is Phase.FAILED:
                found |= dict.fromkeys(map(child.node, child.components.states), ceiling)
            elif child.settings.policy.type != "temporary":
                found |= {
                    child.node(name): ceiling
                    for name, failure in child.components.failures.items()
                    if failure.is_given_up
                }
        return found

    def _end_orders(self, now_ns: int) -> bool:
        ended = self._orders.overdue(now_ns)
        for order in ended:
            self._refuse(order, DeadlineExceeded(self._late(order)))
        for order in self._orders.begun():
            standings = self.standings()
            concerned = self._concerned(order, standings)
            try:
                if failed := [told(*each) for each in self.failures() if each[0].node(each[1]) in concerned]:
                    raise InternalError("\n".join(failed))
                for component in order.components or ():
                    self._check(component, order.to, standings)
            except BackplaneError as error:
                self._refuse(order, error)
                ended.append(order)
                continue
            if self._is_done(order, standings, concerned):
                states = {name: standings[name].state.value for name in standings if name in concerned}
                self._effects.append(ReplyToCaller(order.caller, {"components": states}))
                self._orders.end(order)
                ended.append(order)
        return bool(ended)

    def _is_done(self, order: Order, standings: Mapping[str, Standing], concerned: set[str]) -> bool:
        """Whether all ordered components are at their targets, and neither they nor their dependents move."""
        homes = {name: self._children[standings[name].backplane] for name in concerned}
        is_above = order.components is None and HEIGHT[order.to] > HEIGHT[self.ceiling]  # another node is primary
        moving = any(standings[name].moving_to is not None for name in concerned)
        if is_above or moving or any(home.departure.is_leaving for home in homes.values()):
            return False
        goals = self.targets(standings)
        ordered = concerned if order.components is None else _nodes(order.components, standings)
        return all(homes[name].process.phase in GONE or is_there(standings[name], goals[name]) for name in ordered)

    def _concerned(self, order: Order, standings: Mapping[str, Standing]) -> set[str]:
        return set(standings) if order.components is None else all_above(_nodes(order.components, standings), standings)

    def _late(self, order: Order) -> str:
        standings, waiting = self.standings(), self.waiting()
        behind = []
        for name in sorted(self._concerned(order, standings)):
            standing = standings[name]
            if standing.moving_to is not None:
                behind.append(f"{name!r} is still in its hook of {standing.moving_to.value}")
            elif not standing.is_reachable:
                behind.append(f"backplane {standing.backplane!r} of {name!r} is not up")
            elif waiting.get(name):
                behind.append(f"{name!r} waits for {', '.join(waiting[name])}")
        return f"{order.what} is not {order.to.value} yet, and the move goes on: {'; '.join(behind) or 'it has just begun'}"

    def _refuse(self, order: Order, error: BackplaneError) -> None:
        self._effects.append(Refuse(order.caller, error))
        self._orders.end(order)


def told(child: Child, component: str, failure: HookFailure) -> str:
    """The log line for a failed hook."""
    return f"backplane {child.name!r}: component {component!r} did not become {failure.to.value}: {failure.reason}"


def _nodes(components: Collection[str], standings: Mapping[str, Standing]) -> list[str]:
    """The nodes of some components: for each of them one, or one for each replica."""
    return [name for name, standing in standings.items() if standing.component in components]


def _keeps(component: str, bound: ModuleState, given_up: Mapping[str, ModuleState]) -> str:
    return "which was given up" if component in given_up else f"which is to be {bound.value}: move that first"
