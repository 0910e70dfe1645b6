"""Inspection: answers operators' questions about the queues: the age of the oldest work, and why an object or call waits.

Collects the facts that `observation/waiting.py` explains; changes nothing. The sentinel calls it, so that a backplane whose
workers are all busy answers, too. It holds the lead during a scan; each scan stops after `LOOK_MAX` entries, about a
millisecond, and reports the cut where that matters. Stacks are taken under the lead and formatted without it.
"""

from __future__ import annotations

import sys
from itertools import chain, islice
from operator import attrgetter
from typing import Any, cast

from appbackplane.transport import retrying
from appbackplane.transport.pulling import UNSENT

from ...objects.action import LOCAL, Action, ParkableAction
from ...objects.app_object import AppObject
from ...objects.component import Component
from ...objects.state_machine import StateMachine
from ...observation.slow_actions import as_text, frames_of
from ...observation.waiting import (
    AHEAD_SHOWN,
    ActionFacts,
    Awaited,
    Parked,
    QueuePlace,
    Reason,
    Running,
    Throttled,
    Where,
    explain,
    ms,
)
from ...scheduling.object_queue import READY, RUNNING, WAITING
from ...scheduling.quotas import UNLIMITED
from ...scheduling.time_shares import PERCENT_NS, TimeShares
from ..actions.coroutines import CallRequest, OneShotEvent, Pause
from ..actions.method_action import MethodAction
from ..intake.awaiting_calls import AwaitingCall
from ..intake.digest import Digest, route_of
from ..loop.engine import Engine
from ..loop.progress import is_long
from ..workers.worker import Worker
from .naming import LOOK_MAX, SHOWN_MAX, Names, call_name, is_object_name

#: Objects of one ready queue, or of a component, whose first actions are compared for the oldest. Objects behind these have
#: nearly always waited for less time.
AGES_MAX = 1_000
#: Calls followed within this backplane for one question.
STEPS_MAX = 16
_STATES = {READY: "ready", RUNNING: "running", WAITING: "waiting"}


