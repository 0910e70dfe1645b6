"""TimerSource: emits messages at a later time, once or repeatedly. Cancelled, they leave no trace, even if they had fired.

Seed 003, section 3.2: a time-out is set with a request and cancelled with the reply, although it may be queued already. It
runs on the scheduler's timers (law 8), so under a virtual clock as well. Each timer counts in the component's `max_posted`
until its message has been handled. A repeating one stays in phase with its first time; while its last message has not been
handled, the next is skipped and counted.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, NamedTuple

from appbackplane.transport.call_checks import is_number
from appbackplane.transport.errors import InvalidArgument

from ...objects.platform import WorkHandle
from ..handles import Handle, ReadyHandle
from ..message import Message
from ..protectors import shortened
from .source import Source, next_transaction, with_transaction

if TYPE_CHECKING:
    from ...objects.action import Action

#: 100 years: a longer time is a mistake in units, and would not fit into the clock's nanoseconds.
SECONDS_MAX = 100 * 366 * 86_400


class BegunTimer(NamedTuple):
    """Arguments of a begun timer; times in seconds."""

    seconds: float
    message: Message
    every: float | None


class TimerSource(Source):
    """Timers for handlers. Cancelling while holding a datum that the message's handler shares ensures that it does not run.

    >>> def ask(question: Question, open: Open, timers: TimerSource) -> None:
    ...     open[question.server] = timers.begin(2.0, TimedOut(question.server))
    ...
    ... def answered(answer: Answer, open: Open, timers: TimerSource) -> None:
    ...     timers.cancel(open.pop(answer.server))
    """

    __slots__ = ("_mutex", "_timers")

    def __init__(self) -> None:
        #: Guards `_timers`, and the state that a timer shares with the scheduler, handlers and cancellers.
        self._mutex = threading.Lock()
        self._timers: dict[int, _Timer] = {}

    def begin(self, seconds: float, message: Message, *, every: float | None = None) -> int:
        """Dispatch `message` `seconds` from now, and then each `every` seconds. Returns its transaction id.

        Before the component serves: from when it does. Raises `InvalidArgument`, `NoHandler`, `Busy` at `max_posted`, and
        `Unavailable` once it has stopped.
        """
        if not (is_number(seconds) and 0 <= seconds <= SECONDS_MAX):
            raise InvalidArgument(f"a timer in {shortened(seconds)} s: expected 0 or more, and at most {SECONDS_MAX}")
        if every is not None and not (is_number(every) and 0 < every <= SECONDS_MAX and math.ceil(every * 1e9)):
            raise InvalidArgument(f"a timer every {every!r} s: expected more than 0, and at most {SECONDS_MAX}")
        self._check_message(message)
        self._check_heard(type(message))
        self._check_open()
        id = next_transaction()
        timer = _Timer(self, id, BegunTimer(seconds, with_transaction(message, id), every))
        with self._mutex:
            self._check_open()  # again, with the mutex: stopping ends the timers found in this table
            self._timers[id] = timer
            is_running = self._is_running
        if is_running:
            try:
                timer.set()
            except BaseException:
                self._forget(id)
                raise
        return id

    def cancel(self, id: int) -> bool:
        """Cancel a timer: no handler begins with its message any more. False: one has begun, or there is no such timer."""
        timer = self._forget(id)
        return timer is not None and timer.cancel()

    @property
    def begun(self) -> dict[int, BegunTimer]:
        """Timers neither handled nor cancelled yet, by transaction id."""
        with self._mutex:
            return {id: timer.begun for id, timer in self._timers.items()}

    @property
    def skipped_count(self) -> int:
        """Messages skipped by current repeating timers, because the previous one had not been handled."""
        with self._mutex:
            return sum(timer.skipped_count for timer in self._timers.values())

    def begin_emitting(self) -> None:
        """Set the timers that were begun before."""
        with self._mutex:
            early = list(self._timers.values())
        for timer in early:
            timer.set()

    def end_emitting(self) -> None:
        """End all timers; messages that have fired are still handled."""
        self._end(list(self.begun))

    def _drain(self) -> None:
        """End repeating timers. A timer that fires once belongs to work that has begun, like one set by `after`."""
        self._end([id for id, begun in self.begun.items() if begun.every is not None])

    def _end(self, ids: list[int]) -> None:
        for id in ids:
            with self._mutex:
                timer = self._timers.get(id)
            if timer is not None and timer.stop():
                self._forget(id)

    def _forget(self, id: int) -> _Timer | None:
        with self._mutex:
            return self._timers.pop(id, None)


class _Timer:
    """One timer, from `begin` to its end."""

    __slots__ = ("begun", "handle", "id", "is_handled_early", "is_over", "is_set", "scheduled", "source")

    def __init__(self, source: TimerSource, id: int, begun: BegunTimer) -> None:
        self.source, self.id, self.begun = source, id, begun
        self.scheduled: WorkHandle | None = None
        #: Its fired message; a repeating timer clears it when that has been handled.
        self.handle: Handle | None = None
        #: It fired, and its message was handled, before `scheduled` was set.
        self.is_handled_early = False
        self.is_over = self.is_set = False

    @property
    def skipped_count(self) -> int:
        return self.scheduled.skipped_count if self.scheduled is not None else 0

    def set(self) -> None:
        dispatcher = self.source._dispatcher
        with self.source._mutex:
            if self.is_set or dispatcher is None:
                return
            self.is_set = True
        seconds, message, every = self.begun
        name = f"{dispatcher.component_name}.{type(message).__message__.name}"
        every_ns = 0 if every is None else math.ceil(every * 1e9)
        scheduled = dispatcher._platform.later(dispatcher, name, round(seconds * 1e9), every_ns, self.fire)
        with self.source._mutex:
            self.scheduled = scheduled
            if self.is_handled_early:
                scheduled.is_pending = False
        if self.is_over:  # by another thread, which did not find `scheduled`
            self.scheduled.cancel()

    def fire(self) -> Action | None:
        """Timer callback: called by the scheduler, with the lead."""
        source = self.source
        dispatcher = source._dispatcher
        assert dispatcher is not None
        handle = _Fired(self)
        with source._mutex:
            if self.is_over:
                return None
            self.handle = handle
        return dispatcher._sources.try_action_of(handle)

    def cancel(self) -> bool:
        handle = self._end()
        return handle is None or handle.cancel()

    def stop(self) -> bool:
        """End it. False: its message is under way, and might still be cancelled."""
        return self._end() is None

    def handled(self) -> None:
        """Its message has been handled, or never will be."""
        if self.begun.every is None:
            self.source._forget(self.id)
            return  # `handle` stays: a concurrent `cancel` learns from it that it is too late
        with self.source._mutex:
            self.handle = None  # before the next message may be made
            if self.is_over:
                self.source._timers.pop(self.id, None)
            if self.scheduled is None:
                self.is_handled_early = True
            else:
                self.scheduled.is_pending = False

    def _end(self) -> Handle | None:
        with self.source._mutex:
            self.is_over = True
            handle = self.handle
        if self.scheduled is not None:
            self.scheduled.cancel()  # if it is not set yet, `set` does that
        return handle


class _Fired(ReadyHandle):
    __slots__ = ("timer",)

    def __init__(self, timer: _Timer) -> None:
        super().__init__(timer.begun.message, lock=timer.source._lock)
        self.timer = timer

    def release(self) -> None:
        self.timer.handled()
