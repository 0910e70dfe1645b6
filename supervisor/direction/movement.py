"""Movement: the targets of all components, and the moves towards them. Part of the director; pure.

Targets follow from the system's role, from orders (orders.py), and from given-up components; the order of moves is that of
lifecycle.py. A failed hook affects only its component and the dependents that wait for it: all processes go on. It is retried
by the `restart` policy of its backplane (restart.py), and shown with its reason and those dependents. A hook that exceeds its
time limit is shown, too, but not retried while it still runs; if it ends after all, that counts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from appbackplane.runtime.objects.module_state import ModuleState
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
from .child.drain import DrainPhase
from .child.process import Phase
from .effects import Effect, Move, Refuse, ReplyToCaller, Say
from .events import Moved, MoveFailed, MoveOrdered
from .lifecycle import HEIGHT, Standing, all_above, dependants, is_there, moves, next_step, targets, waits_for
from .orders import Order, Orders
from .replicas import linked
from .restart import GiveUp, Random, RestartHistory, StartAgain, after_failure

#: How long a reply to a move up is awaited, whatever the hook's own limit: a century, and it fits into a machine word.
LATE_LIMIT_NS = 100 * 365 * 86_400 * 1_000_000_000
#: By `on_give_up`: the highest state allowed to dependents of a given-up component.
_CEILINGS = {
    "secondary": ModuleState.SECONDARY,
    "down": ModuleState.DOWN,
    "shutdown": ModuleState.DOWN,
}
#: Phases without a process, in which none is to be started.
_GONE = (Phase.FAILED, Phase.ENDED)


class Movement:
    """All components of a system, as modules of one graph."""

    def __init__(self, children: Mapping[str, Child], role: ModuleState, random: Random) -> None:
        self._children = children
        #: The target of the system, and those of components that were ordered elsewhere.
        self.role = role
        self.wanted: dict[str, ModuleState] = {}
        #: The highest state allowed on this node; and the epoch while it is a cluster's primary (standing_by.py).
        self.ceiling, self.epoch = ModuleState.PRIMARY, 0
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
            if child.phase is Phase.FAILED and child.policy.strategy == "one_for_all":
                ceiling = _CEILINGS[child.policy.on_give_up]
                for name in standings:
                    if HEIGHT[wanted[name]] > HEIGHT[ceiling]:
                        wanted[name] = ceiling
        found = targets(standings, self.role, wanted, ceilings)
        for child in self._children.values():
            if child.is_leaving:
                found |= dict.fromkeys(map(child.node, child.states), ModuleState.DOWN)
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
        return [(child, name, found) for child in self._children.values() for name, found in child.failures.items()]

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
            (child.phase is Phase.UP and not child.is_leaving and not child.hooks_due_ns and not _falls(child))
            or child.phase in _GONE
            for child in self._children.values()
        )

    def become(self, role: ModuleState) -> None:
        """Make `role` the target of all components; earlier orders are void."""
        self.role = role
        self.wanted.clear()

    # Events

    def moved(self, child: Child, event: Moved, now_ns: int) -> None:
        """Note that a hook has succeeded; its failures and, above initializing, its retries are forgotten."""
        name, to = event.component, child.moving.pop(event.component)
        child.states[name] = to
        child.hooks_due_ns.pop(name, None)
        if to is not ModuleState.INITIALIZING:
            child.hook_histories.pop(name, None)
        if child.failures.pop(name, None) is not None:
            self._effects.append(Say(f"backplane {child.name!r}: component {name!r} is {to.value} now"))

    def failed(self, child: Child, event: MoveFailed, now_ns: int) -> str | None:
        """Note that a hook has raised, and plan a retry or give it up. Returns the reason if the system has to go down."""
        name, to = event.component, child.moving.pop(event.component)
        child.hooks_due_ns.pop(name, None)
        failure = child.failures[name] = HookFailure(to, event.reason, now_ns)
        line = told(child, name, failure)
        if to is ModuleState.DOWN or self.is_going_down:
            if to is ModuleState.DOWN:
                child.states[name] = to
            self._effects.append(Say(line, is_error=True))
            return None
        history = child.hook_histories.get(name, RestartHistory())
        child.hook_histories[name], verdict = after_failure(history, child.policy, now_ns, self._random)
        if isinstance(verdict, StartAgain):
            failure.retry_ns = verdict.at_ns
            when = "now" if verdict.at_ns <= now_ns else f"in {(verdict.at_ns - now_ns) / 1e9:.1f} s"
            self._effects.append(Say(f"{line}; trying it again {when}", is_error=True))
            return None
        failure.is_given_up = True
        return self._give_up(child, name, f"{line}; given up: {verdict.because}", isinstance(verdict, GiveUp))

    def time_passed(self, now_ns: int) -> str | None:
        """Give up hooks that exceeded their time limit. Returns the reason if the system has to go down."""
        for child in self._children.values():
            for name in [name for name, due_ns in child.hooks_due_ns.items() if due_ns <= now_ns]:
                del child.hooks_due_ns[name]
                reason = f"its hook has not ended within {child.start_limit_ns / 1e9:g} s"
                failure = HookFailure(child.moving[name], reason, now_ns, is_given_up=True)
                child.failures[name] = failure
                because = self._give_up(child, name, told(child, name, failure), child.policy.type != "temporary")
                if because is not None:
                    return because
        return None

    def _give_up(self, child: Child, component: str, line: str, is_told: bool) -> str | None:
        """`is_told`: apply `on_give_up`: its dependents are lowered (and named in the log), or the system goes down."""
        if is_told and child.policy.on_give_up == "shutdown":
            return line
        self._effects.append(Say(line + (self.consequence(child, [component]) if is_told else ""), is_error=True))
        return None

    def consequence(self, child: Child, components: Iterable[str]) -> str:
        """The part of the log line that names the dependents lowered by a give-up; "": there are none."""
        standings = self.standings()
        ceiling, goals = _CEILINGS[child.policy.on_give_up], self.targets(standings)
        nodes = set(map(child.node, components))
        if child.policy.strategy == "one_for_all" and child.phase is Phase.FAILED:
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
            known = {standing.component for standing in self.standings().values()}
            if self.is_going_down:
                raise Unavailable("the system is going down")
            if event.component is not None and event.component not in known:
                near = difflib.get_close_matches(event.component, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known)) or 'none yet'}"
                raise NotFound(f"no component {event.component!r} ({hint})")
            self._orders.add(Order(event.caller, event.to, event.component, now_ns + event.limit_ns))
        except BackplaneError as error:
            self._effects.append(Refuse(event.caller, error))

    def refuse_orders(self) -> None:
        """Refuse all orders, because the system goes down."""
        for order in self._orders:
            self._refuse(order, Unavailable("the system is going down"))

    def wakes_at_ns(self) -> int | None:
        """When the next time limit of a hook or order ends, or the next retry is due; None: never."""
        waits = [due_ns for child in self._children.values() for due_ns in child.hooks_due_ns.values()]
        waits += [failure.retry_ns for _, _, failure in self.failures() if failure.retry_ns is not None]
        if (ends_ns := self._orders.wakes_at_ns()) is not None:
            waits.append(ends_ns)
        return min(waits, default=None)

    # Consequences

    def advance(self, now_ns: int) -> list[Effect]:
        """Begin and end all orders and moves that are possible now. Returns all effects since the last call."""
        for _, _, failure in self.failures():
            if failure.retry_ns is not None and failure.retry_ns <= now_ns:
                failure.retry_ns = None
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
            if child.drain in (DrainPhase.DUE, DrainPhase.RUNNING):
                continue
            child.moving[component] = to
            limit_ns = child.stop_limit_ns
            if to is not ModuleState.DOWN:
                limit_ns = LATE_LIMIT_NS
                child.hooks_due_ns[component] = now_ns + child.start_limit_ns
            self._effects.append(Move(child.name, child.generation, component, to.value, limit_ns, self.epoch))

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
        if order.component is None:
            self.become(order.to)
        else:
            self._want(order.component, order.to, standings)
        for name in self._concerned(order, standings):
            child, component = self._children[standings[name].backplane], standings[name].component
            if component not in child.moving:  # a hook that still runs is not retried meanwhile
                child.failures.pop(component, None)
                child.hook_histories.pop(component, None)

    def _want(self, component: str, to: ModuleState, standings: Mapping[str, Standing]) -> None:
        before = dict(self.wanted)
        self.wanted[component] = to
        try:
            self._check(component, to, standings)
        except BackplaneError:
            self.wanted = before
            raise

    def _check(self, component: str, to: ModuleState, standings: Mapping[str, Standing]) -> None:
        """Raise `FailedPrecondition` if the component cannot reach `to`, `NotFound` if it is not there any more."""
        if not _nodes(component, standings):
            raise NotFound(f"component {component!r} has been removed from the configuration")
        homes = {name: self._children[standings[name].backplane] for name in _nodes(component, standings)}
        if to is not ModuleState.DOWN and all(child.phase in _GONE for child in homes.values()):
            child = next(iter(homes.values()))
            raise FailedPrecondition(f"backplane {child.name!r} of component {component!r}: {child.reason}")
        goals, ceilings = self.targets(standings), self._ceilings()
        there = [name for name, child in homes.items() if child.phase not in _GONE] or homes
        if any(homes[name].is_leaving or HEIGHT[goals[name]] >= HEIGHT[to] for name in there):
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
            ceiling = _CEILINGS[child.policy.on_give_up]
            if child.phase is Phase.FAILED:
                found |= dict.fromkeys(map(child.node, child.states), ceiling)
            elif child.policy.type != "temporary":
                found |= {child.node(name): ceiling for name, failure in child.failures.items() if failure.is_given_up}
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
                if order.component is not None:
                    self._check(order.component, order.to, standings)
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
        is_above = order.component is None and HEIGHT[order.to] > HEIGHT[self.ceiling]  # another node is primary
        if is_above or any(standings[name].moving_to is not None or homes[name].is_leaving for name in concerned):
            return False
        goals = self.targets(standings)
        ordered = concerned if order.component is None else _nodes(order.component, standings)
        return all(homes[name].phase in _GONE or is_there(standings[name], goals[name]) for name in ordered)

    def _concerned(self, order: Order, standings: Mapping[str, Standing]) -> set[str]:
        return set(standings) if order.component is None else all_above(_nodes(order.component, standings), standings)

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
        what = "the system" if order.component is None else f"component {order.component!r}"
        return f"{what} is not {order.to.value} yet, and the move goes on: {'; '.join(behind) or 'it has just begun'}"

    def _refuse(self, order: Order, error: BackplaneError) -> None:
        self._effects.append(Refuse(order.caller, error))
        self._orders.end(order)


def told(child: Child, component: str, failure: HookFailure) -> str:
    """The log line for a failed hook."""
    return f"backplane {child.name!r}: component {component!r} did not become {failure.to.value}: {failure.reason}"


def _nodes(component: str, standings: Mapping[str, Standing]) -> list[str]:
    """The nodes of a component: one, or one for each replica."""
    return [name for name, standing in standings.items() if standing.component == component]


def _keeps(component: str, bound: ModuleState, given_up: Mapping[str, ModuleState]) -> str:
    return "which was given up" if component in given_up else f"which is to be {bound.value}: move that first"


def _falls(child: Child) -> bool:
    return any(to is ModuleState.DOWN for to in child.moving.values())
