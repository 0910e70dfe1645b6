"""RemoteRoutes: the hook by which a node's endpoint (runtime/peers) receives requests for routes of other nodes."""

from __future__ import annotations

from collections.abc import Callable

from appbackplane.transport.envelope import Envelope


class RemoteRoutes:
    """The receiver of requests for routes that this backplane does not serve; in most backplanes there is none."""

    def __init__(self) -> None:
        #: Takes such requests, and later envelopes about such calls: (peer, envelope, now_ns). It may raise a `BackplaneError`
        #: for a call or a cast. None: unknown routes are refused.
        self.take: Callable[[bytes, Envelope, int], None] | None = None
        #: Called with each peer that made such requests and can no longer be reached.
        self.lose: Callable[[bytes], None] | None = None
