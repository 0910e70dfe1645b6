"""TimerSource: messages at a later time, once or again and again. Cancelled, they leave no trace, even if they had fired.

Seed 003, section 3.2: a time-out that is set with a request and taken back with the answer, while it may be in the queue
already. It runs on the scheduler's timers (law 8), so under a virtual clock as well; each counts in the component's
`max_posted` until its message has been handled. A repeating one stays in step with its first time; while its last message
has not been handled the next is skipped, and counted.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, NamedTuple

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.request import is_number

from ...objects.app_object import WorkHandle
from ..handles import Handle, Ready
from ..message import Message
from ..protectors import shortened
from .source import Source, next_transaction, with_transaction

if TYPE_CHECKING:
    from ...objects.action import Action

#: 100 years: what is longer is a mistake in units, and would not fit into the clock's nanoseconds.
SECONDS_MAX = 100 * 366 * 86_400


class Begun(NamedTuple):
    """What was begun, in seconds."""

    seconds: float
    message: Message
    every: float | None


class TimerSource(Source):
    """Timers for handlers. Who cancels while he holds a datum that the message's handler shares is sure that it does not run.

    >>> def ask(question: Question, open: Open, timers: TimerSource) -> None:
    ...     open[question.server] = timers.begin(2.0, TimedOut(question.server))
    ...
    ... def answered(answer: Answer, open: Open, timers: TimerSource) -> None:
    ...     timers.cancel(open.pop(answer.server))
    """

    __slots__ = ("_mutex", "_timers")

    def __init__(self) -> None:
        #: Over `_timers`, and over what a timer's thread, its handlers and who cancels it share.
        self._mutex = threading.Lock()
        self._timers: dict[int, _Timer] = {}

    def begin(self, seconds: float, message: Message, *, every: float | None = None) -> int:
        """Have `message` handled `seconds` from now, and then each `every` seconds; its transaction id.

        Before its component serves: from when it does. Raises `InvalidArgument`, `NoHandler`, `Busy` at `max_posted`, and
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
        timer = _Timer(self, id, Begun(seconds, with_transaction(message, id), every))
        with self._mutex:
            self._check_open()  # once more: what stops it looks for timers in here
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
        """Take a timer back: no handler begins with its message any more. False: one has, or there is no such timer."""
        timer = self._forget(id)
        return timer is not None and timer.cancel()

    @property
    def begun(self) -> dict[int, Begun]:
        """What was begun, and has not been handled or cancelled, by transaction id."""
        with self._mutex:
            return {id: timer.begun for id, timer in self._timers.items()}

    @property
    def skipped_count(self) -> int:
        """Messages that repeating timers have left out, since the one before had not been handled."""
        with self._mutex:
            return sum(timer.skipped_count for timer in self._timers.values())

    def begin_emitting(self) -> None:
        """Those that were begun before."""
        with self._mutex:
            early = list(self._timers.values())
        for timer in early:
            timer.set()

    def end_emitting(self) -> None:
        """They are over; what has fired is handled."""
        self._end(list(self.begun))

    def _drain(self) -> None:
        """What was begun once belongs to what has begun, as what was set by `after`; repeating ones are over."""
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
    """One that was begun."""

    __slots__ = ("begun", "handle", "id", "is_handled_early", "is_over", "is_set", "scheduled", "source")

    def __init__(self, source: TimerSource, id: int, begun: Begun) -> None:
        self.source, self.id, self.begun = source, id, begun
        self.scheduled: WorkHandle | None = None
        #: What it has become and has not been handled.
        self.handle: Handle | None = None
        #: It fired, and that was handled, before `scheduled` was known.
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
        scheduled = dispatcher._host.later(dispatcher, name, round(seconds * 1e9), every_ns, self.fire)
        with self.source._mutex:
            self.scheduled = scheduled
            if self.is_handled_early:
                scheduled.is_pending = False
        if self.is_over:  # by another thread, which did not find it
            self.scheduled.cancel()

    def fire(self) -> Action | None:
        """By the scheduler, with the lead."""
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
        """Whether nothing of it is under way, which might still be cancelled."""
        handle = self._end()
        return handle is None

    def handled(self) -> None:
        """What it became is over."""
        if self.begun.every is None:
            self.source._forget(self.id)
            return  # its handle stays: who cancels it just now learns from it that it is too late
        with self.source._mutex:
            self.handle = None  # before the next may be made
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
            self.scheduled.cancel()  # if it is not known yet, `set` does that
        return handle


class _Fired(Ready):
    __slots__ = ("timer",)

    def __init__(self, timer: _Timer) -> None:
        super().__init__(timer.begun.message, lock=timer.source._lock)
        self.timer = timer

    def release(self) -> None:
        self.timer.handled()
