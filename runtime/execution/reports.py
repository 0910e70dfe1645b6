"""Reports: what goes wrong, said once and counted always.

Failures, slow actions, malformed frames and refusals that no caller hears of. A system in trouble must not be drowned by
its own reports, so each subject is said once an interval, with how many were left out (observation/rate_limit.py).
"""

from __future__ import annotations

import logging
from types import FrameType

from appbackplane.transport.errors import BackplaneError, text_of

from ..objects.action import Action, ParkableAction
from ..observation.rate_limit import RateLimit
from ..observation.slow_actions import SlowActions
from .log_handler import of_action

log = logging.getLogger("appbackplane.runtime")


class Reports:
    """Part of the engine: whoever holds the lead owns it."""

    def __init__(self, slow_action_ns: int) -> None:
        self.slow_actions = SlowActions(slow_action_ns)
        self.malformed_count = 0
        self._limit = RateLimit()
        # Slow ones that have been reported and still run; by identity, for a user's action may be unhashable.
        self._noticed: set[int] = set()

    def failed(self, action: Action, error: BaseException, now_ns: int) -> None:
        """An operation let an error out that is not its caller's to handle."""
        left_out = self._limit.admit(f"failure {action.name}", now_ns)
        if left_out is not None:
            more = f" ({left_out} more since the last report)" if left_out else ""
            problem = text_of(error)
            trace = error.trace if isinstance(error, BackplaneError) else None
            behind = f"; behind it:\n{trace}" if trace else ""  # a request's, or what a callee in debug has told
            words = (action.name, action.object.name, problem, more, behind)
            log.error("%s on %s failed: %s%s%s", *words, exc_info=error, extra=of_action(action))

    def runs_slowly(self, action: Action, run_ns: int, now_ns: int, frame: FrameType | None) -> None:
        """An action has been running longer than `slow_action`; `frame`: where it is."""
        self._noticed.add(id(action))
        self._say_slow(action, run_ns, now_ns, frame, is_running=True)

    def was_slow(self, action: Action, run_ns: int, now_ns: int) -> None:
        """It has ended; its stack was shown if it was seen running."""
        self.slow_actions.count += 1
        if id(action) in self._noticed:
            self._noticed.discard(id(action))
        else:
            self._say_slow(action, run_ns, now_ns, None, is_running=False)

    def is_noticed(self, action: Action) -> bool:
        """Whether `runs_slowly` has been said of it."""
        return id(action) in self._noticed

    def malformed(self, peer: bytes, error: Exception, now_ns: int) -> None:
        """A peer has sent what is no frame of ours."""
        self.malformed_count += 1
        if self._limit.admit(f"malformed {peer!r}", now_ns) is not None:
            log.warning("malformed frame from peer %r dropped: %s", peer, error)

    def refused(self, subject: str, problem: str, now_ns: int) -> None:
        """Something that nobody waits for was refused: a cast, a topic's message."""
        left_out = self._limit.admit(subject, now_ns)
        if left_out is not None:
            more = f" ({left_out} more since the last report)" if left_out else ""
            log.warning("%s%s", problem, more)

    def _say_slow(self, action: Action, run_ns: int, now_ns: int, frame: FrameType | None, *, is_running: bool) -> None:
        doing = action.doing() if is_running and isinstance(action, ParkableAction) else ""
        where = f"{action.object.name}, {doing}," if doing else action.object.name
        report = self.slow_actions.report(action.name, where, run_ns, now_ns, frame, is_running=is_running)
        if report is not None:
            log.warning("%s", report.sentence(), extra=of_action(action))
