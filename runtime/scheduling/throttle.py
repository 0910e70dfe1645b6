"""Throttle: how many requests a component may have outstanding before callers are told to come back.

Keeps law 9. The component is asked to make room first; only if it cannot does the caller get Busy, with a hint when.
Counted at admission, not at run: a limit on running work would let the queue behind it grow without end. Each caller has a
share of the account (`Share`): alone it does not keep out all others by work that has begun, and can be refused no more.
Replies, declared timers and control are never counted, or a full component could not empty itself. What a component gives
itself to do, by `post` and `after`, has an account of its own (`OwnWork`): a loop would fill any memory.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar, Final

from appbackplane.transport.errors import Busy

if TYPE_CHECKING:
    from .timers import Timer

#: Hint before anything has been served: one tick of the default scheduler would be too long, a spin too short.
RETRY_AFTER_DEFAULT = 0.05
#: The hint stays within what a caller can use: below a millisecond it is a spin, above five seconds a guess.
RETRY_AFTER_MIN, RETRY_AFTER_MAX = 0.001, 5.0
#: Weight of the newest interval between two completions: about the last hundred count.
_WEIGHT: Final = 0.02
#: Of so many requests one is kept from each single caller. A tenth of the default are 1,000 places for all others, and a
#: caller that is alone loses a tenth of its queue; with less, a few slow requests of others would fill it. Below ten: none.
KEPT_OF: Final = 10


class Throttle:
    """The account of one component."""

    #: What its limit is called.
    key: ClassVar[str] = "max_requests"

    def __init__(self, limit: object) -> None:
        self.change(limit)
        self.outstanding = 0
        self.refused_count = 0
        #: What each caller has outstanding, by its identity.
        self.shares: dict[bytes, Share] = {}
        #: Requests of lower priority than this are not queued, by a search that found none: the next one can be spared. At
        #: the limit each refusal would look through all that is queued, a millisecond for 10,000. None: not known.
        self.barren_below: int | None = None
        self._interval_ns = 0.0  # smoothed time between completions while there was work
        self._ended_ns: int | None = None

    def change(self, limit: object) -> None:
        """A new limit, for requests from now on. Raises TypeError for what is no integer, ValueError for one below 1."""
        if not isinstance(limit, int):
            raise TypeError(f"{self.key}: {limit!r} is no limit: expected an integer, 1 or more")
        if limit < 1:
            raise ValueError(f"{self.key}: {limit} would refuse everything: expected 1 or more")
        self.limit = limit

    @property
    def is_full(self) -> bool:
        """Whether the next request needs room to be made."""
        return self.outstanding >= self.limit

    @property
    def share_limit(self) -> int:
        """How many of these requests one caller may have."""
        return self.limit - self.limit // KEPT_OF

    def share_of(self, caller: bytes) -> Share:
        """What a caller has outstanding; of one that has nothing, it is kept once something begins."""
        return self.shares.get(caller) or Share(self, caller)

    def may_be_refused(self, priority: int) -> None:
        """A request that counts here has this priority from now on, or can be refused from now on: a search may find it."""
        if self.barren_below is not None and priority > self.barren_below:
            self.barren_below = None

    def ended(self, now_ns: int) -> None:
        """A request has ended, however it did."""
        self.outstanding -= 1
        if self._ended_ns is not None:
            interval_ns = now_ns - self._ended_ns
            self._interval_ns += (interval_ns - self._interval_ns) * (_WEIGHT if self._interval_ns else 1.0)
        self._ended_ns = (
            now_ns if self.outstanding else None
        )  # what follows when nothing is left is a pause, not a pace

    def retry_after(self) -> float:
        """Seconds until a tenth of the places should be free, at the pace of the last hundred completions."""
        if not self._interval_ns:
            return RETRY_AFTER_DEFAULT
        seconds = self._interval_ns * max(1, self.limit // 10) / 1e9
        return min(max(seconds, RETRY_AFTER_MIN), RETRY_AFTER_MAX)


class Share:
    """What one caller has outstanding of a component, which counts in the account of the component as well."""

    __slots__ = ("barren_below", "caller", "outstanding", "throttle")

    def __init__(self, throttle: Throttle, caller: bytes) -> None:
        self.throttle = throttle
        self.caller = caller
        self.outstanding = 0
        #: As that of the throttle, among the requests of this caller.
        self.barren_below: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether the caller has as much as a single one may, where there is anything to keep from it."""
        throttle = self.throttle
        return self.outstanding >= throttle.share_limit < throttle.limit

    def begins(self, priority: int) -> None:
        """A request of this priority has been admitted."""
        self.throttle.shares[self.caller] = self
        self.outstanding += 1
        self.throttle.outstanding += 1
        self.may_be_refused(priority)

    def may_be_refused(self, priority: int) -> None:
        """As that of the throttle, for it and for this caller."""
        if self.barren_below is not None and priority > self.barren_below:
            self.barren_below = None
        self.throttle.may_be_refused(priority)

    def ended(self, now_ns: int) -> None:
        """One of its requests has ended."""
        self.outstanding -= 1
        if not self.outstanding:
            del self.throttle.shares[self.caller]
        self.throttle.ended(now_ns)


class OwnWork(Throttle):
    """What one component has given itself to do and has not ended: actions that it posted, one-shot timers that it set.

    A timer hands its place on to the action that it becomes. It is taken back by any thread, without the lead; so its place
    is given back when the next one is taken, or when somebody looks.
    """

    key: ClassVar[str] = "max_posted"

    def __init__(self, limit: object) -> None:
        super().__init__(limit)
        #: Timers that were taken back, and whose places have not been given back yet.
        self.taken_back: deque[Timer] = deque()

    def admit(self, name: str, component: str) -> None:
        """Take a place for an action called `name`. Raises `Busy`."""
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
        """Give back the places of timers that were taken back; those that fired meanwhile have handed theirs on."""
        while self.taken_back:
            timer = self.taken_back.popleft()
            if timer.account is self:
                timer.account = None
                self.outstanding -= 1
