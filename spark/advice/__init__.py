"""Advice: turn recordings into a patch of the system's TOML, each line with its evidence and a prediction.

`advise` reads the records of each backplane (`gather.py`) and asks the rules whether something is wrong (`rules/`). The
simulation (replay/) tries each proposed change, and `patch.py` writes down the changes that help. A backplane without
trouble gets no advice; one whose recording the simulation cannot reproduce gets a note that says so. Nothing is applied: the
user copies the patch into the file and runs `appbackplane reload`. Read `advise.py` first, then one of the rules.
"""

from .advice import Advice
from .advise import advise, advise_of
from .item import Item

__all__ = ["Advice", "Item", "advise", "advise_of"]
