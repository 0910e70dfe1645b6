"""ScheduledCommands: runs the commands of a schedule when they are due, as actions like any other work (law 8).

Intervals are timers of the scheduler, exact. Times of day are checked twice a second by the kernel's watchdog, because the
wall clock may be put forward or back (schedule.py). A command that has not ended when it is due again is left out. They run
while the component serves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from appbackplane.transport.errors import BackplaneError

from ...objects.action import Action
from ...objects.platform import WorkHandle
from .command_routes import CommandRoutes
from .schedule import DayTimes, When

log = logging.getLogger("appbackplane.runtime")


class ScheduledCommands:
    """The scheduled commands of one kernel, from `begin` to `end`."""

    def __init__(
        self, routes: CommandRoutes, set_timer: Callable[[int, Callable[[], Action | None]], WorkHandle],
        post: Callable[[Action], None], now: Callable[[], datetime],
    ) -> None:  # fmt: skip
        """`now`: returns the time of the wall clock."""
        self._routes, self._set_timer, self._post, self._now = routes, set_timer, post, now
        self._timers: list[WorkHandle] = []
        self._day_times: DayTimes | None = None
        self._by_day: Sequence[tuple[When, str]] = ()
        #: Lines by time of day whose commands have not ended.
        self._pending: set[str] = set()

    def begin(self, lines: Sequence[tuple[When, str]]) -> None:
        """Run this schedule from now on, in place of any other."""
        self.end()
        for when, line in lines:
            if when.every_ns:
                self._timers.append(_Interval(self, when, line).handle)
        self._by_day = [(when, line) for when, line in lines if not when.every_ns]
        self._day_times = DayTimes([when for when, _ in self._by_day], self._now()) if self._by_day else None

    def end(self) -> None:
        """Run no more commands; running ones go on."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._by_day, self._day_times = (), None

    def run_due(self) -> None:
        """Check the wall clock, and run the commands that are due."""
        if self._day_times is None:
            return
        for number in self._day_times.due(self._now()):
            when, line = self._by_day[number]
            if line in self._pending:
                log.warning(
                    "%s: %s (%s) is skipped: its previous run has not ended", self._routes.name, line, when.text
                )
                continue
            self._pending.add(line)
            try:
                self._post(self._routes.by_clock(line, when, partial(self._pending.discard, line)))
            except BackplaneError as error:
                self._pending.discard(line)
                log.error("%s: %s (%s) could not be run: %s", self._routes.name, line, when.text, error)


class _Interval:
    """A command that runs at an interval."""

    def __init__(self, scheduled: ScheduledCommands, when: When, line: str) -> None:
        self._scheduled, self._when, self._line = scheduled, when, line
        self.handle: Any = scheduled._set_timer(when.every_ns, self._make)

    def _make(self) -> Action | None:
        return self._scheduled._routes.by_clock(self._line, self._when, self._ended)

    def _ended(self) -> None:
        self.handle.is_pending = False
