"""Replay: the program behind `appbackplane replay`: recorded waits, and those that other settings are predicted to bring.

Three figures stand beside each other: the recorded one, that of the simulation under the recorded settings, which shows how far
the simulation may be trusted, and the predicted one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from appbackplane.transport.errors import FailedPrecondition, InvalidArgument, NotFound

from ..advice.advise import ERROR_MAX
from ..advice.gather import GatheredWindow, gather
from ..records.found import Found
from ..records.pieces import pieces
from ..replay import Calibrated, PredictedWaits, Prediction, calibrate
from .terminal import print_table
from .words import count, date, duration, rate, share

#: Settings that the TOML calls otherwise.
_KEYS: Final = {"aim_ns": "admission.aim", "tick_ns": "tick", "max_starvation_ns": "max_starvation"}
_HEAD: Final = (
    "OPERATION", "PRIORITY#", "COUNT#", "MEAN WAIT#", "REPLAYED#", "PREDICTED#", "P99 WAIT#", "REPLAYED#", "PREDICTED#",
    "LATE#", "PREDICTED#", "REFUSED#",
)  # fmt: skip


def replay(where: Path, backplane: str, changes: str, *, since_ns: int | None, as_json: bool) -> None:
    """Print the prediction. `changes`: names of a `ReplaySetting` to their new values, as JSON.

    Raises `NothingRecorded`; `NotFound` for a backplane without recorded actions; `FailedPrecondition` where the simulation
    does not reproduce the recording; `InvalidArgument` for shares that cannot be met.
    """
    wanted = {key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(changes).items()}
    found = Found()
    window = _window(gather(pieces(where, since_ns=since_ns), found, since_ns), backplane)
    calibrated = calibrate(window.load, window.setting)
    if calibrated.error > ERROR_MAX:
        cause = "the waits have a cause outside its settings"
        if since_ns is not None:
            cause += ", or calls waited already when the window began: choose a --since at which its queue was empty"
        raise FailedPrecondition(
            f"backplane {backplane}: no simulation reproduces the records (waits differ by {calibrated.error:.0%}), so that "
            f"nothing can be predicted: {cause}"
        )
    try:
        predicted = calibrated.predict(calibrated.setting.with_(**wanted))
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    if as_json:
        click.echo(json.dumps(to_map(window, calibrated, predicted, wanted)))
    else:
        for line in _summary(window, calibrated, predicted, wanted):
            click.echo(line)
        click.echo()
        print_table(_HEAD, [*_rows(window, calibrated, predicted)])
    for path, problem in found.unreadable.items():
        click.echo(f"{path} could not be read: {problem}", err=True)


def to_map(
    window: GatheredWindow, calibrated: Calibrated, predicted: Prediction, wanted: Mapping[str, Any]
) -> dict[str, Any]:
    """The prediction as JSON; times in ns."""
    return {
        "node": window.node,
        "backplane": window.backplane,
        "since_ns": window.since_ns,
        "actions": len(window.load),
        "calibration_error": calibrated.error,
        "recorded_settings": {key: getattr(window.setting, key) for key in wanted},
        "settings": dict(wanted),
        "operations": [
            {
                "operation": window.operations[key[0]],
                "priority": key[1],
                "recorded": asdict(was),
                "replayed": asdict(calibrated.simulated.waits[key]),
                "predicted": asdict(predicted.waits[key]),
            }
            for key, was in _ordered(calibrated.recorded)
        ],
        "per_s": {"recorded": calibrated.recorded.per_s, "predicted": predicted.per_s},
        "busy": {"recorded": calibrated.recorded.busy, "predicted": predicted.busy},
        "cpu": {"recorded": calibrated.recorded.cpu, "predicted": predicted.cpu},
    }


def _window(gathered: list[GatheredWindow], backplane: str) -> GatheredWindow:
    found = [each for each in gathered if each.backplane == backplane and len(each.load)]
    if not found:
        names = sorted({each.backplane for each in gathered if len(each.load)})
        raise NotFound(f"no action of backplane {backplane!r} is recorded; recorded are those of {', '.join(names)}")
    window = max(found, key=lambda each: each.since_ns)
    if window.executed_by:
        raise FailedPrecondition(
            f"backplane {backplane}: its actions were executed by {window.executed_by}, and no simulation models that"
        )
    return window


def _summary(
    window: GatheredWindow, calibrated: Calibrated, predicted: Prediction, wanted: Mapping[str, Any]
) -> Iterator[str]:
    changes = ", ".join(
        f"{_KEYS.get(key, key)} = {_shown(key, value)} (was {_shown(key, getattr(window.setting, key))})"
        for key, value in wanted.items()
    )
    number = len(window.load)
    yield f"{window.backplane}: {count(number)} action{'s' * (number != 1)} since {date(window.since_ns)}, with {changes}"
    yield f"under the recorded settings, the simulation comes within {calibrated.error:.0%} of the recorded waits"
    was = calibrated.recorded
    yield (
        f"{rate(was.per_s)} -> {rate(predicted.per_s)}; workers busy {share(was.busy)} -> {share(predicted.busy)}; "
        f"CPU {share(was.cpu)} -> {share(predicted.cpu)}; refused {share(predicted.refused / number)}"
    )


def _rows(window: GatheredWindow, calibrated: Calibrated, predicted: Prediction) -> Iterator[list[str]]:
    for key, was in _ordered(calibrated.recorded):
        now, after = calibrated.simulated.waits[key], predicted.waits[key]
        yield [
            window.operations[key[0]], str(key[1]), count(was.count + was.late),
            duration(was.mean), duration(now.mean), duration(after.mean),
            duration(was.p99), duration(now.p99), duration(after.p99),
            count(was.late), count(after.late), count(after.refused),
        ]  # fmt: skip


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "none"
    return duration(value) if key.endswith("_ns") else json.dumps(value)


def _ordered(prediction: Prediction) -> list[tuple[tuple[int, int], PredictedWaits]]:
    """The longest total wait first."""
    return sorted(prediction.waits.items(), key=lambda each: (-each[1].mean * each[1].count, each[0]))
