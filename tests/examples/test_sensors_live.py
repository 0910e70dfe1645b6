"""examples/sensors as a newcomer brings it up: its page as it is typed, and a whole experiment against a tally of the model."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from sensornet.model import DAY_NS, FieldModel, FieldPlan, S, Transmission
from sensornet.nodes import TOPIC, key_of

from appbackplane.transport import connect
from tests.docs.pages import blocks
from tests.docs.shell import Shell, environment
from tests.spark.systems import messages
from tests.waiting import LIMIT_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sensors"
LISTEN = "127.0.0.1:8080"
#: Batteries of which some are empty before the end, and twelve minutes in six seconds. Fewer nodes than the page's thousand: a
#: tally is as exact with them.
EXPERIMENT = FieldPlan(nodes=300, battery_mah=0.5)
HOURS, SPEED = 0.2, 120.0
QUANTITIES = ("temperature", "humidity", "light")
#: Of Spark: 30 s on a quiet machine with two cores.
SPARK_LIMIT_S = 600.0


@pytest.fixture
def example() -> Iterator[Path]:
    """A copy in a folder whose name is short enough for sockets. Its gateway listens on another port, and it is taken down.

    The port stays bound here, without a listener: two sockets with SO_REUSEADDR may bind it, and the kernel gives it to nobody
    else (man 7 socket).
    """
    pytest.importorskip("aiohttp", reason="the extra is not installed: pip install 'appbackplane[web]'")
    pytest.importorskip("pyspark", reason="the extra is not installed: pip install 'appbackplane[spark]'")
    with socket.socket() as reserved, tempfile.TemporaryDirectory(prefix="ab-") as folder:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{reserved.getsockname()[1]}"
        copy = Path(folder) / "sensors"
        shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("run", "run.log", "__pycache__"))
        for name in ("README.md", "sensors.toml"):
            text = (copy / name).read_text()
            assert LISTEN in text
            (copy / name).write_text(text.replace(LISTEN, listen))
        yield copy
        subprocess.run([sys.executable, "-m", "appbackplane.supervisor", "down", "-s", str(copy / "run")], check=False)


@pytest.mark.timeout(2 * SPARK_LIMIT_S)
def test_the_page_does_what_it_says(example: Path) -> None:
    """Typed from its beginning to its end, as those of docs/ are."""
    with tempfile.TemporaryDirectory(prefix="abp-") as run_dir, Shell(example, environment(Path(run_dir))) as shell:
        try:
            for block in blocks((example / "README.md").read_text(), "README.md"):
                if block.language == "console":
                    shell.run(block)
            wait_until(lambda: not shell.left_behind(), shell.left_behind)  # Spark's JVM ends behind its program
        finally:
            left = shell.left_behind()
            for process in left:
                process.kill()
            psutil.wait_procs(left, timeout=10)


@pytest.mark.timeout(2 * SPARK_LIMIT_S)
def test_an_experiment_is_recorded_and_evaluated(
    example: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hundreds of things report; each received report is recorded once; and Spark finds what the model knows.

    Evaluated by the session of the tests. `aggregate.py` as a program is on the page.
    """
    from aggregate import evaluate
    from sensornet import aggregates

    from appbackplane.spark.datasource import register

    toml = example / "sensors.toml"
    fast = f"speed = {SPEED}\nhours = {HOURS}\nbattery_mah = {EXPERIMENT.battery_mah}\n"
    text = toml.read_text().replace("speed = 20.0", fast).replace("nodes = 1000", f"nodes = {EXPERIMENT.nodes}")
    toml.write_text(text)
    subprocess.run(
        [sys.executable, "-m", "appbackplane.supervisor", "up", "--detach", "sensors.toml"], cwd=example, check=True
    )
    field = FieldModel(EXPERIMENT)
    happened = field.advance(round(HOURS * 3_600 * S))
    sent = [each for each in happened if isinstance(each, Transmission)]
    received = [each for each in sent if not each.is_lost]
    with connect(example / "run", timeout=LIMIT_S) as client:
        status = lambda: client.call("sensor_field.status", timeout=LIMIT_S)  # noqa: E731
        wait_until(lambda: status()["now_s"] == HOURS * 3_600, "the field does not end")
        wait_until(lambda: len(messages(example / "run", TOPIC)) >= len(received), "reports are missing")
        assert status() == {
            "now_s": HOURS * 3_600, "sent": len(sent), "lost": len(sent) - len(received), "dead": len(happened) - len(sent),
        }  # fmt: skip
        dead = {node.number for node in field.nodes if node.is_dead}
        assert 0 < len(dead) < len(field.nodes)
        for number in (min(dead), min(set(range(len(field.nodes))) - dead)):
            assert client.call("sensor_field.is_dead", key=key_of(number), timeout=LIMIT_S) is (number in dead)
        things_are_described(client.call("gateway.address", timeout=LIMIT_S), len(field.nodes))
    recorded = messages(example / "run", TOPIC)
    assert sorted((each["node"], each["sequence"]) for each in recorded) == sorted(
        (key_of(each.node), each.sequence) for each in received
    )
    register(spark)
    reports = aggregates.reports(spark, str(example / "run")).cache()
    evaluate(reports, is_json=True)
    reports.unpersist()
    found = json.loads(capsys.readouterr().out)
    assert {row["run"] for table in found.values() for row in table} == {recorded[0]["run"]}
    columns = ("reports", *(f"{each}_{name}" for each in QUANTITIES for name in ("mean", "min", "max")))
    zones = {(row["zone"], row["minute"]): [row[name] for name in columns] for row in found["zones"]}
    assert zones == zones_of(field, received)
    assert {row["node"]: (row["sent"], row["lost"], row["share"]) for row in found["losses"]} == losses_of(sent)
    days = {row["node"]: row["days_left"] for row in found["batteries"]}
    assert days == batteries_of(field, received)


