"""Connecting: how a blocking client comes to its system, at first and again when it was gone.

Apart from what each call does (calling.py), which only asks whether there is a directory. Called with the client's lock held;
waiting lets go of it.
"""

from collections.abc import Callable
from typing import Final

from .errors import DeadlineExceeded, PeerDown, SystemNotRunning
from .session import ClientSession
from .waitables import Outcome, Owner, Waitable
from .waiting import Waiting
from .ways import Way, is_back_soon, not_in_time

#: A system that is not up is looked for as often: a look costs 0.1 ms, and a system needs some 300 ms to come up.
LOOK_AGAIN_NS: Final = 50_000_000
#: A route that is not known may be newer than the directory here, which is fetched once then. That takes a millisecond; a
#: supervisor that does not answer must not hold up for longer that nobody serves the route.
FETCH_LIMIT_NS: Final = 1_000_000_000
#: Within so long of the last one it is not fetched again: a client that calls a route which nobody serves in a loop would load
#: the supervisor with a directory a millisecond, and news is pushed within a few of these.
FETCH_AGAIN_NS: Final = 100_000_000


class Connecting:
    """Part of a client's `Calling`."""

    def __init__(
        self, owner: Owner, way: Way, session: ClientSession, waiting: Waiting, now_ns: Callable[[], int]
    ) -> None:
        self._owner = owner
        self._now_ns = now_ns
        self._way = way
        self._session = session
        self._waiting = waiting
        #: From when on the directory may be fetched again.
        self._fetch_again_ns = 0

    def start(self, limit_ns: int, *, is_patient: bool = False) -> None:
        """Connect. `is_patient`: a node that is not there may come back until then; its link waits before it dials again."""
        until_ns = self._now_ns() + limit_ns
        while True:
            now_ns = self._now_ns()
            started = self.begin(now_ns, until_ns - now_ns)
            if not self._waiting.wait(started, until_ns):  # a signal's exception has struck who was about to end it
                started._error = DeadlineExceeded(f"{started.route}: no answer before the deadline")
                self._waiting.ready(started)
            error = started._error
            if error is None:
                return
            if not (is_patient and is_back_soon(self._way, error)):
                raise not_in_time(self._way, error)

    def await_system(self, limit_ns: int) -> None:
        """Connect, and wait for a system that is not up yet. Raises what was in the way when the time is over."""
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
        """Fetch the directory, which the next look then follows, unless that has just been done. In vain: it stays as it was.

        Others have the lock meanwhile: the client may be closed when this returns.
        """
        now_ns = self._now_ns()
        if now_ns < self._fetch_again_ns:
            return
        limit_ns = min(limit_ns, FETCH_LIMIT_NS)
        fetched = Outcome(self._owner, "supervisor.directory")
        self._session.start(fetched, now_ns, limit_ns)
        self._waiting.wait(fetched, now_ns + limit_ns)
        self._fetch_again_ns = self._now_ns() + FETCH_AGAIN_NS

    def begin(self, now_ns: int, limit_ns: int) -> Outcome:
        """Begin to connect; what is returned ends when it is done."""
        lifeline_fd = self._way.open()
        if lifeline_fd is not None:
            self._waiting.watch(lifeline_fd)
        started = Outcome(self._owner, "supervisor.directory")
        self._session.start(started, now_ns, limit_ns)
        return started
