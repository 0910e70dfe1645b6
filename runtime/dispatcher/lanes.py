"""Lanes: the objects on which deliveries are queued: one per delivery, or one for all that must keep their order.

An object runs one action at a time, in the order of posting. So messages of one key, of one handle lane, or forwarded for one
key share a lane (law 1); all others run in parallel, each on a lane of its own. Lanes are reused: there are as many as there
were concurrent messages, and no message pays for an object of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ..objects.app_object import AppObject

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


class Lane(AppObject):
    """The object that deliveries are queued on. `load`: their number, if it is shared."""

    __slots__ = ("load", "shared_by")

    load: int
    #: Ordering key of its messages; None: it serves a single message.
    shared_by: Hashable


class MessageLanes:
    """The lanes of one dispatcher; for any thread."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        # No lock for these: `append`, `pop` and `next` are atomic.
        self._idle: list[Lane] = []
        self._numbers = itertools.count()
        #: Shared lanes in use, by ordering key. Under the dispatcher's mutex.
        self.shared: dict[Hashable, Lane] = {}

    def take(self, shared_by: Hashable) -> Lane:
        """The lane of all messages with this ordering key; None: a lane for one message. Return it by `give_back`."""
        if shared_by is None:
            return self._free()
        with self._dispatcher._mutex:
            try:
                lane = self.shared.get(shared_by)
            except TypeError as error:
                raise TypeError(
                    f"{self._dispatcher.name}: a key or a handle's lane, which keeps messages in order, must be hashable: "
                    f"{error}"
                ) from None
            if lane is None:
                lane = self.shared[shared_by] = self._free()
                lane.shared_by = shared_by
            lane.load += 1
            return lane

    def give_back(self, lane: Lane) -> None:
        """A message has left this lane; the last one frees it."""
        if lane.shared_by is None:
            self._idle.append(lane)
            return
        with self._dispatcher._mutex:
            lane.load -= 1
            if not lane.load:
                del self.shared[lane.shared_by]
                lane.shared_by = None
                self._idle.append(lane)

    def _free(self) -> Lane:
        try:
            return self._idle.pop()
        except IndexError:
            lane = self._dispatcher._inner(Lane(), f"lane-{next(self._numbers)}")
            lane.load, lane.shared_by = 0, None
            return lane
