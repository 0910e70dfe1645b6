"""Waiting: explains why an action or object waits, in sentences and as data (DESIGN 12, "why is this waiting?").

Pure: facts about one action and its object come in (execution/services/inspection.py collects them); reasons go out, the most
important first. Each reason is an effect of a law: the object's order (1), the ready queues and their quotas (3), the CPU
budget (5), an awaited reply (6), the digester (7), the throttle (9), the component's state (12). A reason that points to
another call names it in `next`; asking about that call, too, yields the chain across backplanes. No cost until it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from traceback import FrameSummary
from typing import Any

import msgspec

#: Running actions listed if all workers are busy: even the cause of 256 busy workers shows in the first few.
RUNNING_SHOWN = 8
#: Names listed of the actions or objects ahead: a queue of thousands holds only a few kinds.
AHEAD_SHOWN = 3


class Because(Enum):
    """The kind of a reason; the values are the codes in the data."""

    RUNNING = "running"
    AWAITS = "awaits"
    PAUSES = "pauses"
    LOCKED = "locked"
    NOT_READ = "not_read"
    DEFERRED = "deferred"
    OPERANDS = "operands"
    DIGESTED = "digested"
    BEHIND = "behind"
    OBJECT_RUNS = "object_runs"
    OBJECT_AWAITS = "object_awaits"
    OBJECT_PAUSES = "object_pauses"
    OBJECT_LOCKED = "object_locked"
    CPU_BUDGET = "cpu_budget"
    QUOTA = "quota"
    MORE_URGENT = "more_urgent"
    QUEUE = "queue"
    WORKERS = "workers"
    NEXT = "next"
    THROTTLED = "throttled"
    STATE = "state"
    IDLE = "idle"
    NOT_HERE = "not_here"


class Where(Enum):
    """The place of an action: queued, with a worker, or set aside."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    PARKED = "parked"
    DEFERRED = "deferred"
    AWAITING = "awaiting"


class Running(msgspec.Struct, frozen=True):
    """The action that a worker runs, and for how long."""

    route: str
    object: str
    priority: int
    #: Below 0: a relief worker.
    worker: int
    for_ns: int
    frames: Sequence[FrameSummary] = ()
    #: The thing that it waits for in its thread; empty: it does not wait, or does not report it.
    what: str = ""


class Awaited(msgspec.Struct, frozen=True):
    """The cause of a suspended action: a call, or (`callee` is None) a condition in this backplane, or only time."""

    #: The action that waits.
    route: str
    left_ns: int
    #: The route that was called, the backplane that serves it, and the call's name there.
    called: str = ""
    callee: str | None = None
    call: str = ""
    #: Whether the callee does not read, so the call may not have left yet.
    is_stalled: bool = False
    #: Without a callee: the awaited condition; empty: it only waits for time to pass.
    what: str = ""


class Parked(msgspec.Struct, frozen=True):
    """An action that waits, parked or in its thread, such as for a lock, and one of the holders of that lock."""

    route: str
    what: str
    #: The holder's route; empty: no action holds it (any more).
    holder: str = ""
    holder_object: str = ""
    #: The name of the holder's call, if a caller waits for it, and its backplane.
    call: str = ""
    callee: str = ""


class QueuePlace(msgspec.Struct, frozen=True):
    """The place of an object in a ready queue."""

    priority: int
    #: Objects before it in its queue, and in all higher queues together. Counted up to a bound; then `is_at_least` is set.
    ahead_count: int
    higher_count: int
    quota_left: int
    quota: int
    is_at_least: bool = False
    #: Names of the first objects before it in its queue, AHEAD_SHOWN at most.
    ahead: tuple[str, ...] = ()
    #: Percent of the time, where the priorities have shares of it instead of quotas of actions.
    share: int | None = None


class Throttled(msgspec.Struct, frozen=True):
    """The outstanding requests of a component and their limit."""

    component: str
    outstanding: int
    limit: int


class ActionFacts(msgspec.Struct, frozen=True):
    """One action and its object (or only the object), at one moment."""

    object: str
    #: None: the object has no outstanding action.
    route: str | None = None
    where: Where | None = None
    #: Actions of the object that go first, and the routes of the first AHEAD_SHOWN.
    ahead_count: int = 0
    ahead: tuple[str, ...] = ()
    #: Its missing arguments, each with the name of its source.
    operands: Mapping[str, str] = {}
    #: The object's running action, its suspended and parked ones, and its place in a ready queue.
    running: Running | None = None
    awaited: tuple[Awaited, ...] = ()
    parked: Parked | None = None
    standing: QueuePlace | None = None
    #: For a deferred action: the machine's state, and the states in which it is accepted.
    machine_state: str = ""
    accepted_in: tuple[str, ...] = ()
    #: The route of the call whose key this action computes in the digester.
    digests: str | None = None
    #: Of the backplane: time to the tick, if the CPU budget is spent for this priority; its workers and their actions.
    until_tick_ns: int | None = None
    cpu_limit: int | None = None
    workers_count: int = 1
    busy: tuple[Running, ...] = ()
    throttled: Throttled | None = None
    #: The component's state, if the route is not served in it.
    unserved_state: str | None = None
    #: False: no such call is here, and all other facts are unknown.
    is_known: bool = True


