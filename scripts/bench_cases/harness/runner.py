"""Runner: runs the rounds of a case, ours and the reference by turns, and hands them to be judged.

Which of the two goes first changes from round to round, or the second would always find the caches as the first left
them. A case that takes longer than its share of the time is cut after the round it is in, so that a slow machine gets
fewer rounds and not no answer. What a case raises is its result: the others go on.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import replace

from .case import Case, Figures, Result, failed, judge, medians

#: No further round begins after this much of one case: all cases together stay below six minutes, quick ones below 90 s.
CASE_S_MAX, QUICK_CASE_S_MAX = 40.0, 8.0
#: What is installed by the extra `[peers]`, by the name that is imported.
PEERS = {"ray": "ray", "xoscar": "xoscar", "Pyro5": "Pyro5", "grpcio": "grpc"}


def run(case: Case, *, is_quick: bool = False, rounds_max: int | None = None) -> Result:
    """Measure one case. Never raises for what the case does."""
    peers: dict[str, list[Figures]] = {}
    try:
        result = judge(case, measure(case, peers, is_quick=is_quick, rounds_max=rounds_max))
    except Exception as error:
        result = failed(case, f"{type(error).__name__}: {error}")
    result = replace(result, peers={name: medians(found) for name, found in peers.items() if found})
    return with_peers(case, result, is_quick=is_quick)


def measure(
    case: Case, peers: dict[str, list[Figures]] | None = None, *, is_quick: bool, rounds_max: int | None = None
) -> list[tuple[Figures, Figures]]:
    """The rounds: (ours, reference) each. `peers` gets what was found of those that are up beside them."""
    began = time.monotonic()
    rounds = case.quick_rounds if is_quick else case.rounds
    rounds = rounds if rounds_max is None else min(rounds, rounds_max)
    limit_s = QUICK_CASE_S_MAX if is_quick else CASE_S_MAX
    found: list[tuple[Figures, Figures]] = []
    beside = {} if peers is None else peers
    with case.open(is_quick) as sides:
        other = sides.reference or dict
        if case.is_warmed_up:
            sides.ours()
            other()
        for number in range(rounds):
            if number % 2:
                reference = other()
                found.append((sides.ours(), reference))
            else:
                ours = sides.ours()
                found.append((ours, other()))
            for name, peer in sides.peers.items():
                try:
                    beside.setdefault(name, []).append(peer())
                except Exception as error:  # it is shown, never judged
                    print(f"peer {name} could not be measured: {error}", file=sys.stderr)
            if time.monotonic() - began > limit_s:
                break
    return found


def with_peers(case: Case, result: Result, *, is_quick: bool) -> Result:
    """The same work done by what is installed. That one of them fails is worth a word, and decides nothing."""
    notes, found = [result.note] if result.note else [], {**result.peers}
    for name, module in PEERS.items():
        if case.peers is not None and importlib.util.find_spec(module) is not None:
            try:
                found[name] = case.peers(name, is_quick)
            except Exception as error:
                notes.append(f"peer {name} could not be measured: {type(error).__name__}: {error}")
    return replace(result, peers=found, note="; ".join(notes))
