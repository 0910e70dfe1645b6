"""Advice is honest: on real processes, a patch that is applied brings what the simulation said it would.

Bad configurations, each under bursts at fixed times: recorded, advised, patched by `reload` while it runs, and given
the same bursts again. The figures are means over hundreds of waits, of work that sleeps or counts its own CPU time, so that a
busy machine changes little. A try in which the machine kept a witness waiting proves nothing and is not counted.
"""

from __future__ import annotations

import json
import shutil
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appbackplane.transport import Client
from tests.figures import LONG, Stopwatch, judge
from tests.waiting import EVERY_S, Limit, wait_until

from .conftest import HERE, LIMIT_S, LINK, System, Up

pytest.importorskip("numpy", reason="the extra is not installed: pip install 'appbackplane[spark]'")

from appbackplane.spark.advice import Advice, Item, advise
from appbackplane.spark.advice.gather import gather
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import pieces
from appbackplane.spark.replay.prediction import recorded

#: What is promised. Of ten runs each, on two cores with a load of 8 to 14, all were within it: what was predicted was 0.83 to
#: 1.09 of what came for threads, 0.85 to 1.10 for quotas, 0.91 to 1.11 for the account's limit.
WITHIN = 0.25


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
THREADS = "too few threads for blocking work"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [THREADS, *(pytest.param(name, marks=LONG) for name in BAD if name != THREADS)])
def test_a_patch_brings_what_was_predicted(name: str, up: Up, folder: Path) -> None:
    """The advice names the key at fault, and its patch is taken. Whether as much came of it as was predicted is a figure of
    the machine as well, and judged by `scripts/long`; tests/spark/advice judges predictions of records that were made.
    """
    bad = BAD[name]
    shutil.copy(HERE / "desk.py", folder)
    system = up(toml_of(bad.settings))
    with system.connect() as client:
        load(client, bad)
        advice = advise(system.run_dir)
        item = advised(advice, bad)
        reload(system, {**bad.settings, **tomllib.loads(advice.patch)["backplane"]["desk"]})
        load(client, bad)
    real = waited_ms(system, bad)
    print(f"{item.now:.1f} ms, predicted {item.predicted:.1f}, and {real:.1f} came of it")
    judge("what came of the patch, to what was before", real / item.now, 0.75, unit="of 1")
    judge("the prediction's error", abs(real / item.predicted - 1), WITHIN, unit="of 1")


def advised(advice: Advice, bad: Bad) -> Item:
    """The one piece of advice that there is to give."""
    assert [(item.target, item.key) for item in advice.items] == [("backplane.desk", bad.key)], advice
    item = advice.items[0]
    assert item.figure == f"mean wait of {bad.figure}"
    return item


def waited_ms(system: System, bad: Bad) -> float:
    """The figure, as it was recorded under the settings that hold now. What has counted itself may not be recorded yet."""
    expected = bad.bursts * next(count for operation, count, _ in bad.work if operation in bad.figure)

    def waits() -> Any:
        [desk] = [each for each in gather(pieces(system.run_dir), Found()) if each.backplane == "desk"]
        told = recorded(desk.load, desk.setting).waits
        [found] = [
            found for key, found in told.items() if f"{desk.operations[key[0]]} (priority {key[1]})" == bad.figure
        ]
        return found if found.count >= expected else None

    found = wait_until(waits, "not all that was done is recorded")
    assert found.count == expected
    return float(found.mean) / 1e6


def load(client: Client, bad: Bad) -> None:
    """Burst after burst, at fixed times, whatever becomes of the ones before; until all is done."""
    before = client.call("desk.served", timeout=LIMIT_S)
    watch = Stopwatch()
    for number in range(bad.bursts):
        threading.Event().wait(max(0.0, number * bad.every_s - watch.taken_s))
        for operation, count, ms in bad.work:
            for _ in range(count):
                client.cast(f"desk.{operation}", ms=ms)
        client.flush()
    limit = Limit()
    while client.call("desk.served", timeout=LIMIT_S) < before + bad.count:
        limit.check("not all that was sent has been done", pause_s=EVERY_S)


def reload(system: System, settings: Mapping[str, Any]) -> None:
    """As a user does it: change the file, and say so."""
    system.toml.write_text(f'[system]\nname = "{system.name}"\n{LINK}{toml_of(settings)}')
    done = system.command("reload", str(system.toml))
    assert done.returncode == 0, done.stderr


def toml_of(settings: Mapping[str, Any]) -> str:
    """A system that records; numbers, strings and lists of them look the same in JSON."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["[record]", "[backplane.desk]", 'components = ["desk:Desk"]', *lines, ""])
