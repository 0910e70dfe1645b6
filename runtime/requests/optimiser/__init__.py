"""Optimiser: finds the worker count and pool sizes of highest throughput by itself, and holds them as the load changes.

It decides and never does: once an interval it is handed a `Sample`, and hands back a `Move` (a setting and the reason) or
None. No clock, no threads, no knowledge of the kernel. It never takes a low offered load for a bad setting.
Read `optimiser.py` first, then `search.py` (where is the top of the curve?), `hold.py` (is it still there?), `pools.py` and
`taking.py`.
"""

from .optimiser import Optimiser
from .policy import OptimiserPolicy
from .sample import Move, Sample, Setting

__all__ = ["Move", "Optimiser", "OptimiserPolicy", "Sample", "Setting"]
