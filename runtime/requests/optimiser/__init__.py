"""Optimiser: finds the worker count and pool sizes of highest throughput by itself, and holds them as the load changes.

It only decides: once an interval it gets a `KernelSample`, and returns a `SettingMove` (a setting and the reason) or None. It
has no clock, no threads, and no knowledge of the kernel. It never takes a low offered load for a bad setting. Read
`optimiser.py` first, then `search.py` (where is the top of the curve?), `hold.py` (is it still there?), `pools.py` and
`taking.py`.
"""

from .optimiser import Optimiser
from .policy import OptimiserPolicy
from .sample import KernelSample, Setting, SettingMove

__all__ = ["KernelSample", "Optimiser", "OptimiserPolicy", "Setting", "SettingMove"]
