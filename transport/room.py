"""Room: the submits of a blocking client that wait until fewer calls are outstanding; the twin of async_room.py."""

from collections.abc import Callable

from .session import ClientSession
from .waitables import Waitable
from .waiting import Waiting


class Room:
    """Part of a client's `Calling`; used with its lock held."""

    def __init__(self, session: ClientSession, waiting: Waiting, now_ns: Callable[[], int]) -> None:
        self._session = session
        self._waiting = waiting
        self._now_ns = now_ns
        self._some = Waitable()
        #: Threads that wait for room. One that polls is no waiter meanwhile, and must notice room all the same.
        self.seekers_count = 0

    def wait(self, route: str, limit_ns: int) -> None:
        """Wait until there is room, at most `limit_ns`. Raises `Busy`."""
        until_ns = self._now_ns() + limit_ns
        self.seekers_count += 1
        try:
            while self._session.is_full:
                self._some.is_ready = False
                if not self._waiting.wait(self._some, until_ns):
                    raise self._session.no_room(route)
        finally:
            self.seekers_count -= 1

    def let_in(self) -> None:
        """A call has ended: the waiting threads check for room again."""
        self._waiting.ready(self._some)