def titles_at(address: str) -> list[str]:
    """Those of all things, over HTTP."""
    found: list[str] = []
    for query in ("limit=200", "limit=200&offset=200"):
        with urllib.request.urlopen(f"{address}things?{query}", timeout=LIMIT_S) as page:
            found += [each["title"] for each in json.load(page)]
    return found


def things_are_described(address: str, nodes: int) -> None:
    """All nodes and the devices of the host, over HTTP; and one of them answers."""
    titles = wait_until(
        lambda: found if len(found := titles_at(address)) >= nodes + 6 else None, "the gateway does not list all things"
    )
    assert titles is not None and titles.count("SensorNode") == nodes and len(titles) == nodes + 6
    with urllib.request.urlopen(f"{address}search?place=room-42&limit=1", timeout=LIMIT_S) as answer:
        (found,) = json.load(answer)
    assert (found["id"], found["schema:containedInPlace"]) == (
        "urn:appbackplane:sensor_field:node-0042",
        "zone-4, room-42",
    )


def zones_of(field: FieldModel, received: list[Transmission]) -> dict[tuple[str, int], Any]:
    """By zone and minute: how many reports, and mean, least and greatest of each quantity."""
    climates = defaultdict(list)
    for each in received:
        climates[f"zone-{field.nodes[each.node].zone}", each.time_ns // (60 * S)].append(each.climate)
    return {
        key: pytest.approx(
            [len(found), *(how(getattr(each, name) for each in found) for name in QUANTITIES for how in (mean, min, max))]
        )
        for key, found in climates.items()
    }  # fmt: skip


def losses_of(sent: list[Transmission]) -> dict[str, Any]:
    """By node: sent up to the last received message, how many of them are lost, and their share. From what was lost."""
    lives = defaultdict(list)
    for each in sent:
        lives[key_of(each.node)].append(each.is_lost)
    found = {}
    for key, life in lives.items():
        while life and life[-1]:
            life.pop()
        if life:
            found[key] = (len(life), sum(life), pytest.approx(sum(life) / len(life)))
    return found


def batteries_of(field: FieldModel, received: list[Transmission]) -> dict[str, Any]:
    """By node: days left after its last received report, from the charge that a cycle takes; None after one report."""
    levels = defaultdict(list)
    for each in received:
        levels[each.node].append(each.battery)
    found = {}
    for number, battery in levels.items():
        node = field.nodes[number]
        cycles = battery[-1] / 100.0 * node.capacity_mas / node.cycle_mas
        days = cycles * node.period_ns / DAY_NS
        found[key_of(number)] = pytest.approx(days, rel=1e-6) if len(battery) > 1 else None
    return found
