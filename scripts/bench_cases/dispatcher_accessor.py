"""dispatcher_accessor: the accessor table of seed 003, whose handler 5 locks four counters (A), or one and another later (B).

Five messages, each at a rate of which its handler takes half, and twelve threads, as many as the paper's machine had cores; all
times are a fifth of the paper's (25 Hz and 20 ms for 5 Hz and 100 ms), so that four runs take ten seconds and not fifty. The
timers are out of step, evenly. What has to come out, and why (harness/counters.py has the handlers):

* B ends before A. Both are as much work for counter 4, every moment of every period. But A waits for one counter with
  another in its hands, behind all that queue for it: then neither is used.
* With counter 4 at the lowest priority B ends sooner still: reaching for another counter gives it back first, and handler 4
  gets it meanwhile. At the highest it is kept through that wait, and lost to everybody.
* The handler itself takes longer at the lowest: it has to wait for counter 4 a second time.

With the timers in step A loses little, for the counters come free together; which is chance, and not to be built upon.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean

from .harness.case import Case, Figures, Requirement, Sides, ratio
from .harness.counters import ORDERS, TICKS, Counters, CountersB, run_s
from .harness.in_process import dispatching

THREADS = 12
#: To the paper's 200 ms. In a tenth, the 60 µs by which the kernel oversleeps begin to tell.
PERIOD_S, QUICK_PERIOD_S = 0.2 / 5, 0.2 / 10
#: A backlog grows with every period; after so many A is behind by a third.
COUNT, QUICK_COUNT = 50, 30
#: Of each timer: multiples of the golden ratio, which fill a period as evenly as can be.
PHASES = [(number * 0.618034) % 1.0 for number in range(len(TICKS))]


@contextmanager
def both(is_quick: bool) -> Iterator[Sides]:
    period_s, count = (QUICK_PERIOD_S, QUICK_COUNT) if is_quick else (PERIOD_S, COUNT)

    def measured(kind: type[Counters]) -> Figures:
        found: Figures = {}
        for order in ORDERS:
            counters = kind()
            counters.order = order
            with dispatching(counters, THREADS):
                found[f"{order}_s"] = run_s(counters, count, period_s, PHASES)
            found[f"{order}_hnd5_ms"] = fmean(counters.shown_ms)
        return found

    yield Sides(lambda: measured(CountersB), lambda: measured(Counters))


def lowest_to_highest(figure: str, found: Figures) -> float:
    """What the priority of counter 4 does to a figure."""
    return found[f"lowest_{figure}"] / found[f"highest_{figure}"]


CASE = Case(
    name="dispatcher_accessor",
    what="five handlers, twelve threads, counter 4 at highest and lowest priority, with an accessor (B); reference: none (A)",
    requirements=(
        Requirement("B to A, highest", ratio("highest_s"), at_most=0.99),
        Requirement("B to A, lowest", ratio("lowest_s"), at_most=0.99),
        Requirement("B, lowest to highest", lambda b, _: lowest_to_highest("s", b), at_most=0.99),
        Requirement("handler 5 of B, lowest to highest", lambda b, _: lowest_to_highest("hnd5_ms", b), at_least=1.01),
    ),
    open=both,
    rounds=3,
    quick_rounds=2,
    is_warmed_up=False,
)
