"""log_call: what one line of log costs the action that says it.

An operation says 500 lines with the standard library's logging, with two arguments each; they go into the ring that the
supervisor reads, with the names of the action. Against the library's own handler, which writes a formatted line to a
file that keeps nothing (/dev/null): no disk, no reader, no names. A surprise would be twice that: then something in the way
of a line waits or is done twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Requirement, Sides, ours, ratio
from .harness.logged import COMPONENT
from .harness.systems import running

#: An eighth of a ring: none is lost.
LINES = 500


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with running({"worker": COMPONENT}) as system:
        call = system.client.call
        yield Sides(
            lambda: {"call_us": call("logged.ours", count=LINES)},
            lambda: {"call_us": call("logged.reference", count=LINES)},
        )


CASE = Case(
    name="log_call",
    what="one line of log in an action; reference: logging.StreamHandler to /dev/null",
    requirements=(
        Requirement("ratio", ratio("call_us"), at_most=1.5),
        Requirement("a line", ours("call_us"), at_most=40, unit="us"),
    ),
    open=both,
    rounds=40,
    quick_rounds=10,
)
