"""Action: one piece of work for one object. Calls, replies, topics, timers and state changes are all actions (law 8).

The scheduler knows nothing else: an action has an object, a priority and a deadline; running it says whether the object
is done, awaits a reply, or only steps aside. A foreign protocol becomes work by subclassing `Action` (seed 002, "All
operations are Actions"). Slots and a `next` link: the queue of an object is a linked list of its actions, so that an
idle object owns no queue at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from mypy_extensions import mypyc_attr

from appbackplane.transport.errors import BackplaneError

if TYPE_CHECKING:
    from .app_object import AppObject

#: Stands for the peer of a call whose caller is an action of this very backplane.
LOCAL: Final = b""
#: A call that came without a deadline gets this one: every call has one (DESIGN 12.5).
DEADLINE_DEFAULT_NS: Final = 30_000_000_000


class Throttle(Protocol):
    """The account in which an admitted request counts until it ends (scheduling/throttle.py)."""

    def ended(self, now_ns: int) -> None: ...
    def may_be_refused(self, priority: int) -> None: ...


class Outcome(Enum):
    """What became of the object when its action stopped running."""

    DONE = "done"
    WAITING = "waiting"  # for one reply, in the wait queue (law 6)
    YIELDED = "yielded"  # stepped aside for higher-priority work; goes on before anything else of its object


#: Looked up once: each look into the enum costs compiled code as much as a call.
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
    """

    __slots__ = (
        "account", "call_id", "chain", "continues", "cpu_ns", "deadline_ns", "error", "lane", "name", "next", "object",
        "on_end", "parts", "peer", "posted_ns", "priority", "priority_asked", "priority_own", "result", "run_ns", "span",
        "started_ns", "throttle", "trace", "wait_ns",
    )  # fmt: skip

    # Of any type until it has been checked: compiled code would refuse it in words of its own.
    def __init__(self, object: AppObject, name: Any, priority: Any, deadline_ns: Any = None) -> None:
        """`name`: a string. `priority`: an integer. `deadline_ns`: an integer or None. Raises TypeError for anything else."""
        if (
            type(name) is not str
            or not isinstance(priority, int)
            or (deadline_ns is not None and not isinstance(deadline_ns, int))
        ):
            raise TypeError(_mistyped(type(self).__name__, name, priority, deadline_ns))
        self.object = object
        #: What statistics and warnings call it; for an operation, its route.
        self.name = name
        #: 0 is highest.
        self.priority = priority
        #: Before it inherited a more urgent one.
        self.priority_asked = priority
        #: What its caller gives it: as asked, until the caller itself becomes more urgent, or less. It falls back to this once
        #: nothing more urgent waits for it (execution/inheritance.py).
        self.priority_own = priority
        #: Monotonic ns after which it is not begun; None: never too late.
        self.deadline_ns = deadline_ns
        #: When it was last queued, 0 once it has ended; written by those who queue and end it.
        self.posted_ns = 0
        #: Whether it may run while its object awaits a reply: the reply itself, or a reentrant call.
        self.continues = False
        self.next: Action | None = None
        #: What the caller gets: set `result` in `run`, or raise.
        self.result: Any = None
        self.error: BaseException | None = None
        #: Who waits for the answer: a peer, LOCAL, or None for nobody; and its context id. Written by the intake.
        self.peer: bytes | None = None
        self.call_id = 0
        #: [object, route] of every call that waits for this one, outermost first.
        self.chain: Sequence[Sequence[str]] = ()
        self.trace: str | None = None
        #: The account in which it counts as outstanding.
        self.throttle: Throttle | None = None
        #: Called once, when it has ended, however it did.
        self.on_end: Callable[[Action], None] | None = None
        #: By which others know that it called them; 0 until it does.
        self.span = 0
        #: When it first ran; 0: not yet.
        self.started_ns = 0
        #: Where it is booked; found once, when it is first chosen.
        self.account: Any = None
        #: The lane of the request that it executes (runtime/requests).
        self.lane = 0
        #: Where it did several pieces of work, and each is to be recorded as if it had been an action: `recorder.Part`s.
        self.parts: list[Any] | None = None
        #: Time in queues, time running and CPU time so far.
        self.wait_ns = self.run_ns = self.cpu_ns = 0

    @property
    def is_long(self) -> bool:
        """Whether it may run for as long as it likes: nobody takes its backplane for wedged, or says that it is slow."""
        return False

    @property
    def has_begun(self) -> bool:
        """It has run, and goes on; not known while it runs for the first time."""
        return self.continues

    def urgency_behind(self) -> int | None:
        """The priority of the most urgent action that waits for this one and is not in the queue of its object, such as one
        that waits for a lock; None: there is none. Called with the lead.
        """
        return None

    def run(self) -> Outcome:
        """Do the work. Called by a worker, never at the same time as another action of the same object."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it does: define run()")

    def refuse(self, error: BackplaneError) -> None:
        """It will not run (again). Its caller is told `error`; override to let go of what it holds."""
        self.error = error


@mypyc_attr(allow_interpreted_subclasses=True)
class ParkableAction(Action):
    """An action that may wait for something of its own: `run` returns WAITING, and runs again once `resume` was called for it.

    For whole systems on top of the scheduler; what awaits replies and pauses is a coroutine.
    """

    __slots__ = ("is_resumed", "taken_back")

    def __init__(self, object: AppObject, name: Any, priority: Any, deadline_ns: Any = None) -> None:
        super().__init__(object, name, priority, deadline_ns)
        #: What it waits for has come before it was put aside.
        self.is_resumed = False
        #: Its caller wants no answer any more: how it is to end, if nothing of it is done yet.
        self.taken_back: BackplaneError | None = None

    def waits_for(self) -> Sequence[Action]:
        """Those of this backplane that stand in its way while it waits. Called with the lead."""
        return ()

    def waits_because(self) -> str:
        """What it waits for, for people (`the lock of Room 'kitchen'`); empty: nothing. Called with the lead."""
        return ""

    def doing(self) -> str:
        """What of it runs now, for a report that it takes long; empty: all that there is. Called with the lead."""
        return ""

    def boosted(self) -> None:
        """Its priority has changed while it waits. Called with the lead."""


def _mistyped(kind: str, name: object, priority: object, deadline_ns: object) -> str:
    """Which argument of an action of class `kind` has the wrong type."""
    if type(name) is not str:
        return f"{kind}.name is a {type(name).__name__}: expected a string"
    if not isinstance(priority, int):
        return f"{name}: priority {priority!r}, expected an integer"
    return f"{name}: deadline_ns is {deadline_ns!r}, expected whole nanoseconds"


def run_foreign(action: Any) -> Outcome:
    """Run what a user's subclass of `Action` does, which may return anything."""
    outcome = action.run()
    if outcome is DONE or outcome is YIELDED or (outcome is WAITING and isinstance(action, ParkableAction)):
        return outcome
    returned = str(outcome) if isinstance(outcome, Outcome) else type(outcome).__name__
    raise TypeError(f"{type(action).__name__}.run() returned {returned}: expected Outcome.DONE or YIELDED")
