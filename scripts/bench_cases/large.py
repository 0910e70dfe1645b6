"""large: megabytes a second through an echo of 1 MiB bodies, four outstanding.

What is paid for beyond the copies of ZeroMQ itself: packing, checking, batching. Against raw pyzmq that hands its memory
over. A surprise would be a ratio above 1.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.echo import COMPONENT
from .harness.raw import raw_echo
from .harness.systems import running

BODY = bytes(1 << 20)
CALLS, WINDOW = 50, 4


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with running({"worker": COMPONENT}) as system, raw_echo() as raw:
        submit = system.client.submit
        pending: deque[Any] = deque()

        def begin() -> None:
            pending.append(submit("echo.give_back", data=BODY))
            system.client.flush()

        yield Sides(
            lambda: echo(begin, lambda: pending.popleft().result()),
            lambda: echo(lambda: raw.send_large({"data": BODY}), raw.receive_large),
        )


def echo(begin: Callable[[], Any], end: Callable[[], Any]) -> Figures:
    """Keep the window full."""
    began = time.perf_counter()
    for _ in range(WINDOW):
        begin()
    for number in range(CALLS):
        assert len(end()) == len(BODY)
        if number < CALLS - WINDOW:
            begin()
    return {"mb_per_s": CALLS * len(BODY) / 1e6 / (time.perf_counter() - began)}


CASE = Case(
    name="large",
    what="1 MiB bodies echo, four outstanding; reference: raw pyzmq",
    requirements=(Requirement("MB/s ratio", ratio("mb_per_s"), at_least=0.8),),
    open=both,
    rounds=20,
    quick_rounds=6,
)
