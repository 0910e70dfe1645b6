"""Instrumentation: the work of a kernel by intervals: pools, lanes, waits, throughput, each worker (seed 001, 3.2).

In the source a monitor thread records it; here a timer does (law 8). Each interval is the difference of two `Figures`, so that
hardly anything is counted for it alone. It is published on a topic and, if the policy says so, written to files; totals go to
the statistics. This package decides nothing. Read `interval.py` first, then `instrumentation.py`; `record_files.py` and
`writer.py` bring records to the disk, `described.py` totals to the statistics.
"""

from .instrumentation import Instrumentation
from .interval import IntervalRecord, SettingsChange, WorkerInterval

__all__ = ["Instrumentation", "IntervalRecord", "SettingsChange", "WorkerInterval"]
