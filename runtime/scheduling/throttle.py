"""Throttle: how many requests a component may have outstanding before callers get `Busy`.

Keeps law 9. The component is asked to make room first; only if it cannot does the caller get `Busy`, with a retry hint.
Requests are counted at admission, not at run: a limit on running work would let the queue grow without end. Each caller has
a share (`Share`), because work that has begun cannot be shed: no caller can fill the component with it alone.
Replies, declared timers and control are never counted, or a full component could not empty itself. A component's own work,
from `post` and `after`, has a separate account (`OwnWork`): an endless loop would fill any memory.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar, Final

from appbackplane.transport.errors import Busy

if TYPE_CHECKING:
    from .timers import Timer

#: Retry hint in seconds before anything has been served: one tick (1 s) would be too long, a busy loop too short.
RETRY_AFTER_DEFAULT = 0.05
#: Bounds of the hint in seconds: below a millisecond the caller would spin, above five seconds the estimate is a guess.
RETRY_AFTER_MIN, RETRY_AFTER_MAX = 0.001, 5.0
#: Weight of the newest interval between two completions: about the last hundred count.
_WEIGHT: Final = 0.02
#: One place of so many is closed to each single caller. A tenth of the default is 1,000 places for all others, and a single
#: caller loses a tenth of its queue. With fewer, a few slow requests of others would fill them. Limits below ten: no place.
KEPT_OF: Final = 10


class Throttle:
    """The account of one component. Only counts and decides; admission refuses (execution/intake/admission.py)."""

    #: The name of its limit in messages and settings.
    key: ClassVar[str] = "max_requests"

    def __init__(self, limit: object) -> None:
        self.change(limit)
        self.outstanding = 0
        self.refused_count = 0
        #: The share of each caller that has requests outstanding, by its identity.
        self.shares: dict[bytes, Share] = {}
        #: No request of lower priority than this can be shed, as the last search found; None: not known. It saves further
        #: searches: at the limit each refusal would scan the whole queue, a millisecond for 10,000 requests.
        self.barren_below: int | None = None
        self._interval_ns = 0.0  # smoothed time between completions while there was work
        self._ended_ns: int | None = None

    def change(self, limit: object) -> None:
        """Set the limit for later requests. Raises TypeError unless it is an integer, ValueError below 1."""
        if not isinstance(limit, int):
            raise TypeError(f"{self.key}: {limit!r} is no limit: expected an integer, 1 or more")
        if limit < 1:
            raise ValueError(f"{self.key}: {limit} would refuse everything: expected 1 or more")
        self.limit = limit

    @property
    def is_full(self) -> bool:
        """Whether the next request is admitted only if another one is shed."""
        return self.outstanding >= self.limit

    @property
    def share_limit(self) -> int:
        """How many outstanding requests a single caller may have."""
        return self.limit - self.limit // KEPT_OF

    def share_of(self, caller: bytes) -> Share:
        """The share of a caller. A new one is stored only when the caller's first request is admitted (`Share.begins`)."""
        return self.shares.get(caller) or Share(self, caller)

    def may_be_refused(self, priority: int) -> None:
        """Note that a counted request now has this priority, or can be shed from now on: the next search may find it."""
        if self.barren_below is not None and priority > self.barren_below:
            self.barren_below = None

    def ended(self, now_ns: int) -> None:
        """Subtract a request that has ended (done, failed or refused), and update the pace of completions."""
        self.outstanding -= 1
        if self._ended_ns is not None:
            interval_ns = now_ns - self._ended_ns
            self._interval_ns += (interval_ns - self._interval_ns) * (_WEIGHT if self._interval_ns else 1.0)
        # With nothing outstanding, the time to the next completion says nothing about the pace.
        self._ended_ns = now_ns if self.outstanding else None

    def retry_after(self) -> float:
        """Seconds until a tenth of the places should be free, at the pace of the last hundred completions."""
        if not self._interval_ns:
            return RETRY_AFTER_DEFAULT
        seconds = self._interval_ns * max(1, self.limit // 10) / 1e9
        return min(max(seconds, RETRY_AFTER_MIN), RETRY_AFTER_MAX)


class Share:
    """One caller's outstanding requests at a component; each also counts in the component's account."""

    __slots__ = ("barren_below", "caller", "outstanding", "throttle")

    def __init__(self, throttle: Throttle, caller: bytes) -> None:
        self.throttle = throttle
        self.caller = caller
        self.outstanding = 0
        #: As `Throttle.barren_below`, for the requests of this caller.
        self.barren_below: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether the caller has reached its share; always False if the limit is too small to reserve places for others."""
        throttle = self.throttle
        return self.outstanding >= throttle.share_limit < throttle.limit

    def begins(self, priority: int) -> None:
        """Count an admitted request of this priority, here and in the component's account."""
        self.throttle.shares[self.caller] = self
        self.outstanding += 1
        self.throttle.outstanding += 1
        self.may_be_refused(priority)

    def may_be_refused(self, priority: int) -> None:
        """As `Throttle.may_be_refused`, for the caller and for the component."""
        if self.barren_below is not None and priority > self.barren_below:
            self.barren_below = None
        self.throttle.may_be_refused(priority)

    def ended(self, now_ns: int) -> None:
        """Subtract one of the caller's requests that has ended, here and in the component's account."""
        self.outstanding -= 1
        if not self.outstanding:
            del self.throttle.shares[self.caller]
        self.throttle.ended(now_ns)


class OwnWork(Throttle):
    """A component's own outstanding work: actions that it posted and one-shot timers that it set.

    A timer that fires passes its place to its action. Any thread may cancel a timer without the lead, so the place of a
    cancelled one is freed later: when the next place is taken, or the count is read (`settle`).
    """

    key: ClassVar[str] = "max_posted"

    def __init__(self, limit: object) -> None:
        super().__init__(limit)
        #: Cancelled timers whose places are not freed yet.
        self.taken_back: deque[Timer] = deque()

    def admit(self, name: str, component: str) -> None:
        """Take a place for an action called `name`. Raises `Busy` at the limit."""
        if self.taken_back:
            self.settle()
        if self.outstanding >= self.limit:
            self.refused_count += 1
            raise Busy(
                f"{name}: {component} has {self.outstanding} actions and timers of its own outstanding "
                f"({self.key} = {self.limit})",
                retry_after=self.retry_after(),
            )
        self.outstanding += 1

    def settle(self) -> None:
        """Free the places of cancelled timers, but not of those that fired meanwhile: their actions have the places."""
        while self.taken_back:
            timer = self.taken_back.popleft()
            if timer.account is self:
                timer.account = None
                self.outstanding -= 1
