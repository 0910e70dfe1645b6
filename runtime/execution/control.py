"""Control: what the supervisor and this process say to each other, over a link of its own (docs/architecture.md).

Served by the sentinel, never behind user code, quotas or throttles: a busy backplane can still be asked how it is and
told to stop (DESIGN 12.3). The supervisor calls and we answer; the one thing we ask of it is to be registered.
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
from appbackplane.transport.directory import Registration
from appbackplane.transport.envelope import CALL, CAST, STATUS, Envelope, reply, status
from appbackplane.transport.errors import BackplaneError, InternalError, InvalidArgument, MalformedFrame, UnknownRoute
from appbackplane.transport.link import Link

#: The supervisor answers a registration when it has nothing more urgent to do; it started us, so it is there.
REGISTER_TIMEOUT_NS = 10_000_000_000

log = logging.getLogger("appbackplane.runtime")

#: Tells the supervisor how its call ended: a result, or an error.
Answer = Callable[[Any, BaseException | None], None]
#: What is done for a route: gets the body, and answers now or later.
Handler = Callable[[Any, Answer], None]


class Control:
    """The control link. Everything but `Answer` belongs to the sentinel's thread."""

    def __init__(self, link: Link, run_dir: Path, handlers: dict[str, Handler], wake: Callable[[], None]) -> None:
        """`wake`: called, from any thread, when an answer waits to be sent."""
        self._link = link
        self._supervisor = link.connect(addressing.supervisor_socket(run_dir))
        self._handlers = handlers
        self._wake = wake
        self._outbox = Outbox()
        self._encoder = codec.Encoder()
        self._answers: deque[Envelope] = deque()
        self._registered: bool | None = None

    @property
    def is_registered(self) -> bool:
        """Whether the supervisor has answered the registration. Raises what it answered if it refused."""
        return bool(self._registered)

    def register(self, registration: Registration) -> None:
        """Tell the supervisor what is here."""
        body = {"registration": msgspec.to_builtins(registration)}
        route = f"{addressing.SUPERVISOR}.register"
        self._say(Envelope(CALL, 1, 0, route, None, REGISTER_TIMEOUT_NS, None, body))

    def turn(self) -> None:
        """Hear all that has come, and send all that is to leave."""
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
        """Send all that is to leave."""
        while self._answers:
            self._say(self._answers.popleft())
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
        elif envelope.id == 1:
            self._registered = envelope.kind != STATUS
            if envelope.kind == STATUS:
                log.error("the supervisor refused the registration: %s", envelope.body[1])

    def _answerer(self, envelope: Envelope) -> Answer:
        def answer(result: Any, error: BaseException | None) -> None:
            if envelope.kind != CALL:
                if error is not None:
                    log.warning("%s: %s", envelope.route, error)
                return
            if error is not None and not isinstance(error, BackplaneError):
                error = InternalError(f"{type(error).__name__}: {error}")
            self._answers.append(reply(envelope.id, result) if error is None else status(envelope.id, error))
            self._wake()

        return answer

    def _say(self, envelope: Envelope) -> None:
        try:
            packed = self._encoder.encode(envelope)
        except InvalidArgument as error:
            packed = self._encoder.encode(status(envelope.id, InternalError(str(error))))
        self._outbox.add(self._supervisor, packed)
