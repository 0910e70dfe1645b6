"""Element: a request queue element (RQE), the kernel's record of one request from posting to rejoining.

The source's RQElement (seed 001, section 5.1): state, attributes, priority, owner, and executing worker. `post` returns it,
and it is the object that rejoins; its poster may read it meanwhile. Until it rejoins, its state changes only in the ledger,
under the kernel's mutex: a reader sees the state before or after a change, never between.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import Any, Final, NamedTuple

from appbackplane.transport.errors import FailedPrecondition

from ..errors import RequestFailed

#: Number of lanes: service requests, feeders, unit transactions, and parts of a transaction (seed 001, section 5.1.3).
LANES: Final = 4
#: Largest priority, the least urgent. A larger number could not be sent to another process.
PRIORITY_MAX: Final = 1 << 62
#: Priority of requests posted without one. With the default `step` of 10, it leaves room for ten backplane priorities above it.
REQUEST_PRIORITY: Final = 100
#: Prefix of the error of a request whose worker was lost; an exception's error begins with its class.
LOST: Final = "lost worker: "
#: Lane of requests posted without one: never constrained.
LANE_DEFAULT: Final = LANES - 1


class State(Enum):
    """The states of a request, in the order of its life."""

    POSTED = "posted"  # its poster waits for an entry of the ready pool
    READY = "ready"  # it has an entry, and waits for a worker
    EXECUTING = "executing"
    REJOINABLE = "rejoinable"  # it has ended, and waits in the rejoin pool
    JOINED = "joined"  # its owner has it, with a result
    FAILED = "failed"  # its owner has it, with an error; or it was withdrawn
    DONE = "done"  # it has ended, and nobody wanted it back


class Failure(NamedTuple):
    """Why a request has no result."""

    #: One line.
    error: str
    #: The traceback, as text; None: nothing was raised.
    trace: str | None = None
    #: Class of the exception, as a traceback names it; None: nothing was raised, or the class is unknown.
    error_type: str | None = None
    #: The exception, if it was raised in this process; without its traceback.
    cause: BaseException | None = None


class Packed:
    """A result in wire format, unpacked when it rejoins in the process that wants it."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Element:
    """One request: its parameters, its state, and its outcome."""

    __slots__ = (
        "account", "ended_ns", "error", "failure", "id", "is_boosted", "is_rejoined", "key", "lane", "owner", "packed",
        "parent", "parts", "parts_count", "posted_ns", "priority", "ready_ns", "request", "result", "run_ns", "runnable",
        "sequence", "started_ns", "state", "turn", "waiter", "waits_for", "worker",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        request: Any,
        runnable: str,
        owner: Hashable,
        priority: int,
        lane: int,
        *,
        is_rejoined: bool = True,
        is_boosted: bool = False,
        parent: Element | None = None,
    ) -> None:
        #: Counted from 1 by its kernel; 0 before it is posted.
        self.id = id
        #: The request object, as its poster gave it.
        self.request = request
        #: The name of the class that executes it.
        self.runnable = runnable
        #: The owner to which it rejoins.
        self.owner = owner
        #: 0 is the most urgent; as posted, without ageing.
        self.priority = priority
        self.lane = lane
        #: Whether it comes back to its owner when it has ended.
        self.is_rejoined = is_rejoined
        #: Whether it ages faster than others.
        self.is_boosted = is_boosted
        #: The request whose execution posted it; None: it came from outside.
        self.parent = parent
        #: Owners that end with this request (owners.Part), by number, and how many there ever were.
        self.parts: dict[int, Hashable] = {}
        self.parts_count = 0
        #: The request in wire format; b"": it does not leave this process.
        self.packed = b""
        self.state = State.POSTED
        self.result: Any = None
        #: One line; None: no error, or not ended yet.
        self.error: str | None = None
        #: Details of `error`; None also if the request was withdrawn.
        self.failure: Failure | None = None
        #: The worker that executes it, or has; "": none yet.
        self.worker = ""
        #: Times of its posting, entry, begin and end: monotonic ns, 0 for not yet; and how long it ran.
        self.posted_ns = self.ready_ns = self.started_ns = self.ended_ns = self.run_ns = 0
        #: Its owner's account (owners.Account), kept so that no `__hash__` or `__eq__` of an owner runs when the request ends.
        self.account: Any = None
        #: Its number within that account.
        self.turn = 0
        #: The poster's waiter, notified when the request has its entry.
        self.waiter: Any = None
        #: Reason for which its execution waits in the kernel (stall.py); "": it does not wait.
        self.waits_for = ""
        #: Its order in the ready pool (ready_pool.py): its priority at age 0, and its turn among equals.
        self.key = self.sequence = 0

    @property
    def is_failed(self) -> bool:
        """Whether it ended without a result."""
        return self.error is not None

    @property
    def trace(self) -> str | None:
        """The traceback behind `error`, where there is one."""
        return None if self.failure is None else self.failure.trace

    @property
    def error_type(self) -> str | None:
        """Class of the exception that `execute` raised, as a traceback names it: "ValueError", "words.Unreadable"."""
        return None if self.failure is None else self.failure.error_type

    @property
    def cause(self) -> BaseException | None:
        """The exception that `execute` raised, without its traceback; None: none was raised in this process."""
        return None if self.failure is None else self.failure.cause

    @property
    def is_lost(self) -> bool:
        """Whether its worker was lost: then it may have been executed or not."""
        return self.error is not None and self.error.startswith(LOST)

    def get(self) -> Any:
        """Its result. Raises `RequestFailed` if it has none, `FailedPrecondition` if it has not rejoined."""
        if self.error is not None:
            raise RequestFailed(self)
        if self.state is not State.JOINED:
            raise FailedPrecondition(f"{self!r} has not rejoined: ask requests that rejoin() and joined() return")
        return self.result

    def __repr__(self) -> str:
        return f"<{self.runnable} {self.id} {self.state.value}, lane {self.lane}, priority {self.priority}>"


class Done(NamedTuple):
    """Outcome of one request, as its worker reports it."""

    element: Element
    result: Any
    failure: Failure | None
    run_ns: int
    #: Only of requests executed on another machine: the CPU that they used, and when they began, by this machine's clock.
    cpu_ns: int = 0
    began_ns: int = 0
