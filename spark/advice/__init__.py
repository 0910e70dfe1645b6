"""Advice: from what was recorded to a patch of the system's TOML, each line with its evidence and a prediction.

`advise` reads what each backplane did (`gather.py`), asks the rules whether something is wrong (`rules/`), has the simulation
(runtime/replay) try what they propose, and writes down what helps (`patch.py`). Where nothing is wrong, it says nothing; where
the simulation cannot reproduce what was recorded, it says so. It changes nothing: whoever wants the patch puts it into the
file and says `appbackplane reload`. Read `advise.py` first, then one of the rules.
"""

from .advise import advise, advise_of
from .item import Advice, Item

__all__ = ["Advice", "Item", "advise", "advise_of"]
