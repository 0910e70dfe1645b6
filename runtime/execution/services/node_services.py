"""Node services: requests of a node's endpoint (runtime/peers) to its engine. The protocol is in objects/platform.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from appbackplane.transport.envelope import Envelope, instead

from ..loop.engine import Engine
from .monitors import Monitors


class EngineNodeServices:
    """Implements `NodeServices` on an engine. Each method takes the lead for as long as it needs it."""

    def __init__(self, engine: Engine, monitors: Monitors) -> None:
        self._engine = engine
        #: What has ended, and whom to tell.
        self.monitors = monitors
        self._lead, self._remote, self._sender = engine.lead, engine.remote, engine.sender

    def take_foreign(
        self, take: Callable[[bytes, Envelope, int], None] | None, gone: Callable[[bytes], None] | None = None
    ) -> None:
        """Pass envelopes for routes not served here to `take` (peer, envelope, now_ns); None: refuse them again.

        `take` may raise a `BackplaneError` for a call or a cast. `gone` gets each dead peer. Both are called under the lead.
        """
        with self._lead:
            self._remote.take, self._remote.lose = take, gone

    def look_for(self, peers: Iterable[bytes]) -> None:
        """Probe peers that wait for replies from other nodes; each dead one is passed to `gone` (see `take_foreign`)."""
        with self._lead:
            self._engine.callers.ask(peers)
            self._engine.nudge()

    def send(self, answers: list[tuple[bytes, int, bytes]]) -> None:
        """Send replies to peers of this backplane's link: (peer, call id, packed reply). From any thread.

        A reply beyond the bound of a peer that does not read is replaced by a short error. If even that finds no room, the
        peer has more unread replies than a client may have calls: those end by the deadlines that the client keeps.
        """
        outbox = self._sender.outbox
        with self._lead:
            for peer, id, packed in answers:
                if not outbox.add(peer, packed):
                    self._sender.undelivered_count += 1
                    outbox.add_instead(peer, self._sender.encoder.encode(instead(id, "this process")))
            self._engine.flush(self._engine.now_ns())
            self._engine.nudge()

    def client_patterns(self) -> frozenset[str]:
        """The topic patterns that clients have subscribed to at this backplane. From any thread."""
        with self._lead:
            return self._engine.publishing.patterns()
