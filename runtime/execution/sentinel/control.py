"""Control: calls between the supervisor and this process, over a separate link (docs/architecture.md).

Served by the sentinel, never behind user code, quotas or throttles: a busy backplane still answers questions and can be
stopped (DESIGN 12.3). The supervisor makes nearly all calls; we call only to register and to change the CPU limit.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from appbackplane.transport import addressing, codec
from appbackplane.transport.batching import Outbox
from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.directory import Registration
from appbackplane.transport.envelope import CALL, CAST, STATUS, Envelope, call, reply, status
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    InternalError,
    InvalidArgument,
    MalformedFrame,
    UnknownRoute,
)
from appbackplane.transport.local_links import LocalLink

#: Timeout of our calls. The supervisor started us, so it exists, but it answers a registration after more urgent work.
CALL_TIMEOUT_NS = 10_000_000_000

log = logging.getLogger("appbackplane.runtime")

#: Our outstanding calls to the supervisor: only an operator causes any, one at a time.
CALLS_MAX = 64

#: Replies to a call of the supervisor: with a result, or an error.
Answer = Callable[[Any, BaseException | None], None]
#: Receives the supervisor's reply to a call of ours: its result, or the error's message.
Heard = Callable[[Any, str | None], None]
#: Handles a call on one route: gets the body, and replies now or later.
Handler = Callable[[Any, Answer], None]


class Control:
    """The control link. Only `call` and an `Answer` may be used outside the sentinel's thread."""

    def __init__(self, link: LocalLink, run_dir: Path, handlers: dict[str, Handler], wake: Callable[[], None]) -> None:
        """`wake`: called, from any thread, when a call or reply waits to be sent."""
        self._link = link
        self._supervisor = link.connect(addressing.supervisor_socket(run_dir))
        self._handlers = handlers
        self._wake = wake
        self._outbox = Outbox()
        self._encoder = codec.Encoder()
        self._leaving: deque[Envelope] = deque()
        self._calls: dict[int, Heard] = {}
        self._calls_count = 0

    @property
    def has_more(self) -> bool:
        """Whether envelopes wait to be sent, new ones or ones that the supervisor had no room for."""
        return bool(self._leaving) or bool(self._outbox)

    def register(self, registration: Registration, accepted: Callable[[Any], None]) -> None:
        """Register with the supervisor. `accepted` runs in the sentinel's thread, with the body of the reply."""

        def heard(result: Any, error: str | None) -> None:
            if error is None:
                accepted(result)
            else:
                log.error("the supervisor refused the registration: %s", error)

        body = {"registration": msgspec.to_builtins(registration)}
        self.call(f"{addressing.SUPERVISOR}.register", body, heard)

    def call(self, route: str, body: dict[str, Any], heard: Heard) -> None:
        """Call the supervisor; one thread at a time. `heard` runs in the sentinel's thread. Raises `Busy` at `CALLS_MAX`."""
        if len(self._calls) >= CALLS_MAX:
            raise Busy(f"{route}: {CALLS_MAX} calls to the supervisor are not answered yet", retry_after=0.1)
        self._calls_count += 1
        self._calls[self._calls_count] = heard
        self._leaving.append(call(self._calls_count, CallSpec(route, body, priority=0), CALL_TIMEOUT_NS))
        self._wake()

    def turn(self) -> None:
        """Receive and handle all frames that have come, and send all queued envelopes."""
        while True:
            self.flush()
            try:
                received = self._link.receive()
                if received is None:
                    return
                for envelope in codec.decode(received[1]):
                    self._hear(envelope)
            except MalformedFrame as error:
                log.warning("malformed frame on the control link dropped: %s", error)

    def flush(self) -> None:
        """Send all queued envelopes; those that find no room stay queued."""
        while self._leaving:
            self._say(self._leaving.popleft())
        if self._outbox:
            self._outbox.flush(self._link.send)

    def _hear(self, envelope: Envelope) -> None:
        if envelope.kind == CALL or envelope.kind == CAST:
            answer = self._answerer(envelope)
            handler = self._handlers.get(envelope.route or "")
            if handler is None:
                answer(None, UnknownRoute(envelope.route or ""))
                return
            try:
                handler(envelope.body, answer)
            except BackplaneError as error:
                answer(None, error)
            except Exception as error:
                log.exception("%s failed", envelope.route)
                answer(None, InternalError(f"{envelope.route}: {type(error).__name__}: {error}"))
        elif (heard := self._calls.pop(envelope.id, None)) is not None:
            heard(*((None, envelope.body[1]) if envelope.kind == STATUS else (envelope.body, None)))

    def _answerer(self, envelope: Envelope) -> Answer:
        def answer(result: Any, error: BaseException | None) -> None:
            if envelope.kind != CALL:
                if error is not None:
                    log.warning("%s: %s", envelope.route, error)
                return
            if error is not None and not isinstance(error, BackplaneError):
                error = InternalError(f"{type(error).__name__}: {error}")
            self._leaving.append(reply(envelope.id, result) if error is None else status(envelope.id, error))
            self._wake()

        return answer

    def _say(self, envelope: Envelope) -> None:
        try:
            packed = self._encoder.encode(envelope)
        except InvalidArgument as error:
            packed = self._encoder.encode(status(envelope.id, InternalError(str(error))))
        self._outbox.add(self._supervisor, packed)
