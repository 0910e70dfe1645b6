"""Adaptive: how an operation declares that its requests are admitted by queueing time."""

from __future__ import annotations

import msgspec


class Adaptive(msgspec.Struct, frozen=True):
    """Admit a request of an operation only if it will probably begin within `aim_ms`: `@operation(admit=Adaptive(aim_ms=20))`.

    `aim_ms`: milliseconds that a request may queue, above 0. A request for which there is no room, or that has queued for
    longer, ends in `Busy` and never begins. Requests of priority 0 are never refused for it. Choose a time well above the
    operation's own run time (docs/concepts/overload.md).
    """

    aim_ms: float
