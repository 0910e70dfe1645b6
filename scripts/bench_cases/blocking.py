"""blocking: calls a second when each handler blocks for 20 ms and there are eight threads; 400 is what arithmetic allows.

Against a ThreadPoolExecutor of eight threads in one process, which has nobody to talk to. A surprise would be 50 a second:
then blocking handlers hold the lead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from .harness.bulk import COMPONENT
from .harness.case import Case, Figures, Requirement, Sides
from .harness.systems import running
from .harness.timing import pipelined_per_s

THREADS, BLOCK_S = 8, 0.02
MOST_PER_S = THREADS / BLOCK_S
CALLS, QUICK_CALLS, WINDOW = 800, 400, 64


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    count = QUICK_CALLS if is_quick else CALLS
    with (
        running({"worker": f"{COMPONENT}\nthreads = {THREADS}"}) as system,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        submit = system.client.submit

        def ours() -> Figures:
            return {"per_s": pipelined_per_s(lambda: submit("work.block", seconds=BLOCK_S), count, WINDOW)}

        def reference() -> Figures:
            return {"per_s": pipelined_per_s(lambda: pool.submit(time.sleep, BLOCK_S), count, WINDOW)}

        yield Sides(ours, reference)


CASE = Case(
    name="blocking",
    what="handlers that sleep 20 ms, 8 threads; reference: ThreadPoolExecutor(8) in one process",
    requirements=(Requirement("share of 400/s", lambda ours, _: ours["per_s"] / MOST_PER_S, at_least=0.9),),
    open=both,
    rounds=4,
    quick_rounds=2,
)
