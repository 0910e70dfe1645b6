"""Connecting: how a blocking client connects to its system, at first and again after it was gone.

Separate from the calls (calling.py), which only check for a routing table.
"""

from collections.abc import Callable
from typing import Final

from .errors import DeadlineExceeded, PeerDown, SystemNotRunning
from .session import ClientSession
from .waitables import CallOutcome, Waitable, WaitableOwner
from .waiting import Waiting
from .ways import Way, is_back_soon, not_in_time

#: Interval between checks for a system that is not up: a check costs 0.1 ms, and a system needs some 300 ms to come up.
LOOK_AGAIN_NS: Final = 50_000_000
#: Limit of the one fetch of the routing table for an unknown route, which may be newer than the table. A fetch takes a
#: millisecond; a supervisor that does not answer must not delay the error for an unserved route longer.
FETCH_LIMIT_NS: Final = 1_000_000_000
#: No second fetch within this time of the last one: a client that calls an unserved route in a loop would load the
#: supervisor with a table a millisecond, and new tables are pushed within a few.
FETCH_AGAIN_NS: Final = 100_000_000


class Connecting:
    """Part of a client's `Calling`; used with its lock held, which waiting releases."""

    def __init__(
        self, owner: WaitableOwner, way: Way, session: ClientSession, waiting: Waiting, now_ns: Callable[[], int]
    ) -> None:
        self._owner = owner
        self._now_ns = now_ns
        self._way = way
        self._session = session
        self._waiting = waiting
        #: When the routing table may be fetched again.
        self._fetch_again_ns = 0

    def start(self, limit_ns: int, *, is_patient: bool = False) -> None:
        """Connect. `is_patient`: a node that is down may come back within the limit; the link waits before it dials again."""
        until_ns = self._now_ns() + limit_ns
        while True:
            now_ns = self._now_ns()
            started = self.begin(now_ns, until_ns - now_ns)
            if not self._waiting.wait(started, until_ns):
                # A signal's exception struck the thread that was about to end it.
                started._error = DeadlineExceeded(f"{started.route}: no answer before the deadline")
                self._waiting.ready(started)
            error = started._error
            if error is None:
                return
            if not (is_patient and is_back_soon(self._way, error)):
                raise not_in_time(self._way, error)

    def await_system(self, limit_ns: int) -> None:
        """Connect, and wait for a system that is not up yet. Raises the last obstacle when the time is over."""
        until_ns = self._now_ns() + limit_ns
        while True:
            try:
                return self.start(until_ns - self._now_ns(), is_patient=True)
            except (SystemNotRunning, PeerDown):
                again_ns = self._now_ns() + LOOK_AGAIN_NS
                if again_ns >= until_ns:
                    raise
            self._waiting.wait(Waitable(), again_ns)

    def fetch(self, limit_ns: int) -> None:
        """Fetch the routing table, unless just done; the next poll adopts it. If the fetch fails, the old one stays.

        Other threads get the lock meanwhile: the client may be closed when this returns.
        """
        now_ns = self._now_ns()
        if now_ns < self._fetch_again_ns:
            return
        limit_ns = min(limit_ns, FETCH_LIMIT_NS)
        fetched = CallOutcome(self._owner, "supervisor.directory")
        self._session.start(fetched, now_ns, limit_ns)
        self._waiting.wait(fetched, now_ns + limit_ns)
        self._fetch_again_ns = self._now_ns() + FETCH_AGAIN_NS

    def begin(self, now_ns: int, limit_ns: int) -> CallOutcome:
        """Begin to connect; the returned `CallOutcome` ends when connected, or in an error."""
        lifeline_fd = self._way.open()
        if lifeline_fd is not None:
            self._waiting.watch(lifeline_fd)
        started = CallOutcome(self._owner, "supervisor.directory")
        self._session.start(started, now_ns, limit_ns)
        return started
