"""Pump: asks the function of a source for items while there is credit, and keeps the position behind which all have ended.

With `at_least_once` the position is that before the first item that has not ended, so that a source that was killed gives those
again. Otherwise it is that of the last item given, written before the item is sent: none is given twice, and those that had not
ended are counted as lost by the next process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ..execution.actions.coroutines import should_stop
from ..execution.actions.method_action import MethodAction
from ..objects.app_object import AppObject
from ..objects.operation import every
from ..objects.operation_spec import converted
from .outlet import Origin, StageOutlet
from .source_file import SourceFile, SourceRecord
from .stage import Stage

#: How often the position is kept: a source that was killed gives again the items of so long, beside those that had not ended.
KEEP_S = 0.2


class Pump(AppObject):
    """The source of one flow in one backplane."""

    def __init__(
        self, stage: Stage, outlet: StageOutlet, put: Callable[[list[Any], Origin], bool], *, is_repeating: bool
    ) -> None:
        """`put`: sends items on; False: there were none that could be."""
        self._stage = stage
        self._outlet = outlet
        self._put = put
        self._is_repeating = is_repeating
        self._items: Iterator[Any] | None = None
        #: Guards the fields below: items end in other threads.
        self._mutex = threading.Lock()
        self._file: SourceFile | None = None
        self._is_open = self._is_pulling = self._is_resting = self.is_at_end = False
        self._has_news = False
        #: Those that have not ended, in the order of the source, each with the number of its items.
        self._origins: deque[tuple[Origin, int]] = deque()
        self._given_position: Any = None
        self._ended_position: Any = None
        #: Totals of items, over all processes of this source. Lost ones count as ended, too.
        self.given_count = self.ended_count = self.lost_count = 0

    def open(self, file: SourceFile) -> None:
        """Go on where an earlier process has ended. Raises `msgspec.ValidationError` for the position of another source."""
        record = file.record
        position = record.position
        if position is not None:
            position = converted(self._stage.position_type, position)
        with self._mutex:
            if self._file is not None:
                self._file.close()
            self._file = file
            self._given_position = self._ended_position = position
            self.given_count, self.ended_count, self.lost_count = record.given, record.ended, record.lost
            if self._is_repeating:
                self.given_count = record.ended  # the others are given again
            else:
                self.lost_count += record.given - record.ended
                self.ended_count = record.given
            self._origins.clear()

    def start(self) -> None:
        """Begin, or go on."""
        self._is_open = True
        self.kick()

    def stop(self) -> None:
        """Ask for no further items."""
        self._is_open = False

    def close(self) -> None:
        """Keep the position, and no more from now on."""
        with self._mutex:
            self._keep()
            if self._file is not None:
                self._file.close()
                self._file = None

    def kick(self) -> None:
        """There may be credit: ask for items, unless that is under way. From any thread."""
        with self._mutex:
            if not self._is_open or self._is_pulling or self._is_resting or self.is_at_end or not self._wanted():
                return
            self._is_pulling = True
        component = self._component
        assert component is not None
        action = MethodAction(self, f"{component.component_name}.pull", self._stage.priority, Pump.pull, ())
        self._platform.post_own(component, action, is_counted=False)

    def pull(self) -> None:
        """Ask for one piece."""
        self._is_pulling = False
        wanted = self._wanted()
        if not wanted or not self._is_open or should_stop():
            return
        try:
            items, position = self._asked(wanted)
        except Exception:
            self._rest()
            raise
        if not items:
            if not self.is_at_end:
                self._rest()
            return
        origin = Origin()
        with self._mutex:
            self.given_count += len(items)
            self._given_position, origin.position = position, position
            self._origins.append((origin, len(items)))
            if not self._is_repeating:
                self._keep()
        if not self._put(items, origin):
            origin.is_ended = True
            self.ended()
        self.kick()

    def ended(self) -> None:
        """Some origins have ended."""
        with self._mutex:
            while self._origins and _has_ended(self._origins[0][0]):
                origin, count = self._origins.popleft()
                self._ended_position = origin.position
                self.ended_count += count
                self._has_news = True
            if not self._is_repeating and any(_has_ended(origin) for origin, _ in self._origins):
                self.ended_count += sum(count for origin, count in self._origins if _has_ended(origin))
                self._origins = deque(each for each in self._origins if not _has_ended(each[0]))
                self._has_news = True
        self.kick()

    @every(KEEP_S, priority=2)
    def keep(self) -> None:
        """Keep the position, if it has changed."""
        with self._mutex:
            if self._has_news:
                self._keep()

    def wake(self) -> None:
        """The source may have something again."""
        self._is_resting = False
        self.kick()

    # -- steps --------------------------------------------------------------------------------------------------------

    def _wanted(self) -> int:
        """How many items to ask for now; 0: the end of others will bring more credit."""
        outlet = self._outlet
        wanted = min(outlet.room, outlet.chunk_max)
        is_small = wanted < (outlet.chunk_max + 1) // 2 and (outlet.used_count or outlet.waiting_count)
        return 0 if is_small else wanted

    def _asked(self, wanted: int) -> tuple[list[Any], Any]:
        """At most `wanted` items, and the position of the last one."""
        stage = self._stage
        if not stage.is_pulled:
            if self._items is None:
                self._items = iter(stage.function())
            items = list(islice(self._items, wanted))
            self.is_at_end = len(items) < wanted
            return items, None
        items = list(stage.function(self._given_position, wanted) if stage.has_positions else stage.function(wanted))
        if len(items) > wanted:
            raise ValueError(f"source {stage.name} gave {len(items)} items, and {wanted} were wanted: return no more")
        if not stage.has_positions or not items:
            return items, None
        return [item for _, item in items], items[-1][0]

    def _rest(self) -> None:
        self._is_resting = True
        self.after(self._stage.poll_s, self.wake)

    def _keep(self) -> None:
        """With the mutex."""
        self._has_news = False
        if self._file is not None:
            position = self._ended_position if self._is_repeating else self._given_position
            self._file.write(SourceRecord(position, self.given_count, self.ended_count, self.lost_count))


def _has_ended(origin: Origin) -> bool:
    return origin.is_ended and not origin.has_failed
