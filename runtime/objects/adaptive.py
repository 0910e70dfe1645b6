"""Adaptive: how an operation declares that its requests are admitted by queueing time."""

from __future__ import annotations

from typing import Final

import msgspec

#: Shortest and longest queueing time that may be aimed at. Accepting a call takes some 8 µs: with less, of a dozen that come in
#: one frame some would be late before the first begins. A request that may wait for an hour needs no limit of its queue.
AIM_MIN_MS: Final = 0.1
AIM_MAX_MS: Final = 3_600_000


class Adaptive(msgspec.Struct, frozen=True):
    """Admit a request of an operation only if it will probably begin within `aim_ms`: `@operation(admit=Adaptive(aim_ms=20))`.

    `aim_ms`: milliseconds that a request may queue, 0.1 to an hour. A request for which there is no room, or that has queued
    for longer, ends in `Busy` and never begins. Requests of priority 0 are never refused for it. Choose a time well above the
    operation's own run time (docs/concepts/overload.md).
    """

    aim_ms: float
