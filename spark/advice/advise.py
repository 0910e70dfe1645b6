"""Advise: ask the rules about each backplane in turn, and combine their answers.

Proposals are tried one after the other, each on top of those that already helped: more CPU may make more threads unnecessary,
or make them useful in the first place. Finally each figure is predicted with the whole patch, as it is applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Final

from ..records.found import Found
from ..records.pieces import Piece, pieces
from ..replay import Prediction
from .advice import Advice
from .facts import COUNT_MIN, Facts
from .gather import WINDOW_MAX, GatheredWindow, gather
from .item import Item
from .judge import Verdict, judge, judge_pair
from .rules import RULES, AdviceFinding
from .tables import merged, tables

#: Largest calibration error with which a simulation is trusted. Above it, no advice is given on this backplane.
ERROR_MAX: Final = 0.4


def advise(
    where: Path | str | Iterable[Piece],
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    backplanes: Collection[str] | None = None,
    found: Found | None = None,
    window_max: int = WINDOW_MAX,
) -> Advice:
    """Propose setting changes for the backplanes recorded in `where`: a run directory, a folder of records, or pieces.

    `found` counts the records that had to be left out. Raises `NothingRecorded`.
    """
    if isinstance(where, Path | str):
        where = pieces(where, since_ns=since_ns, until_ns=until_ns, backplanes=backplanes)
    gathered = gather(list(where), Found() if found is None else found, since_ns, until_ns, window_max)
    return advise_all(gathered, backplanes)


def advise_all(gathered: Sequence[GatheredWindow], backplanes: Collection[str] | None = None) -> Advice:
    """Advise on the named backplanes; None: on all. The others are still used to recognise replicas."""
    items: list[Item] = []
    notes: list[str] = []
    for each in gathered:
        if backplanes is None or each.backplane in backplanes:
            its_items, its_notes = advise_of(each)
            items += its_items
            notes += its_notes
    return Advice(tuple(merged(items, tables(gathered))), tuple(notes))


def advise_of(gathered: GatheredWindow) -> tuple[list[Item], list[str]]:
    """Return the advice for one backplane, and notes on trouble for which there is no advice."""
    if len(gathered.load) < COUNT_MIN:
        return [], []
    facts = Facts(gathered)
    if not facts.harmed:
        return [], []
    if gathered.executed_by:
        return [], [_of_others(facts)]
    calibrated = facts.calibrated
    if calibrated.error > ERROR_MAX:
        return [], [
            f"backplane {gathered.backplane}: work waits too long, but no simulation reproduces the records (waits differ by"
            f" {calibrated.error:.0%}): the cause is not in its settings"
        ]
    taken = _taken(facts)
    if not taken:
        name = facts.name_of(next(iter(facts.harmed)))
        return [], [
            f"backplane {gathered.backplane}: {name} waits too long, and no change of its settings would help much"
        ]
    after = taken[-1][1].prediction
    return [_item(facts, finding, verdict.new, after) for finding, verdict in taken], []


def _of_others(facts: Facts) -> str:
    """Note on requests that an external executor runs: no simulation models its machines, and no setting gives them room."""
    gathered = facts.gathered
    key, waits = next(iter(facts.harmed.items()))
    return (
        f"backplane {gathered.backplane}: {facts.name_of(key)} waits {waits.mean / 1e6:.3g} ms on average and runs"
        f" {facts.run_ns(key) / 1e6:.3g} ms: more cores for {gathered.executed_by} would help, or, where its cores are idle,"
        " more `workers` in the kernel's policy"
    )


def _taken(facts: Facts) -> list[tuple[AdviceFinding, Verdict]]:
    """Findings that the simulation confirms, each tried on top of those before it."""
    setting = facts.setting
    taken: list[tuple[AdviceFinding, Verdict]] = []
    left = [finding for finding in (rule(facts) for rule in RULES) if finding is not None]
    while helpful := next(((each, verdict) for each in left if (verdict := judge(each, facts, setting))), None):
        setting = helpful[1].setting
        taken.append(helpful)
        left.remove(helpful[0])
    for one, other in permutations(left, 2):
        pair = judge_pair(one, other, facts, setting)
        if pair is not None:
            first, second = pair
            return [*taken, (other, second), (one, first)]
    return taken


def _item(facts: Facts, finding: AdviceFinding, new: Any, after: Prediction) -> Item:
    calibrated = facts.calibrated
    waits = calibrated.recorded.waits[finding.figure]
    return Item(
        target=f"backplane.{facts.gathered.backplane}",
        key=finding.key,
        old=getattr(facts.setting, finding.key),
        new=new,
        evidence=finding.evidence,
        figure=f"mean wait of {facts.name_of(finding.figure)}",
        now=waits.mean / 1e6,
        predicted=after.waits[finding.figure].mean / 1e6,
        simulated_now=calibrated.simulated.waits[finding.figure].mean / 1e6,
        rule=finding.rule,
        data={
            **finding.data,
            "since_ns": facts.gathered.since_ns,
            "actions": len(facts.gathered.load),
            "calibration_error": calibrated.error,
            "p99_ms": waits.p99 / 1e6,
            "p99_predicted_ms": after.waits[finding.figure].p99 / 1e6,
            "late": waits.late,
            "late_predicted": after.waits[finding.figure].late,
            "per_s": calibrated.recorded.per_s,
            "per_s_predicted": after.per_s,
        },
    )