class Reason(msgspec.Struct, frozen=True):
    """One reason, as a sentence and as data; one link of the chain."""

    because: Because
    text: str
    data: dict[str, Any] = {}
    #: The call to ask about next, and the backplane that has it; empty: the chain ends here.
    next: str = ""
    callee: str = ""
    frames: Sequence[FrameSummary] = ()


def explain(facts: ActionFacts) -> list[Reason]:
    """All reasons why it waits, the nearest cause first."""
    reasons = list(_of_the_action(facts))
    if facts.unserved_state is not None:
        text = f"{facts.object}'s component is {facts.unserved_state}: it is not served in that state"
        reasons.append(Reason(Because.STATE, text, {"state": facts.unserved_state}))
    full = facts.throttled
    if full is not None and full.outstanding >= full.limit:
        text = f"{full.component} is full, {full.outstanding} of {full.limit} requests outstanding: new ones get Busy"
        reasons.append(Reason(Because.THROTTLED, text, {"outstanding": full.outstanding, "max_requests": full.limit}))
    return reasons


def _of_the_action(facts: ActionFacts) -> Iterator[Reason]:
    if not facts.is_known:
        text = f"no call {facts.object} here: not received yet, or already ended"
        yield Reason(Because.NOT_HERE, text)
        return
    if facts.digests is not None:
        text = f"its target is being computed by {facts.route} in {facts.object}, for {facts.digests}"
        yield Reason(Because.DIGESTED, text, {"digester": facts.object, "method": facts.route})
    if facts.where is None:
        yield Reason(Because.IDLE, f"{facts.object} has nothing to do")
    elif facts.where is Where.RUNNING:
        assert facts.running is not None
        yield _runs(Because.RUNNING, "it runs", facts.running)
        if facts.parked is not None:  # in its thread
            yield _parked(Because.LOCKED, "it", facts.parked)
    elif facts.where is Where.PARKED:
        assert facts.parked is not None
        yield _parked(Because.LOCKED, "it", facts.parked)
    elif facts.where is Where.SUSPENDED:
        for awaited in facts.awaited[:1]:
            yield from _awaits(Because.AWAITS, Because.PAUSES, "it", awaited)
    elif facts.where is Where.AWAITING:
        text = "it awaits " + ", ".join(
            f"operand {argument!r} of {source}" for argument, source in facts.operands.items()
        )
        yield Reason(Because.OPERANDS, text, {"operands": dict(facts.operands)})
    elif facts.where is Where.DEFERRED:
        accepted = ", ".join(facts.accepted_in)
        text = f"{facts.object} defers it in state {facts.machine_state} (accepted in: {accepted})"
        yield Reason(Because.DEFERRED, text, {"state": facts.machine_state, "accepted_in": list(facts.accepted_in)})
    else:
        yield from _queued(facts)


def _queued(facts: ActionFacts) -> Iterator[Reason]:
    if facts.ahead_count:
        text = (
            f"{_many(facts.ahead_count, 'action')} of {facts.object} before it{_named(facts.ahead, facts.ahead_count)}: "
            "an object's actions run one at a time"
        )
        yield Reason(Because.BEHIND, text, {"ahead": facts.ahead_count, "routes": list(facts.ahead)})
    if facts.running is not None:
        yield _runs(Because.OBJECT_RUNS, f"{facts.object} is busy: it runs {facts.running.route}", facts.running)
    elif facts.standing is not None:
        yield from _ready(facts, facts.standing)
    if facts.parked is not None:
        who = f"{facts.object} is occupied: {facts.parked.route}"
        yield _parked(Because.OBJECT_LOCKED, who, facts.parked)
    for awaited in facts.awaited:
        who = f"{facts.object} is occupied: {awaited.route}"
        yield from _awaits(Because.OBJECT_AWAITS, Because.OBJECT_PAUSES, who, awaited)


