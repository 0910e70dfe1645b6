"""Action: one piece of work for one object. Calls, replies, topics, timers and state changes are all actions (law 8).

The scheduler knows nothing else. An action has an object, a priority and a deadline. `run` returns whether it is done,
awaits a reply, or yields. To bring in a foreign protocol, subclass `Action` (seed 002, "All operations are Actions").
It has slots and a `next` link: the queue of an object is a linked list of its actions, so an idle object owns no queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from mypy_extensions import mypyc_attr

from appbackplane.transport.errors import BackplaneError

if TYPE_CHECKING:
    from .app_object import AppObject

#: The `peer` of a call whose caller is an action of the same backplane.
LOCAL: Final = b""
#: The calls that a backplane has accepted and not answered yet, by caller and call id, the oldest first. A call is accepted
#: from its arrival, also while a digester computes its object key, until its reply or status is packed.
AcceptedCalls: TypeAlias = dict[tuple[bytes, int], "Action"]


class ThrottleAccount(Protocol):
    """The account that counts an admitted request as outstanding until it ends (scheduling/throttle.py)."""

    def ended(self, now_ns: int) -> None: ...
    def may_be_refused(self, priority: int) -> None: ...


class QueueLimit(Protocol):
    """The adaptive limit that admitted a request, and is told of its end (scheduling/adaptive_limit.py)."""

    aim_ns: int

    @property
    def idle_thousandths(self) -> int: ...
    def is_late(self, action: Action, now_ns: int) -> bool: ...
    def refused_late(self) -> None: ...
    def begins(self, action: Action) -> None: ...
    def ended(self, action: Action, now_ns: int) -> None: ...


class Outcome(Enum):
    """The state of an action when `run` returned."""

    DONE = "done"
    WAITING = "waiting"  # for one reply, in the wait queue (law 6)
    YIELDED = "yielded"  # gave way to higher-priority work; continues before any other action of its object


#: Read from the enum once: in compiled code each access to an enum member costs as much as a call.
DONE: Final = Outcome.DONE
WAITING: Final = Outcome.WAITING
YIELDED: Final = Outcome.YIELDED


@mypyc_attr(allow_interpreted_subclasses=True)
class Action:
    """Work for one object. Subclass it and write `run` to bring in work that is not an operation.

    >>> class Greet(Action):
    ...     def run(self) -> Outcome:
    ...         self.object.greet()
    ...         return Outcome.DONE

    With `async def run` it may await calls and pauses, as an `async def` operation may.
    """

    __slots__ = (
        "account", "call_id", "chain", "continues", "cpu_ns", "deadline_ns", "error", "fair_key", "is_queued", "lane",
        "limit", "name", "next", "object", "on_end", "parts", "peer", "posted_ns", "principal", "priority", "priority_asked",
        "priority_boosted", "priority_chosen", "priority_own", "queued_ns", "result", "run_ns", "source", "span",
        "started_ns", "takes_room", "throttle", "ticket", "trace", "wait_ns",
    )  # fmt: skip

    # Any, and checked here: compiled code would check the declared types first, with a less helpful message.
    def __init__(self, object: AppObject, name: Any, priority: Any, deadline_ns: Any = None) -> None:
        """`name`: a string. `priority`: an integer. `deadline_ns`: an integer or None. Raises TypeError for anything else."""
        if (
            type(name) is not str
            or not isinstance(priority, int)
            or (deadline_ns is not None and not isinstance(deadline_ns, int))
        ):
            raise TypeError(_mistyped(type(self).__name__, name, priority, deadline_ns))
        self.object = object
        #: Its name in statistics and warnings; for an operation, its route.
        self.name = name
        #: 0 is highest.
        self.priority = priority
        #: The priority it was created with, before any inheritance.
        self.priority_asked = priority
        #: Its caller's priority: `priority_asked`, until the caller itself becomes more urgent, or less. The action falls back
        #: to it when nothing more urgent waits for it any more (execution/actions/inheritance.py).
        self.priority_own = priority
        #: The priority that it has chosen for its present phase (`change_priority`); -1: none.
        self.priority_chosen = -1
        #: Its caller's priority since that has changed; -1: it is `priority_asked`.
        self.priority_boosted = -1
        #: Monotonic ns after which it is not begun; None: never too late.
        self.deadline_ns = deadline_ns
        #: When it was last queued, 0 once it has ended. Written by the scheduler and by `Completion`.
        self.posted_ns = 0
        #: Whether it may run while its object awaits a reply: the action that receives it, or a reentrant call.
        self.continues = False
        self.next: Action | None = None
        #: The reply to the caller: set `result` in `run`, or raise.
        self.result: Any = None
        self.error: BaseException | None = None
        #: The caller that awaits the reply (a peer, LOCAL, or None: nobody), and its id of the call. Written by `Intake`.
        self.peer: bytes | None = None
        self.call_id = 0
        #: [object, route] of every call that waits for this one, outermost first.
        self.chain: Sequence[Sequence[str]] = ()
        self.trace: str | None = None
        #: Who asked for it (execution/intake/sources.py); "": nobody, as for a timer. And on whose behalf; None: on no one's.
        self.source = ""
        self.principal: str | None = None
        #: Whether it is one of the calls that its backplane has room for, where callers keep the rest (intake/grants.py).
        self.takes_room = False
        #: Whose share it is done of, and its place in that order, where there is one (scheduling/fair_order.py).
        self.fair_key = ""
        self.ticket: Any = None
        #: The account that counts it as outstanding; None: not counted.
        self.throttle: ThrottleAccount | None = None
        #: The limit that admitted it; None: no queueing time was asked for.
        self.limit: QueueLimit | None = None
        #: Whether that limit counts it as queued. Written by the limit.
        self.is_queued = False
        #: Called once when it has ended: done, failed or refused.
        self.on_end: Callable[[Action], None] | None = None
        #: Its span id, sent with the calls that it makes; allocated at the first of them, 0 until then.
        self.span = 0
        #: When it first ran, and had been queued for that; 0: not yet.
        self.started_ns = self.queued_ns = 0
        #: Its `OperationStatistics`, looked up when it is first chosen to run; None until then.
        self.account: Any = None
        #: The lane of the request that it executes (runtime/requests).
        self.lane = 0
        #: The pieces of its work that are recorded as actions of their own: `recorder.Part`s; None: it is recorded whole.
        self.parts: list[Any] | None = None
        #: Time in queues, time running and CPU time so far, in ns.
        self.wait_ns = self.run_ns = self.cpu_ns = 0

    @property
    def is_long(self) -> bool:
        """Whether its run time has no limit: such a run is no sign of a stuck backplane, and is not reported as slow."""
        return False

    @property
    def has_begun(self) -> bool:
        """Whether it has run before and will run again. Still False during its first run."""
        return self.continues

    def urgency_behind(self) -> int | None:
        """The priority of the most urgent action that waits for this one outside the queue of its object, for example for a
        lock; None: there is none. Called with the lead.
        """
        return None

    def run(self) -> Outcome:
        """Do the work, in a worker's thread. Never runs at the same time as another action of the same object."""
        raise NotImplementedError(f"{type(self).__name__} has no run(): define it")

    def refuse(self, error: BackplaneError) -> None:
        """Called when it will not run (again). The caller gets `error`. Override it to release resources that it holds."""
        self.error = error