class Inspection:
    """Scans the queues of one engine. Its methods take the lead themselves."""

    def __init__(self, engine: Engine) -> None:
        self._backplane, self._lead, self._now_ns = engine.backplane, engine.lead, engine.now_ns
        self._registry, self._scheduler, self._poll_leader = engine.registry, engine.scheduler, engine.poll_leader
        self._accepted, self._calls, self._inheritance = engine.accepted, engine.calls, engine.inheritance
        self._limits, self._parking, self._routing = engine.limits, engine.parking, engine.routing
        self._link, self._outbox = engine.link, engine.outbox
        self._names = Names(engine)

    # -- how old ------------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """For the statistics: the oldest age in each ready queue, the longest waiting objects and calls, running actions."""
        with self._lead:
            now_ns = self._now_ns()
            ready = self._scheduler.ready
            oldest_ns: list[int | None] = []
            objects: dict[int, AppObject] = {}
            for priority in range(self._scheduler.priorities):
                standing = cast(list[AppObject], list(islice(ready.standing(priority), AGES_MAX)))
                oldest_ns.append(min((o._head.posted_ns for o in standing if o._head is not None), default=None))
                objects.update((id(o), o) for o in standing)
            for worker in self._poll_leader.team:
                if worker.action is not None:
                    objects[id(worker.action.object)] = worker.action.object
            for *_, request in islice(self._calls, AGES_MAX):
                if request.action is not None:
                    objects[id(request.action.object)] = request.action.object
            queued = [
                (o._head.posted_ns, number, o) for number, o in enumerate(objects.values()) if o._head is not None
            ]
            calls = islice(self._accepted.items(), SHOWN_MAX)
            return {
                "oldest_ms": [None if ns is None else ms(now_ns - ns) for ns in oldest_ns],
                "objects": [self._object_figures(o, now_ns) for _, _, o in sorted(queued)[:SHOWN_MAX]],
                "calls": [
                    {
                        "call": call_name(self._backplane, peer, id),
                        "route": route_of(action),
                        "object": action.object.name,
                        "age_ms": ms(now_ns - action.posted_ns),
                    }
                    for (peer, id), action in calls
                ],
                "running": [
                    {"route": action.name, "object": action.object.name, "running_ms": ms(max(0, now_ns - started_ns))}
                    for action, started_ns in self._busy()[:SHOWN_MAX]
                ],
            }

    def _busy(self) -> list[tuple[Action, int]]:
        """The running actions and their start times, the longest first, without those declared to take long."""
        team = [(worker.action, worker.started_ns) for worker in self._poll_leader.team]
        busy = [(action, at_ns) for action, at_ns in team if action is not None and at_ns and not is_long(action)]
        return sorted(busy, key=lambda entry: entry[1])

    def _object_figures(self, object: AppObject, now_ns: int) -> dict[str, Any]:
        head = object._head
        assert head is not None
        return {
            "object": object.name,
            "state": _STATES.get(object._state, "idle"),
            "outstanding": object._load,
            "oldest_ms": ms(now_ns - head.posted_ns),
            "first": head.name,
        }

    # -- why ----------------------------------------------------------------------------------------------------------

    def why(self, asked: str, *, with_stack: bool = False) -> dict[str, Any]:
        """Why an object, a call, or the oldest work of a route or a component waits.

        Returns `steps`, each a subject with its `reasons`, and `next`: the backplane and the name of the call to ask about
        there, or nil. Raises `NotFound` for an object or route that is not here, `InvalidArgument` for a malformed name.
        """
        steps: list[tuple[dict[str, Any], list[Reason]]] = []
        found = self._names.object_named(asked) if is_object_name(asked) else None
        with self._lead:
            now_ns = self._now_ns()
            looking: Action | AppObject | None
            subject: dict[str, Any] = {"asked": asked}
            if isinstance(found, Component):
                looking, more = self._oldest_of(found)
                subject |= more
            elif found is not None:
                looking = found
            elif ":" in asked:
                looking = self._names.call_named(asked)
            else:
                looking, more = self._names.oldest_of_route(asked)
                if isinstance(looking, Component) and not more["count"]:  # its messages may wait at other objects
                    looking, more = self._oldest_of(looking, asked)
                subject |= more
            seen: set[int] = set()
            following: Reason | None = None
            while True:
                subject |= self._describe(looking)
                if looking is None:
                    reasons = explain(ActionFacts(asked, is_known=False))
                else:
                    reasons = explain(self._facts(asked, looking, now_ns, with_stack=with_stack))
                steps.append((subject, reasons))
                following = next((reason for reason in reasons if reason.next), None)
                if following is None or following.callee != self._backplane:
                    break
                looking = self._names.call_named(following.next)
                if id(looking) in seen or len(steps) == STEPS_MAX:
                    following = None  # a cycle of calls is refused when it closes, so this one is about to end
                    break
                seen.add(id(looking))
                asked = following.next
                subject = {"asked": asked}
        return {
            "steps": [
                {"backplane": self._backplane, **subject, "reasons": [_told(reason) for reason in reasons]}
                for subject, reasons in steps
            ],
            "next": None if following is None else {"backplane": following.callee, "call": following.next},
        }

    def _describe(self, looking: Action | AppObject | None) -> dict[str, Any]:
        if isinstance(looking, AppObject):
            return {"object": looking.name, "outstanding": looking._load}
        if looking is None:
            return {}
        described: dict[str, Any] = {
            "route": route_of(looking),
            "object": looking.object.name,
            "priority": looking.priority,
        }
        who = self._names.who_waits_for(looking)
        return described if who is None else {**described, "call": call_name(self._backplane, *who)}

    # -- facts --------------------------------------------------------------------------------------------------------

    def _facts(self, asked: str, looking: Action | AppObject, now_ns: int, *, with_stack: bool) -> ActionFacts:
        object = looking if isinstance(looking, AppObject) else looking.object
        action = looking if isinstance(looking, Action) else self._first_of(object)
        busy = [(worker, worker.action) for worker in self._poll_leader.team if worker.action is not None]
        running = [self._running(w, a, now_ns, with_stack=with_stack) for w, a in busy]
        of_object = next((one for one, (_, a) in zip(running, busy, strict=True) if a.object is object), None)
        where, ahead = (None, []) if action is None else self._where(action, [a for _, a in busy])
        machine_state, accepted_in = "", tuple[str, ...]()
        if where is Where.DEFERRED:
            assert isinstance(object, StateMachine) and isinstance(action, MethodAction) and action.spec is not None
            machine_state = object._machine_state.name
            accepted_in = tuple(state.name for state in action.spec.mark.accepted_in or ())
        return ActionFacts(
            object=object.name,
            route=None if action is None else action.name,
            where=where,
            ahead_count=len(ahead),
            ahead=tuple(route_of(each) for each in ahead[:AHEAD_SHOWN]),
            running=of_object,
            parked=self._parked(object, action),
            awaited=self._awaited(object, action if where is Where.SUSPENDED else None, now_ns),
            standing=self._standing(object) if object._state == READY else None,
            machine_state=machine_state,
            accepted_in=accepted_in,
            operands=dict(action.missing) if isinstance(action, AwaitingCall) else {},
            digests=action.asked.route if isinstance(action, Digest) else None,
            until_tick_ns=self._until_tick_ns(object, now_ns),
            cpu_limit=self._scheduler.budget.limit_percent,
            workers_count=len(self._poll_leader.workers),
            busy=tuple(one for one in running if one.worker >= 0),
            throttled=self._throttled(object),
            unserved_state=self._unserved_state(object, asked, action),
        )

    def _first_of(self, object: AppObject) -> Action | None:
        """The longest waiting action of an object: the first queued one, else the running, awaiting or deferred one."""
        if object._head is not None:
            return object._head
        for worker in self._poll_leader.team:
            if worker.action is not None and worker.action.object is object:
                return worker.action
        if object._waits and (waiting := self._inheritance.waiting(object)) is not None:
            return waiting
        return object._deferred[0] if isinstance(object, StateMachine) and object._deferred else None

    def _oldest_of(self, component: Component, route: str | None = None) -> tuple[Action | AppObject, dict[str, Any]]:
        """The oldest outstanding action of a component and its objects, with their count; else the component itself.

        A running or awaiting action counts before actions queued behind it, which it delays. `route`: only actions of it.
        """
        busy = [
            o for o in islice(chain((component,), component._objects, component._spawned.values()), LOOK_MAX) if o._load
        ]
        running = {id(w.action.object): w.action for w in self._poll_leader.team if w.action is not None}
        firsts = [
            running.get(id(o)) or (self._inheritance.waiting(o) if o._waits else None) or self._first_of(o)
            for o in busy[:AGES_MAX]
        ]
        found = [each for each in firsts if each is not None and route in (None, each.name)]
        oldest = min(found, key=attrgetter("posted_ns"), default=None)
        if oldest is None or oldest.object is component:
            return component, {}
        return oldest, {"count": len(found) if route else sum(each._load for each in busy)}

    def _where(self, action: Action, running: list[Action]) -> tuple[Where, list[Action]]:
        """Where the action is, and the actions of its object ahead of it, at most LOOK_MAX."""
        if any(one is action for one in running):
            return Where.RUNNING, []
        if isinstance(action, MethodAction) and action.coroutine is not None and action.is_awaiting:
            return Where.SUSPENDED, []
        object = action.object
        if isinstance(action, AwaitingCall):
            return Where.AWAITING, []
        if isinstance(action, ParkableAction) and self._inheritance.waiting(object) is action:
            return Where.PARKED, []
        if isinstance(object, StateMachine) and any(one is action for one in islice(object._deferred, LOOK_MAX)):
            return Where.DEFERRED, []
        ahead: list[Action] = []
        here = object._head
        while here is not None and here is not action and len(ahead) < LOOK_MAX:
            ahead.append(here)
            here = here.next
        return Where.QUEUED, ahead

    def _running(self, worker: Worker, action: Action, now_ns: int, *, with_stack: bool) -> Running:
        # The worker writes `started_ns` without the lead. 0: it is about to begin.
        for_ns = max(0, now_ns - worker.started_ns) if worker.started_ns else 0
        frame = sys._current_frames().get(worker.ident) if with_stack else None
        frames = () if frame is None else frames_of(frame)
        what = self._parking.blocked_by.get(id(action), "")
        return Running(action.name, action.object.name, action.priority, worker.number, for_ns, frames, what)

    def _parked(self, object: AppObject, action: Action | None) -> Parked | None:
        waiting = action if isinstance(action, ParkableAction) else self._inheritance.waiting(object)
        if not isinstance(waiting, ParkableAction) or not (what := waiting.waits_because()):
            return None
        holder = next(iter(waiting.waits_for()), None)
        if holder is None:
            return Parked(waiting.name, what)
        who = self._names.who_waits_for(holder)
        call, callee = ("", "") if who is None else (call_name(self._backplane, *who), self._backplane)
        return Parked(waiting.name, what, holder.name, holder.object.name, call, callee)

    def _awaited(self, object: AppObject, only: Action | None, now_ns: int) -> tuple[Awaited, ...]:
        if not object._waits or (only is None and object._tails is not None):
            return ()
        found: list[tuple[int, bytes, int, CallRequest | Pause]] = []
        if isinstance(only, MethodAction):
            waits = [only.request] if isinstance(only.request, Pause) else only.open_calls()[:LOOK_MAX]
            for each in waits:
                if (call := self._calls.get(each.id)) is not None:
                    found.append((each.id, *call))
        else:
            for id, peer, deadline_ns, request in islice(self._calls, LOOK_MAX):
                action = request.action
                if action is not None and action.is_awaiting and action.object is object:
                    found.append((id, peer, deadline_ns, request))
        return tuple(self._one_awaited(*call, now_ns) for call in found)

    def _one_awaited(
        self, id: int, peer: bytes, deadline_ns: int, request: CallRequest | Pause, now_ns: int
    ) -> Awaited:
        left_ns, action = deadline_ns - now_ns, request.action
        assert action is not None
        if peer == UNSENT and isinstance(request, CallRequest):
            return Awaited(action.name, left_ns, what=f"room for {request.spec.route} at a replica")
        if isinstance(request, Pause) or peer == retrying.WAITING:
            return Awaited(action.name, left_ns, what=request.what if isinstance(request, OneShotEvent) else "")
        callee = self._routing.backplane_of(peer) or "?"
        caller = LOCAL if peer is LOCAL else self._link.known_as(peer)
        return Awaited(
            action.name, left_ns, request.spec.route, callee, call_name(callee, caller, id),
            is_stalled=peer in self._outbox.stalled,
        )  # fmt: skip

    def _standing(self, object: AppObject) -> QueuePlace:
        scheduler, priority = self._scheduler, object._priority
        ahead_count, is_all = scheduler.ready.ahead_of(object, LOOK_MAX)
        left, full = scheduler.quotas.left, scheduler.quotas.full
        higher_count = sum(depth for above, depth in enumerate(scheduler.ready.depths()[:priority]) if left[above] > 0)
        quota = 0 if full[priority] == UNLIMITED else full[priority]
        standing = islice(scheduler.ready.standing(priority), min(ahead_count, AHEAD_SHOWN))
        first = tuple(cast(AppObject, each).name for each in standing)
        share = full[priority] // PERCENT_NS if isinstance(scheduler.quotas, TimeShares) else None
        return QueuePlace(priority, ahead_count, higher_count, left[priority], quota, not is_all, first, share)

    def _until_tick_ns(self, object: AppObject, now_ns: int) -> int | None:
        scheduler = self._scheduler
        if not scheduler.budget.is_spent or object._priority < scheduler.budget.exempt:
            return None
        return max(0, scheduler.ticks.next_ns - now_ns)

    def _throttled(self, object: AppObject) -> Throttled | None:
        component = object._component
        throttle = None if component is None else self._limits.requests.get(component.component_name)
        if component is None or throttle is None:
            return None
        return Throttled(component.name, throttle.outstanding, throttle.limit)

    def _unserved_state(self, object: AppObject, asked: str, action: Action | None) -> str | None:
        component = object._component
        if component is None:
            return None
        routes = self._registry.routes
        route = routes.get(asked) or routes.get("" if action is None else action.name)
        if route is not None:
            return None if route.is_registered else component.state.value
        any_route = [r for r in routes.values() if r.component is component]
        return component.state.value if any_route and not any(r.is_registered for r in any_route) else None


def _told(reason: Reason) -> dict[str, Any]:
    told = {"because": reason.because.value, "text": reason.text, **reason.data}
    return {**told, "stack": as_text(reason.frames)} if reason.frames else told
