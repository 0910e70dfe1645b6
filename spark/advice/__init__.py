"""Advice: from what was recorded to a patch of the system's TOML, each line with its evidence and a prediction.

`advise` reads what a backplane did (`gather.py`), asks each rule of `rules/` whether something is wrong, has the simulation
(appbackplane.runtime.replay) try what the rule proposes, and writes down what helps (`patch.py`). Where nothing is wrong, it says
nothing; where the simulation does not know a backplane well enough to speak for it, it says so. It changes nothing: whoever
applies a patch does that with `appbackplane reload`. Read `advise.py` first, then one of the rules.
"""

from .advise import advise, advise_of
from .item import Advice, Item

__all__ = ["Advice", "Item", "advise", "advise_of"]
