"""Element: a request queue element (RQE), what the kernel knows of one request from its posting to its rejoining.

The source's RQElement (seed 001, section 5.1): state, attributes, priority, owner, and who executes it. It is what `post` gives
and what rejoins; its poster may look at it meanwhile. Written by the ledger alone, under the kernel's mutex: a reader sees the
state before or after a change, never between.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import Any, Final, NamedTuple

from appbackplane.transport.errors import FailedPrecondition

from .errors import RequestFailed

#: Service requests, feeders, unit transactions, and parts of a transaction (seed 001, section 5.1.3).
LANES: Final = 4
#: Beyond it, either way, a priority could not travel to another process, nor what it is of.
PRIORITY_MAX: Final = 1 << 62
#: How the error of a request begins whose worker was lost; an exception's begins with its class.
LOST: Final = "lost worker: "
#: Where requests go that say nothing: never constrained.
LANE_DEFAULT: Final = LANES - 1


class State(Enum):
    """How far a request has come."""

    POSTED = "posted"  # its poster waits for an entry of the ready pool
    READY = "ready"  # it has one
    EXECUTING = "executing"
    REJOINABLE = "rejoinable"  # it has ended, and waits in the rejoin pool
    JOINED = "joined"  # its owner has it
    FAILED = "failed"  # its owner has it, and an error instead of a result
    DONE = "done"  # it has ended, and nobody wanted it back


class Failure(NamedTuple):
    """Why a request has no result."""

    #: One line.
    error: str
    #: The traceback, as text; None: nothing was raised.
    trace: str | None = None
    #: The class of what was raised, as a traceback names it; None: nothing was, or it is not known.
    error_type: str | None = None
    #: What was raised, if it was in this process; without its traceback.
    cause: BaseException | None = None


class Packed:
    """A result as it travels; unpacked when it rejoins, by who wants it."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Element:
    """One request, and what becomes of it."""

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
        #: Counted from 1 by its kernel.
        self.id = id
        #: What the poster gave.
        self.request = request
        #: The name of the class that executes it.
        self.runnable = runnable
        #: For whom it rejoins.
        self.owner = owner
        #: Larger is more urgent; what it was posted with.
        self.priority = priority
        self.lane = lane
        #: Whether it comes back to its owner when it has ended.
        self.is_rejoined = is_rejoined
        #: Whether it ages faster than others.
        self.is_boosted = is_boosted
        #: The request whose execution posted it; None: it came from outside.
        self.parent = parent
        #: Owners that end with it (owners.Part), by number, and how many there ever were.
        self.parts: dict[int, Hashable] = {}
        self.parts_count = 0
        #: The request as it travels; b"": it does not.
        self.packed = b""
        self.state = State.POSTED
        self.result: Any = None
        #: One line; None: it went well, or has not ended.
        self.error: str | None = None
        #: More of `error`, where its execution ended in it.
        self.failure: Failure | None = None
        #: Who executes it, or has; "": nobody yet.
        self.worker = ""
        #: When it was posted, had its entry, was begun and ended: monotonic ns, 0 for not yet; and how long it ran.
        self.posted_ns = self.ready_ns = self.started_ns = self.ended_ns = self.run_ns = 0
        #: Of its owner (owners.Account), while it exists: owners are asked what they equal once, and not while it ends.
        self.account: Any = None
        #: The how many-th of that account it is.
        self.turn = 0
        #: Who is told when it has its entry.
        self.waiter: Any = None
        #: What its execution waits for in the kernel: "" for nothing (stall.py).
        self.waits_for = ""
        #: Its place in the ready pool (ready_pool.py): what its priority would have been at age 0, and its turn among equals.
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
        """The class of what `execute` raised, as a traceback names it: "ValueError", "words.Unreadable"."""
        return None if self.failure is None else self.failure.error_type

    @property
    def cause(self) -> BaseException | None:
        """What `execute` raised, where that was in this process; without its traceback."""
        return None if self.failure is None else self.failure.cause

    @property
    def is_lost(self) -> bool:
        """Whether it failed with its worker, and may have been executed or not."""
        return self.error is not None and self.error.startswith(LOST)

    def get(self) -> Any:
        """What it returned, now that it has rejoined. Raises `RequestFailed` where it has no result."""
        if self.error is not None:
            raise RequestFailed(self)
        if self.state is not State.JOINED:
            raise FailedPrecondition(f"{self!r} has not rejoined: ask those that rejoin() and joined() give")
        return self.result

    def __repr__(self) -> str:
        return f"<{self.runnable} {self.id} {self.state.value}, lane {self.lane}, priority {self.priority}>"


class Done(NamedTuple):
    """How one request ended, as its worker says."""

    element: Element
    result: Any
    failure: Failure | None
    run_ns: int
    #: Of a request that was executed on another machine: how much CPU it used, and when it began, by the clock of this one.
    cpu_ns: int = 0
    began_ns: int = 0
