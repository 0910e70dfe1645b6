"""Span buffer: the spans of ended actions, until a thread exports them (execution/records/span_export.py).

One span for each sampled action, and one for each of its waits. The holder of the lead adds them, without a lock and without
waiting for anybody: beyond the bound, spans are lost and counted. An exporter that is slow or dead costs no more than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from appbackplane.transport.call_spec import OWN
from appbackplane.transport.errors import BackplaneError, sound, text_of

from .recorder import outcome_of
from .span_ids import SpanIds

if TYPE_CHECKING:
    from ..objects.action import Action

#: Actions and waits that wait for the export, up to 1 KB each. An export once a second keeps up with 4,000 in a burst.
SPANS_MAX: Final = 8_192
#: Characters of an error that a span keeps.
MESSAGE_MAX: Final = 300


class EndedAction:
    """What a span says of an action: it was queued, began and ended at these monotonic times, in ns."""

    __slots__ = (
        "component", "cpu_ns", "ended_ns", "is_called", "message", "object", "outcome", "priority", "priority_asked",
        "queued_ns", "route", "run_ns", "source", "span", "started_ns", "trace", "wait_ns",
    )  # fmt: skip

    def __init__(self, action: Action, span: int, now_ns: int) -> None:
        object, error = action.object, action.error
        component = object._component
        self.route, self.object = action.name, object.name
        self.component = "" if component is None else component.component_name
        self.trace, self.span, self.is_called = action.trace, span, action.peer is not None
        self.started_ns, self.queued_ns, self.ended_ns = action.started_ns, action.queued_ns, now_ns
        if not self.started_ns:  # refused, before it ran
            self.started_ns, self.queued_ns = now_ns, now_ns - action.wait_ns
        self.wait_ns, self.run_ns, self.cpu_ns = action.wait_ns, action.run_ns, action.cpu_ns
        self.priority, self.priority_asked, self.source = action.priority, action.priority_asked, action.source
        self.outcome = 0 if error is None else outcome_of(error)
        self.message = _said(error)

    @property
    def spans_count(self) -> int:
        """How many spans are made of it."""
        return 3 if self.run_ns else 2


class EndedWait:
    """What a span says of one stay in the wait queue. Times are monotonic, in ns."""

    __slots__ = ("ended_ns", "message", "outcome", "span", "started_ns", "trace", "what")

    def __init__(
        self, action: Action, span: int, what: str, error: BackplaneError | None, started_ns: int, now_ns: int
    ) -> None:
        self.trace, self.span, self.what = action.trace, span, what
        self.started_ns, self.ended_ns = started_ns, now_ns
        self.outcome = 0 if error is None else outcome_of(error)
        self.message = _said(error)

    @property
    def spans_count(self) -> int:
        """How many spans are made of it."""
        return 1


def _said(error: BaseException | None) -> str:
    """The words of our own errors. `str()` of any other one would run a user's code, with the lead."""
    if error is None:
        return ""
    return text_of(sound(error).message, MESSAGE_MAX) if isinstance(error, BackplaneError) else type(error).__name__


class SpanBuffer:
    """The spans that were not exported yet. The holder of the lead adds; one thread takes."""

    def __init__(self, ids: SpanIds, wake: Callable[[], None]) -> None:
        """`wake`: called when it is half full, with the lead; it must not wait."""
        self._ids = ids
        self._wake = wake
        self._ended: deque[EndedAction | EndedWait] = deque()
        #: Spans that found no room.
        self.lost_count = 0

    def record(self, action: Action, now_ns: int) -> None:  # hot: scripts/bench traces
        """Add the span of an action that ended at `now_ns`, if its trace is sampled. A backplane's own operations have none."""
        if self._ids.is_sampled(action) and not action.name.startswith(OWN):
            self._put(EndedAction(action, self._ids.of(action), now_ns))

    def waited(self, action: Action, what: str, error: BackplaneError | None, since_ns: int, now_ns: int) -> None:
        """Add the span of a wait of an action, if its trace is sampled. `what`: what it waited for."""
        if self._ids.is_sampled(action):
            self._put(EndedWait(action, self._ids.of(action), what, error, since_ns, now_ns))

    def take(self, most: int) -> list[EndedAction | EndedWait]:
        """The oldest spans, at most so many."""
        ended = self._ended
        return [ended.popleft() for _ in range(min(most, len(ended)))]

    def spans_count(self) -> int:
        """How many spans wait here. From any thread."""
        return sum(ended.spans_count for ended in self._ended.copy())

    def _put(self, ended: EndedAction | EndedWait) -> None:
        count = len(self._ended)
        if count == SPANS_MAX // 2:
            self._wake()
        if count < SPANS_MAX:
            self._ended.append(ended)
        else:
            self.lost_count += ended.spans_count
