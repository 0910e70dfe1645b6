"""Advise: the rules, asked about each backplane in turn, and their answers put together.

Rules are asked one after the other, each about the settings with what the ones before have proposed: more CPU may make more
threads unnecessary. In the end each figure is predicted with the whole patch, since that is what will be applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

from appbackplane.runtime.replay import calibrate

from ..records.found import Found
from ..records.pieces import Piece, pieces
from .facts import COUNT_MIN, Facts
from .gather import WINDOW_MAX, Gathered, gather
from .item import Advice, Item
from .judge import Verdict, judge
from .rules import RULES, Finding

#: Where the simulation is further from what was recorded, it does not know this backplane, and is not to speak for it.
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
    """What should be changed, by what is recorded in `where`: a run directory, a folder of records, or pieces.

    `found` counts what had to be left out. Raises `NothingRecorded`.
    """
    if isinstance(where, Path | str):
        where = pieces(where, since_ns=since_ns, until_ns=until_ns, backplanes=backplanes)
    found = Found() if found is None else found
    items: list[Item] = []
    notes: list[str] = []
    for gathered in gather(list(where), found, since_ns, until_ns, window_max):
        if backplanes is not None and gathered.backplane not in backplanes:
            continue
        its_items, its_notes = advise_of(gathered)
        items += its_items
        notes += its_notes
    return Advice(tuple(items), tuple(notes))


def advise_of(gathered: Gathered) -> tuple[list[Item], list[str]]:
    """What should be changed of one backplane, and what cannot be said."""
    if len(gathered.load) < COUNT_MIN:
        return [], []
    facts = Facts(gathered, calibrate(gathered.load, gathered.setting))
    if not facts.harmed:
        return [], []
    calibrated = facts.calibrated
    if calibrated.error > ERROR_MAX:
        return [], [
            f"backplane {gathered.backplane}: work waits too long, but what was recorded cannot be reproduced (waits differ by"
            f" {calibrated.error:.0%}): something else than its settings holds it up"
        ]
    setting = calibrated.setting
    taken: list[tuple[Finding, Verdict]] = []
    for rule in RULES:
        finding = rule(facts)
        if finding is None or any(finding.key == other.key for other, _ in taken):
            continue
        verdict = judge(finding, calibrated, setting)
        if verdict is not None:
            setting = verdict.setting
            taken.append((finding, verdict))
    if not taken:
        name = facts.name_of(next(iter(facts.harmed)))
        return [], [f"backplane {gathered.backplane}: {name} waits too long, and no change of its settings would help"]
    after = taken[-1][1].prediction
    return [_item(facts, finding, verdict.new, after.waits[finding.figure].mean) for finding, verdict in taken], []


def _item(facts: Facts, finding: Finding, new: Any, predicted_ns: float) -> Item:
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
        predicted=predicted_ns / 1e6,
        simulated_now=calibrated.simulated.waits[finding.figure].mean / 1e6,
        rule=finding.rule,
        data={
            **finding.data,
            "since_ns": facts.gathered.since_ns,
            "actions": len(facts.gathered.load),
            "calibration_error": calibrated.error,
        },
    )
