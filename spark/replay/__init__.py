"""Replay: predicts how recorded work would run under other quotas, threads or limits. Pure: nothing runs, nobody waits.

The scheduler is the real one (runtime/scheduling/); the clock, the workers and the work are simulated. Each action arrives at
its recorded time, and takes its recorded CPU time and blocked time. So a change can be judged before it is applied. The
simulation itself is judged first: with the recorded settings, the recorded waits must come out (`calibration.py`). It never
reads files; advice/ hands it columns. It does not need Spark. Read `load.py` first, then `simulation.py`.
"""

from .calibration import Calibrated, calibrate
from .load import NEVER, Load
from .prediction import PredictedWaits, Prediction, predict, recorded
from .setting import ReplaySetting
from .simulation import Costs, Replayed, simulate

__all__ = [
    "NEVER",
    "Calibrated",
    "Costs",
    "Load",
    "PredictedWaits",
    "Prediction",
    "ReplaySetting",
    "Replayed",
    "calibrate",
    "predict",
    "recorded",
    "simulate",
]
