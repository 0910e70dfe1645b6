"""Replies: replies that do not answer a call, by an id: a message of a topic, a foreign protocol, a person.

"For each msg1 being processed, there will be a context block for storing an id, current state, and various associated data …
There is a timer associated with each context in case reply times out. As replies come in or a timer fires, the associated
context makes its state transition" (seed 004). The context is the waiting operation: its local variables are the data, the
`await` is the state, and the time limit is the timer. Only the id has to be known to others.

Not compiled: mypyc would word the errors for bad arguments itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from appbackplane.transport.call_checks import is_number
from appbackplane.transport.errors import DeadlineExceeded, FailedPrecondition

from ...objects.app_object import AppObject
from ..actions.coroutines import OneShotEvent


class _Expected:
    __slots__ = ("error", "event", "value")

    def __init__(self, event: OneShotEvent) -> None:
        self.event = event
        self.value: Any = None
        self.error: BaseException | None = None


class Replies:
    """The replies that operations of one object await, by id. Make one in `__init__`: `self.replies = Replies(self)`.

    The object should have `interleaves = True`: otherwise it serves nobody while it waits, and so cannot receive the reply.
    """

    def __init__(self, object: AppObject) -> None:
        self._object = object
        self._expected: dict[Hashable, _Expected] = {}

    async def wait(self, id: Hashable, timeout: float = 30.0) -> Any:
        """Await the reply with this id, and return it: `answer = await self.replies.wait(frame_id, timeout=0.5)`.

        timeout: seconds. Raises `DeadlineExceeded` when they have passed, `FailedPrecondition` if another operation awaits the
        same id, the error given to `fail`, and TypeError or ValueError for a bad `timeout`.
        """
        if not is_number(timeout):
            raise TypeError(f"wait(timeout={timeout!r}): expected a number of seconds")
        if not timeout >= 0:
            raise ValueError(f"wait(timeout={timeout!r}): expected a number of seconds, 0 or more")
        if id in self._expected:
            raise FailedPrecondition(f"{self._object.name}: the reply {id!r} is already awaited")
        expected = self._expected[id] = _Expected(OneShotEvent(round(timeout * 1e9), f"the reply {id!r}"))
        try:
            await expected.event
        finally:
            del self._expected[id]
        if expected.error is not None:
            raise expected.error
        if not expected.event.is_set:
            raise DeadlineExceeded(f"{self._object.name}: the reply {id!r} did not come within {timeout:g} s")
        return expected.value

    def put(self, id: Hashable, value: Any = None) -> bool:
        """The reply with this id has come. False: nobody awaits it (any more), and it is dropped. From any thread."""
        return self._end(id, value, None)

    def fail(self, id: Hashable, error: BaseException) -> bool:
        """Instead of a reply: `error` is raised where it is awaited. False as with `put`."""
        return self._end(id, None, error)

    def __contains__(self, id: object) -> bool:
        """Whether the reply with this id is awaited."""
        return id in self._expected

    def __len__(self) -> int:
        return len(self._expected)

    def __iter__(self) -> Iterator[Hashable]:
        """The ids that are awaited, the oldest first."""
        return iter([*self._expected])

    def _end(self, id: Hashable, value: Any, error: BaseException | None) -> bool:
        expected = self._expected.get(id)
        if expected is None or expected.event.is_set:
            return False
        expected.value, expected.error = value, error
        self._object._platform.set(expected.event)
        return True