@mypyc_attr(allow_interpreted_subclasses=True)
class ParkableAction(Action):
    """An action that may wait for something of its own, such as a lock: `run` returns WAITING, `Platform.resume` continues it.

    For subsystems built on the scheduler, such as the dispatcher. To await replies and pauses, use a coroutine instead.
    """

    __slots__ = ("is_resumed", "taken_back")

    def __init__(self, object: AppObject, name: Any, priority: Any, deadline_ns: Any = None) -> None:
        super().__init__(object, name, priority, deadline_ns)
        #: `resume` was called before the worker had parked it, so it is not parked at all.
        self.is_resumed = False
        #: Set when its caller cancels it while it runs: the error to end with, if none of its work is done yet.
        self.taken_back: BackplaneError | None = None

    def waits_for(self) -> Sequence[Action]:
        """The actions of this backplane that it waits for; they inherit its priority. The caller holds the lead."""
        return ()

    def waits_because(self) -> str:
        """What it waits for, in words (`the lock of Room 'kitchen'`); empty if it does not wait. The caller holds the lead."""
        return ""

    def doing(self) -> str:
        """The part of it that runs now, for reports of slow actions; empty if it has no parts. The caller holds the lead."""
        return ""

    def priority_changed(self) -> None:
        """Called when its priority changes while it waits. The caller holds the lead."""


def lent(priority: int, object: AppObject) -> int:
    """The priority of an action of `object` called at `priority`, raised to the object's minimum (`lends`) if it has one."""
    return priority if object.lends is None else min(priority, object.lends)


def own_priority(action: Action) -> int:
    """The priority of an action without regard to work that waits behind it: that of its caller, or the one that it has chosen
    if that is more urgent, or if no caller waits for it.
    """
    called = action.priority_asked if action.priority_boosted < 0 else action.priority_boosted
    chosen = action.priority_chosen
    if chosen >= 0 and (chosen < called or action.peer is None):
        called = chosen
    return lent(called, action.object)


def _mistyped(kind: str, name: object, priority: object, deadline_ns: object) -> str:
    """The error text for the first argument of wrong type of an action of class `kind`."""
    if type(name) is not str:
        return f"{kind}.name is a {type(name).__name__}: expected a string"
    if not isinstance(priority, int):
        return f"{name}: priority {priority!r}, expected an integer"
    return f"{name}: deadline_ns is {deadline_ns!r}, expected whole nanoseconds"


def run_foreign(action: Any) -> Outcome:
    """Run a user's subclass of `Action`, and raise TypeError if its `run` returned no valid outcome."""
    outcome = action.run()
    if outcome is DONE or outcome is YIELDED or (outcome is WAITING and isinstance(action, ParkableAction)):
        return outcome
    returned = str(outcome) if isinstance(outcome, Outcome) else type(outcome).__name__
    raise TypeError(f"{type(action).__name__}.run() returned {returned}: expected Outcome.DONE or YIELDED")