def _ready(facts: ActionFacts, standing: QueuePlace) -> Iterator[Reason]:
    """The reasons why a ready object does not run yet."""
    at_least = "at least " if standing.is_at_least else ""
    before = len(facts.busy)
    if facts.until_tick_ns is not None:
        text = (
            f"the CPU budget ({facts.cpu_limit} % of a core) is spent: nothing of priority {standing.priority} runs "
            f"until the tick in {_time(facts.until_tick_ns)}"
        )
        yield Reason(Because.CPU_BUDGET, text, {"limit_percent": facts.cpu_limit, "left_ms": ms(facts.until_tick_ns)})
    if standing.quota_left <= 0:
        spent, spent_data = f"quota of {standing.quota}: others go first until the next tick", {"quota": standing.quota}
        if standing.share is not None:
            spent = f"share of {standing.share} % of the time: others go first until the next round"
            spent_data = {"share_percent": standing.share}
        text = f"priority {standing.priority} has spent its {spent}"
        yield Reason(Because.QUOTA, text, {"priority": standing.priority, **spent_data})
    if standing.higher_count:
        text = (
            f"{at_least}{_many(standing.higher_count, 'object')} of higher priority than {standing.priority} go first"
        )
        yield Reason(Because.MORE_URGENT, text, {"objects": standing.higher_count, "priority": standing.priority})
    if standing.ahead_count:
        text = f"{at_least}{_many(standing.ahead_count, 'object')} before {facts.object} in ready queue {standing.priority}"
        text += _named(standing.ahead, standing.ahead_count)
        data = {"objects": standing.ahead_count, "priority": standing.priority, "first": list(standing.ahead)}
        yield Reason(Because.QUEUE, text, data)
    if before >= facts.workers_count:
        running = ", ".join(_what_runs(one) for one in facts.busy[:RUNNING_SHOWN])
        more = f" and {before - RUNNING_SHOWN} more" if before > RUNNING_SHOWN else ""
        workers = "the worker is" if facts.workers_count == 1 else f"all {facts.workers_count} workers are"
        data = {"running": [_running(one) for one in facts.busy[:RUNNING_SHOWN]]}
        frames = facts.busy[0].frames
        yield Reason(Because.WORKERS, f"{workers} busy with {running}{more}", data, frames=frames)
    elif facts.until_tick_ns is None and not (
        standing.ahead_count or standing.higher_count or standing.quota_left <= 0
    ):
        yield Reason(Because.NEXT, "it is the next to run")


def _awaits(because: Because, because_pause: Because, who: str, awaited: Awaited) -> Iterator[Reason]:
    if awaited.callee is None:
        left = _time(awaited.left_ns)
        text = f"{who} waits for {awaited.what}" if awaited.what else f"{who} pauses for another {left}"
        yield Reason(because_pause, text, {"left_ms": ms(awaited.left_ns), "route": awaited.route})
        return
    if awaited.is_stalled:
        text = f"backplane {awaited.callee} does not read its messages: the call may not have been sent"
        yield Reason(Because.NOT_READ, text, {"backplane": awaited.callee})
    text = (
        f"{who} awaits {awaited.called} from backplane {awaited.callee} "
        f"(call {awaited.call}, for at most {_time(awaited.left_ns)} more)"
    )
    data = {
        "route": awaited.route, "called": awaited.called, "backplane": awaited.callee, "call": awaited.call,
        "left_ms": ms(awaited.left_ns),
    }  # fmt: skip
    yield Reason(because, text, data, awaited.call, awaited.callee)


def _parked(because: Because, who: str, parked: Parked) -> Reason:
    data = {"route": parked.route, "for": parked.what}
    text = f"{who} waits for {parked.what}"
    if parked.holder:
        text += f", held by {parked.holder} on {parked.holder_object}"
        data |= {"holder": parked.holder, "holder_object": parked.holder_object}
    return Reason(because, text, data, parked.call, parked.callee)


def _runs(because: Because, text: str, running: Running) -> Reason:
    worker = "a relief worker" if running.worker < 0 else f"worker {running.worker}"
    since = f"{text} on {worker} for {_time(running.for_ns)}"
    if running.what:
        since += f", and waits there for {running.what}"
    return Reason(because, since, _running(running), frames=running.frames)


def _what_runs(running: Running) -> str:
    return f"{running.route} on {running.object} (priority {running.priority}, for {_time(running.for_ns)})"


def _running(running: Running) -> dict[str, Any]:
    return {
        "route": running.route, "object": running.object, "priority": running.priority, "worker": running.worker,
        "for_ms": ms(running.for_ns),
    }  # fmt: skip


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _named(names: tuple[str, ...], count: int) -> str:
    """The given names in brackets, with "..." if `count` is larger; "": there are none."""
    return f" ({', '.join(names)}{', ...' if count > len(names) else ''})" if names else ""


def ms(ns: int) -> float:
    """Nanoseconds as milliseconds, to the microsecond."""
    return round(ns / 1e6, 3)


def _time(ns: int) -> str:
    """The time in s or ms, with one decimal."""
    return f"{ns / 1e9:.1f} s" if ns >= 1_000_000_000 else f"{max(ns, 0) / 1e6:.1f} ms"
