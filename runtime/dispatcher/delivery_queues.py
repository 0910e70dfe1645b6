"""Delivery queues: the objects on which deliveries wait: one per delivery, or one for all that must keep their order.

An object runs one action at a time, in the order of posting. So messages of one key, of one handle's ordering key, or forwarded
for one key share a queue (law 1); all others run in parallel, each on a queue of its own. Queues are reused: there are as many
as there were concurrent messages, and no message pays for an object of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ..objects.app_object import AppObject

if TYPE_CHECKING:
    from .dispatcher_base import DispatcherBase


class DeliveryQueue(AppObject):
    """The object that deliveries are queued on. `load`: their number, if it is shared."""

    __slots__ = ("load", "ordering_key")

    load: int
    #: Shared by all messages with this key; None: it serves a single message.
    ordering_key: Hashable


class DeliveryQueues:
    """The queues of one dispatcher; for any thread."""

    def __init__(self, dispatcher: DispatcherBase) -> None:
        self._dispatcher = dispatcher
        # No lock for these: `append`, `pop` and `next` are atomic.
        self._idle: list[DeliveryQueue] = []
        self._numbers = itertools.count()
        #: Shared queues in use, by ordering key. Under the dispatcher's mutex.
        self.shared: dict[Hashable, DeliveryQueue] = {}

    def take(self, ordering_key: Hashable) -> DeliveryQueue:
        """The queue of all messages with this ordering key; None: a queue for one message. Return it by `give_back`."""
        if ordering_key is None:
            return self._free()
        with self._dispatcher._mutex:
            try:
                queue = self.shared.get(ordering_key)
            except TypeError as error:
                raise TypeError(
                    f"{self._dispatcher.name}: a message's key and a handle's ordering key, which keep messages in order, "
                    f"must be hashable: {error}"
                ) from None
            if queue is None:
                queue = self.shared[ordering_key] = self._free()
                queue.ordering_key = ordering_key
            queue.load += 1
            return queue

    def give_back(self, queue: DeliveryQueue) -> None:
        """A message has left this queue; the last one frees it."""
        if queue.ordering_key is None:
            self._idle.append(queue)
            return
        with self._dispatcher._mutex:
            queue.load -= 1
            if not queue.load:
                del self.shared[queue.ordering_key]
                queue.ordering_key = None
                self._idle.append(queue)

    def _free(self) -> DeliveryQueue:
        try:
            return self._idle.pop()
        except IndexError:
            queue = self._dispatcher._inner(DeliveryQueue(), f"queue-{next(self._numbers)}")
            queue.load, queue.ordering_key = 0, None
            return queue
