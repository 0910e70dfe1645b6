"""Reports: rate-limited log lines about failures, slow actions, malformed frames, and refusals without a waiting caller.

A system in trouble must not be drowned by its own reports. So each subject is logged once an interval, with the number left
out since (observation/rate_limit.py).
"""

from __future__ import annotations

import logging
from types import FrameType

from appbackplane.transport.errors import BackplaneError, text_of

from ...objects.action import Action, ParkableAction
from ...observation.rate_limit import RateLimit
from ...observation.slow_actions import SlowActions
from ..logs.log_handler import of_action

log = logging.getLogger("appbackplane.runtime")


class Reports:
    """Logs and counts problems. Part of the engine: used under the lead."""

    def __init__(self, slow_action_ns: int) -> None:
        self.slow_actions = SlowActions(slow_action_ns)
        self.malformed_count = 0
        self._limit = RateLimit()
        #: Slow actions that have been reported and still run; by identity, for a user's action may be unhashable.
        self.noticed: set[int] = set()

    def failed(self, action: Action, error: BaseException, now_ns: int, *, is_bug: bool = True) -> None:
        """An operation raised an error that its caller is not to handle: log it; if it is a bug, with its traceback."""
        left_out = self._limit.admit(f"failure {action.name}", now_ns)
        if left_out is not None:
            more = f" ({left_out} more since the last report)" if left_out else ""
            problem = text_of(error)
            trace = error.trace if isinstance(error, BackplaneError) else None
            # A request's traceback, or the one that a callee sends in debug.
            behind = f"; behind it:\n{trace}" if trace else ""
            words = (action.name, action.object.name, problem, more, behind)
            log.error("%s on %s failed: %s%s%s", *words, exc_info=error if is_bug else None, extra=of_action(action))

    def runs_slowly(self, action: Action, run_ns: int, now_ns: int, frame: FrameType | None) -> None:
        """A running action has exceeded `slow_action`; `frame`: its current stack."""
        self.noticed.add(id(action))
        self._say_slow(action, run_ns, now_ns, frame, is_running=True)

    def was_slow(self, action: Action, run_ns: int, now_ns: int) -> None:
        """A slow action has ended: count it, and report it unless it was reported while it ran."""
        self.slow_actions.count += 1
        if id(action) in self.noticed:
            self.noticed.discard(id(action))
        else:
            self._say_slow(action, run_ns, now_ns, None, is_running=False)

    def malformed(self, peer: bytes, error: Exception, now_ns: int) -> None:
        """A peer has sent a malformed frame: count and log it."""
        self.malformed_count += 1
        if self._limit.admit(f"malformed {peer!r}", now_ns) is not None:
            log.warning("malformed frame from peer %r dropped: %s", peer, error)

    def refused(self, subject: str, problem: str, now_ns: int) -> None:
        """A cast or a topic's message was refused: log it, since no caller waits for an error."""
        left_out = self._limit.admit(subject, now_ns)
        if left_out is not None:
            more = f" ({left_out} more since the last report)" if left_out else ""
            log.warning("%s%s", problem, more)

    def _say_slow(self, action: Action, run_ns: int, now_ns: int, frame: FrameType | None, *, is_running: bool) -> None:
        doing = action.doing() if is_running and isinstance(action, ParkableAction) else ""
        where = f"{action.object.name}, {doing}," if doing else action.object.name
        report = self.slow_actions.report(action.name, where, run_ns, now_ns, frame, is_running=is_running)
        if report is not None:
            log.warning("%s", report, extra=of_action(action))
