"""call_pipelined: calls a second from one client that keeps 1000 outstanding.

What coalescing brings: many calls a frame, in both directions, without waiting for any. Against raw pyzmq with one frame
a call and the same window. A surprise would be a ratio below 1: then something is done twice for each call.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.echo import COMPONENT
from .harness.raw import Raw, raw_echo
from .harness.systems import running
from .harness.timing import pipelined_per_s
from .peers import echo_peer

CALLS, WINDOW = 10_000, 1_000


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with running({"worker": COMPONENT}) as system, raw_echo() as raw:
        submit = system.client.submit

        def ours() -> Figures:
            return {"per_s": pipelined_per_s(lambda: submit("echo.echo", text="x"), CALLS, WINDOW)}

        yield Sides(ours, lambda: {"per_s": raw_per_s(raw)})


def raw_per_s(raw: Raw) -> float:
    """The same by hand: its replies come in order, so there is nothing to look up."""
    began = time.perf_counter()
    for _ in range(WINDOW):
        raw.send({"text": "x"})
    for _ in range(CALLS - WINDOW):
        raw.receive()
        raw.send({"text": "x"})
    for _ in range(WINDOW):
        raw.receive()
    return CALLS / (time.perf_counter() - began)


def peer(name: str, is_quick: bool) -> Figures:
    with echo_peer(name) as far_end:
        far_end.submit("x").result()
        return {"per_s": pipelined_per_s(lambda: far_end.submit("x"), 3 * WINDOW if is_quick else CALLS, WINDOW)}


CASE = Case(
    name="call_pipelined",
    what="1000 outstanding calls from one client; reference: the same raw pyzmq, one frame a call",
    requirements=(Requirement("calls/s ratio", ratio("per_s"), at_least=2.0),),
    open=both,
    rounds=20,
    quick_rounds=6,
    peers=peer,
)
