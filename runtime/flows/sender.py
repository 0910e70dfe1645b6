"""Sender: calls the next stage with the chunks of an outlet, and gives their credits back when these calls end.

Each chunk is a call, so that its priority, the death of its callee and the question why it waits are those of any call. The
reply comes when the action of the chunk has ended, and all that was made of its items has ended behind it. So a chain of calls
leads from the source to the sink, and a death anywhere ends the calls before it: with `at_least_once` their chunks are sent
again, otherwise their items are counted as lost.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from appbackplane.transport.call_checks import TIMEOUT_MAX_S
from appbackplane.transport.errors import BackplaneError, Status

from ..execution.actions.coroutines import should_stop
from ..execution.actions.method_action import MethodAction
from ..objects.app_object import AppObject
from .outlet import Chunk, Origin, StageOutlet
from .turns import CAME_EARLY

#: Seconds until a chunk that came back is sent again: a process is back in 56 ms. Doubled each time, up to the second one.
RETRY_S, RETRY_MAX_S = 0.05, 1.0
#: A chunk that ends in one of these has an item in it that is at fault; after all others it may be served another time.
_OF_AN_ITEM = (Status.INVALID_ARGUMENT, Status.FAILED_PRECONDITION, Status.INTERNAL)
#: Between two lines of the log about items that were lost.
LOG_EVERY_NS = 1_000_000_000

log = logging.getLogger("appbackplane.runtime")


class ChunkSender(AppObject):
    """Sends the chunks of one outlet. One action for each chunk; they wait beside each other."""

    interleaves = True
    is_refusable = False

    def __init__(
        self, outlet: StageOutlet, route: str, priority: int, priorities: int, *, is_repeating: bool,
        ended: Callable[[Sequence[Origin]], None], failed: Callable[[Any, BaseException], None],
    ) -> None:  # fmt: skip
        """`priority`: of the calls. `priorities`: how many this backplane has. `is_repeating`: whether what died with a
        consumer is sent again. `ended`: is told of origins that have ended. `failed`: is told of an item that cannot be sent.
        """
        self._outlet = outlet
        #: Names this sender to the lanes.
        self._id = os.urandom(8).hex()
        self._route = route
        self._priority = priority
        self._own_priority = min(priority, priorities - 1)  # the consumer's backplane may have more
        self._is_repeating = is_repeating
        self._ended = ended
        self._failed = failed
        self._tells_ns = 0

    def kick(self) -> None:
        """There is something to send, or credit: start if need be. From any thread."""
        if self._outlet.begin_sending():
            self._post()

    def _post(self) -> None:
        component = self._component
        assert component is not None
        action = MethodAction(self, f"{component.component_name}.send", self._own_priority, ChunkSender.send, ())
        self._platform.post_own(component, action, is_counted=False)

    async def send(self) -> None:
        """Send one chunk and await its end."""
        chunk, has_more = self._outlet.take(self._host.now_ns())
        if has_more:
            self._post()
        if chunk is None:
            return
        arguments: dict[str, Any] = {"items": chunk.items}
        if self._outlet.is_ordered:
            arguments["turn"] = (self._id, chunk.number, chunk.follows)
        try:
            lanes = await AppObject.request(
                self, self._route, arguments, key=chunk.target.key, priority=self._priority,
                timeout=TIMEOUT_MAX_S, retry=False,
            )  # fmt: skip
        except BackplaneError as error:
            self._ended(self._after(chunk, error))
        else:
            if lanes == CAME_EARLY:
                self._outlet.came_early(chunk)
            else:
                if lanes:
                    self._outlet.spread(lanes)
                self._ended(self._outlet.ended(chunk))
        self.kick()

    def _after(self, chunk: Chunk, error: BackplaneError) -> Sequence[Origin]:
        """Decide about a chunk that was not served. Returns the origins that have ended with it."""
        if error.status in _OF_AN_ITEM:
            if len(chunk.items) > 1:
                self._outlet.divide(chunk)
                return ()
            self._failed(chunk.items[0], error)
            return self._outlet.ended(chunk)
        if not (self._is_repeating or error.is_refused):
            origins = self._outlet.lost(chunk)
            self._tell_of_loss(error)
            return origins
        if should_stop():
            return self._outlet.given_up(chunk)
        delay_s = min(RETRY_MAX_S, RETRY_S * 2 ** min(chunk.target.trials, 6))
        if error.retry_after is not None:
            delay_s = max(delay_s, min(RETRY_MAX_S, error.retry_after))
        until_ns = self._host.now_ns() + round(delay_s * 1e9)
        self._outlet.came_back(chunk, until_ns, has_begun=not error.is_refused)
        self.after(delay_s, self.again)
        return ()

    def _tell_of_loss(self, error: BackplaneError) -> None:
        now_ns = self._host.now_ns()
        if now_ns >= self._tells_ns:
            self._tells_ns = now_ns + LOG_EVERY_NS
            log.warning("%s: items are lost, %d so far: %s", self.name, self._outlet.lost_count, error)

    def again(self) -> None:
        """A chunk that came back may be sent now."""
        self.kick()
