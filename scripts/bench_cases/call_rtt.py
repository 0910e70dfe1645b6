"""call_rtt: what one blocking call over ipc costs, alone.

A client process, one backplane with one thread, a trivial operation with one argument. Against raw pyzmq (harness/raw.py).
Slices of a few hundred calls alternate while both systems are up, both servers on one core and the client on another: left
to the kernel a round trip of raw pyzmq takes 18 us (both on one core) or 43, by chance, and ours 28 or 50. A surprise would
be a ratio above 1.5, or below 1: then the reference is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.echo import COMPONENT
from .harness.machine import apart
from .harness.raw import raw_echo
from .harness.systems import running
from .harness.timing import round_trips_us, summary
from .peers import echo_peer

CALLS = 200


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with apart() as step_aside, running({"worker": COMPONENT}) as system, raw_echo() as raw:
        step_aside()
        call = system.client.call

        def ours() -> Figures:
            return summary(round_trips_us(lambda: call("echo.echo", text="x"), CALLS))

        def reference() -> Figures:
            return summary(round_trips_us(lambda: raw.call(text="x"), CALLS))

        yield Sides(ours, reference)


def peer(name: str, is_quick: bool) -> Figures:
    with echo_peer(name) as far_end:
        round_trips_us(lambda: far_end.submit("x").result(), CALLS)
        return summary(round_trips_us(lambda: far_end.submit("x").result(), CALLS if is_quick else 10 * CALLS))


CASE = Case(
    name="call_rtt",
    what="a blocking call over ipc, tiny body; reference: raw pyzmq DEALER/ROUTER echo with msgpack",
    requirements=(Requirement("p50 ratio", ratio("p50_us"), at_most=1.25),),
    open=both,
    rounds=150,
    quick_rounds=50,
    peers=peer,
)
