"""startup: from typing `up` until four backplanes are primary, the command's own start included.

Against four bare processes, started together, that import pyzmq and msgpack and answer once. A surprise would be a time
that grows with the number of backplanes beyond what the cores can share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from .harness.case import Case, Figures, Requirement, Sides, ours
from .harness.parts import backplanes
from .harness.raw import start_s
from .harness.systems import system_file, up

BACKPLANES = backplanes(4)


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    with system_file(BACKPLANES) as toml:

        def bring_up() -> Figures:
            began = time.perf_counter()
            with up(toml):
                return {"up_s": time.perf_counter() - began}

        yield Sides(bring_up, lambda: {"up_s": start_s(len(BACKPLANES))})


CASE = Case(
    name="startup",
    what="`up` of 4 backplanes until all are primary; reference: 4 bare processes that answer once",
    requirements=(Requirement("up", ours("up_s"), at_most=1.0, unit="s"),),
    open=both,
    rounds=5,
    quick_rounds=2,
    is_warmed_up=False,
)
