"""Advice is honest: on real processes, a patch that is applied brings what the simulation said it would.

Bad configurations, each under bursts at fixed times: recorded, advised, patched by `reload` while it runs, and given
the same bursts again. The figures are means over hundreds of waits, of work that sleeps or counts its own CPU time, so that a
busy machine changes little. A try in which the machine kept a witness waiting proves nothing and is not counted.
"""

from __future__ import annotations

import json
import shutil
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Client
from tests.steady import Witness

from .conftest import HERE, LIMIT_S, System, Up

pytest.importorskip("numpy", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from appbackplane.runtime.replay.prediction import recorded
from appbackplane.spark.advice import Advice, Item, advise
from appbackplane.spark.advice.gather import gather
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import pieces

#: What is promised.
WITHIN = 0.25
#: Of ten runs each, on two cores with a load of 8 to 14, all were within it at the first try: what was predicted was 0.83 to
#: 1.09 of what came for threads, 0.85 to 1.10 for quotas, 0.91 to 1.11 for the account's limit.
TRIES = 3


@dataclass(frozen=True)
class Bad:
    """A configuration, and the load that shows what is wrong with it."""

    settings: Mapping[str, Any]
    #: The key that is at fault, and what it does harm to.
    key: str
    figure: str
    bursts: int
    every_s: float
    #: (operation, how many a burst, ms each).
    work: tuple[tuple[str, int, float], ...]

    @property
    def count(self) -> int:
        """Actions in all."""
        return self.bursts * sum(count for _, count, _ in self.work)


BAD = {
    "a starved queue": Bad(
        {"quotas": [0], "tick": "0.25s", "preempt": False},
        "quotas",
        "desk.sort (priority 5)",
        6,
        1.2,
        (("serve", 60, 8.0), ("sort", 20, 8.0)),
    ),
    "too few threads for blocking work": Bad({}, "threads", "desk.serve (priority 1)", 8, 0.6, (("serve", 30, 10.0),)),
    "a CPU limit that is too low": Bad(
        # The account's, which stops what computes until the tick: bursts fall evenly on all phases of it.
        {"cpu_limit": 5, "cpu_exempt": 1, "tick": "0.1s"},
        "cpu_limit",
        "desk.count (priority 3)",
        10,
        1.33,
        (("count", 20, 2.5),),
    ),
    "a CPU limit of the kernel's that is too low": Bad(
        {"cpu_limit": 10}, "cpu_limit", "desk.count (priority 3)", 8, 0.8, (("count", 20, 2.0),)
    ),
}
#: And this many that the machine spoiled; the share of the time that it may keep a witness waiting.
TRIES_SPOILED, KEPT_WAITING_MAX = 4, 0.05


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BAD)
def test_a_patch_brings_what_was_predicted(name: str, up: Up, folder: Path) -> None:
    """Who has been promised 12 ms and gets 80 does not ask again."""
    bad = BAD[name]
    shutil.copy(HERE / "desk.py", folder)
    system = up(toml_of(bad.settings))
    told, spoiled = [], []
    with system.connect() as client:
        while len(told) < TRIES and len(spoiled) < TRIES_SPOILED:
            try:
                with Witness() as witness:
                    was_honest(system, client, bad)
            except AssertionError as error:
                is_judged = witness.kept_waiting <= KEPT_WAITING_MAX
                (told if is_judged else spoiled).append(f"(machine busy {witness.kept_waiting:.0%}) {error}")
                reload(system, bad.settings)
            else:
                return
    if len(told) < TRIES:
        pytest.skip(f"the machine gives too little CPU to judge by: {spoiled[-1]}")
    raise AssertionError("\n".join(told))


def was_honest(system: System, client: Client, bad: Bad) -> None:
    """Raises AssertionError where it was not."""
    load(client, bad)
    advice = advise(system.run_dir)
    item = advised(advice, bad)
    reload(system, {**bad.settings, **tomllib.loads(advice.patch)["backplane"]["desk"]})
    load(client, bad)
    real = waited_ms(system, bad)
    said = f"{item.now:.1f} ms, predicted {item.predicted:.1f}, and {real:.1f} came of it"
    assert real < item.now * 0.75, f"the patch has not helped: {said}"
    assert abs(real - item.predicted) <= WITHIN * item.predicted, said


def advised(advice: Advice, bad: Bad) -> Item:
    """The one piece of advice that there is to give."""
    assert [(item.target, item.key) for item in advice.items] == [("backplane.desk", bad.key)], advice
    item = advice.items[0]
    assert item.figure == f"mean wait of {bad.figure}"
    return item


def waited_ms(system: System, bad: Bad) -> float:
    """The figure, as it was recorded under the settings that hold now."""
    [desk] = [each for each in gather(pieces(system.run_dir), Found()) if each.backplane == "desk"]
    told = recorded(desk.load, desk.setting).waits
    [waits] = [waits for key, waits in told.items() if f"{desk.operations[key[0]]} (priority {key[1]})" == bad.figure]
    assert waits.count == bad.bursts * next(count for operation, count, _ in bad.work if operation in bad.figure)
    return waits.mean / 1e6


def load(client: Client, bad: Bad) -> None:
    """Burst after burst, at fixed times, whatever becomes of the ones before; until all is done."""
    before = client.call("desk.served", timeout=LIMIT_S)
    begin_s = time.monotonic()
    for number in range(bad.bursts):
        time.sleep(max(0.0, begin_s + number * bad.every_s - time.monotonic()))
        for operation, count, ms in bad.work:
            for _ in range(count):
                client.cast(f"desk.{operation}", ms=ms)
        client.flush()
    end_s = time.monotonic() + LIMIT_S
    while client.call("desk.served", timeout=LIMIT_S) < before + bad.count:
        assert time.monotonic() < end_s, "not all that was sent has been done"
        time.sleep(0.05)


def reload(system: System, settings: Mapping[str, Any]) -> None:
    """As a user does it: change the file, and say so."""
    system.toml.write_text(f'[system]\nname = "{system.name}"\n{toml_of(settings)}')
    done = system.command("reload", str(system.toml))
    assert done.returncode == 0, done.stderr


def toml_of(settings: Mapping[str, Any]) -> str:
    """A system that records; numbers, strings and lists of them look the same in JSON."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["[record]", "[backplane.desk]", 'components = ["desk:Desk"]', *lines, ""])
