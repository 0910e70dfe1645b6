"""Replay: what would have become of recorded work under other quotas, threads or limits. Pure: nothing runs, nobody waits.

The scheduler is the real one (scheduling/); the clock, the workers and the work are simulated: each action arrives when it
arrived, and takes the CPU and the waiting that it took. So a change can be judged before anybody applies it, and how well the
simulation knows this backplane is judged first: with the settings that it had, the recorded waits must come out
(`calibration.py`). It never reads files; spark/advice hands it columns. Read `load.py` first, then `simulation.py`.
"""

from .calibration import Calibrated, calibrate
from .load import NEVER, Load
from .prediction import Prediction, Waits, predict, recorded
from .setting import Setting
from .simulation import Costs, Replayed, simulate

__all__ = [
    "NEVER",
    "Calibrated",
    "Costs",
    "Load",
    "Prediction",
    "Replayed",
    "Setting",
    "Waits",
    "calibrate",
    "predict",
    "recorded",
    "simulate",
]
