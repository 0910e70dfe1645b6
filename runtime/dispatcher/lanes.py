"""Lanes: the objects on which deliveries are queued: one each, or one for all that have something in common.

An object runs one action at a time, in the order in which they were posted. So messages of one key, of one source, or on their
way to one shard share a lane (law 1), and all others run side by side, on lanes of their own. They are used again: there are
as many as there were messages at once, and no message pays for an object of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ..objects.app_object import AppObject

if TYPE_CHECKING:
    from .dispatcher import Dispatcher


class Lane(AppObject):
    """What a delivery is queued on."""

    __slots__ = ("load", "shared_by")

    load: int
    #: What its messages have in common; None: it is one message's.
    shared_by: Hashable


class Lanes:
    """Those of one dispatcher; for any thread."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        # No lock over these: `append`, `pop` and `next` are one step each.
        self._idle: list[Lane] = []
        self._numbers = itertools.count()
        #: Those in use that messages share, under the dispatcher's mutex.
        self.shared: dict[Hashable, Lane] = {}

    def take(self, shared_by: Hashable) -> Lane:
        """The one for all that have this in common; None: one for nobody else. To be given back."""
        if shared_by is None:
            return self._free()
        with self._dispatcher._mutex:
            try:
                lane = self.shared.get(shared_by)
            except TypeError as error:
                raise TypeError(
                    f"{self._dispatcher.name}: what keeps messages in order, a key or a handle's lane, is a map's key: {error}"
                ) from None
            if lane is None:
                lane = self.shared[shared_by] = self._free()
                lane.shared_by = shared_by
            lane.load += 1
            return lane

    def give_back(self, lane: Lane) -> None:
        """One that was on it is no more."""
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
