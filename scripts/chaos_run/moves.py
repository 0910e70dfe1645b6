"""Moves: what happens to the system, and when; drawn from a seed, so that a run can be had again. Pure.

The same seed and the same length give the same moves at the same times. What the processes make of it is not the same twice:
that is what several runs of one seed are for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Each kind and how often it is drawn, out of the sum of all.
WEIGHTS: Final = {
    "kill": 34,  # -9 of a backplane
    "terminate": 6,  # SIGTERM, from somebody who does not know that there is a supervisor
    "kill all": 3,  # at one instant
    "kill young": 8,  # the same, and then its successor, amid its imports or its first hook
    "stop": 16,  # SIGSTOP of a backplane, SIGCONT a second later
    "stop long": 4,  # for longer than ZeroMQ waits for a handshake
    "restart": 12,  # one backplane, in order
    "rolling": 4,  # all of them, one after the other
    "limit": 4,  # another CPU limit, while it runs: the kernel, the supervisor and its own account have to agree
    "stop supervisor": 6,  # for a moment: nobody may depend on its being quick
    "stop supervisor long": 2,
    "kill client": 8,  # amid its calls; another one takes its place
    "stop client": 6,  # it does not read for a second
    "flood": 4,  # a client that asks for much and reads nothing, killed after two seconds
}
#: From one move to the next, s. A backplane is back in half a second on a busy machine: with this some of the moves meet one
#: that is on its way up, and most do not.
PAUSE_S_MIN, PAUSE_S_MAX = 0.15, 1.4
STOP_S, SUPERVISOR_STOP_S, LONG_S = 1.0, 0.4, 3.0
#: Those without a choice of whom they concern.
WITHOUT_TARGET: Final = ("kill all", "rolling", "stop supervisor", "stop supervisor long", "flood")


@dataclass(frozen=True, slots=True)
class Move:
    at_s: float
    kind: str
    #: A backplane, or a client; "" where there is no choice.
    target: str


def draw(
    seed: int, seconds: float, backplanes: Sequence[str], clients: Sequence[str], without: Sequence[str] = ()
) -> list[Move]:
    """The moves of a run of so many seconds, the earliest first. `without`: kinds that are left out."""
    dice = random.Random(seed)
    kinds = [kind for kind in WEIGHTS if kind not in without]
    weights = [WEIGHTS[kind] for kind in kinds]
    moves, at_s = [], 0.0
    while (at_s := at_s + dice.uniform(PAUSE_S_MIN, PAUSE_S_MAX)) < seconds:
        kind = dice.choices(kinds, weights)[0]
        backplane, client = dice.choice(backplanes), dice.choice(clients)
        target = client if kind.endswith(" client") else "" if kind in WITHOUT_TARGET else backplane
        moves.append(Move(at_s, kind, target))
    return moves
