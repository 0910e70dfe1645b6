"""What a kernel did can be seen from outside: on its topic, in the statistics, by Prometheus, in files, and as actions."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.launching import COMMAND
from tests.waiting import wait_until

from .conftest import LIMIT_S, System, Up, environment
from .test_recording import read

THREADS = """metrics = "127.0.0.1:0"
[record]
[backplane.index]
components = ["measured:Index"]
[backplane.index.settings.Index.policy]
workers = 4
mode = "lanes"
lanes = [0, 25, 25]
record = true
record_interval = 0.1
"""
PROCESSES = """
[record]
[backplane.index]
components = ["measured:Spread"]
[backplane.seats]
components = ["appbackplane.runtime.requests:RequestWorker"]
replicas = 2
[backplane.seats.settings.RequestWorker]
kernel = "measured:Spread"
"""
WIDTH = 12
#: A tree, its files, and the chunks of these.
REQUESTS = {1: 1, 2: WIDTH, 3: WIDTH * WIDTH}
#: Its name and its labels.
Sample = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture
def start(folder: Path, up: Up) -> Up:
    """Starts a system with the kernels."""
    shutil.copy(Path(__file__).parent / "measured.py", folder)
    return up


def listened(system: System, count: int) -> list[Mapping[str, Any]]:
    """Records of intervals, as they are published, until so many requests have ended."""
    found: list[Mapping[str, Any]] = []
    with system.connect() as client:
        messages = client.subscribe("index.interval", timeout=LIMIT_S)
        with system.connect() as other:
            assert other.call("index.work", width=WIDTH, timeout=LIMIT_S) == WIDTH * WIDTH
        for message in messages:
            found.append(message.body)
            if sum(body["ended"] for body in found) >= count:
                return found
    raise AssertionError("the topic has ended")


def statistics_of(system: System) -> Any:
    """Of the kernel's backplane. Status goes on without one that does not answer in time."""

    def told() -> Any:
        return next(e["statistics"] for e in system.status(statistics=True)["backplanes"] if e["name"] == "index")

    return wait_until(told, "the statistics do not come")


def samples_with(system: System, wanted: Sample) -> dict[Sample, float]:
    """As `samples`, once this one is among them: a backplane that does not answer in time is left out."""

    def found() -> dict[Sample, float]:
        all = samples(system)
        return all if wanted in all else {}

    return wait_until(found, f"{wanted} is not in the metrics")


def samples(system: System) -> dict[Sample, float]:
    """As Prometheus reads them."""
    url = system.wait_for("metrics at ").split("metrics at ")[1]
    with urllib.request.urlopen(url, timeout=LIMIT_S) as reply:
        text = reply.read().decode()
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def test_a_kernel_on_threads(start: Up) -> None:
    """All say the same, and all of it: totals, lanes, workers."""
    system = start(THREADS)
    total = sum(REQUESTS.values())
    found = listened(system, total)
    assert sum(body["posted"] for body in found) == sum(body["ended"] for body in found) == total
    for body in found:
        assert body["kernel"] == "index" and body["backplane"] == "index" and body["workers"] == 4
        assert body["executing_max"][1] <= 1 and body["executing_max"][1] + body["executing_max"][2] <= 3
        assert sum(each["ended"] for each in body["by_worker"].values()) == body["ended"]
    assert max(body["executing_max"][2] for body in found) >= 1

    statistics = statistics_of(system)
    told = statistics["requests"]["index"]
    assert (told["ended"], told["joined"], told["failed"]) == (total, total, 0)
    assert sum(each["ended"] for each in told["by_worker"].values()) == total
    assert told["recording"]["lost"] == 0 and told["recording"]["problem"] is None

    whose = {"system": "demo", "backplane": "index", "component": "index"}
    ended = "appbackplane_requests_ended_total", frozenset(whose.items())
    metrics = samples_with(system, ended)
    assert metrics[ended] == total
    ready = frozenset({**whose, "lane": "3", "state": "ready"}.items())
    assert metrics["appbackplane_requests", ready] == 0
    by_worker = [value for (name, _), value in metrics.items() if name == "appbackplane_requests_worker_ended_total"]
    assert sum(by_worker) == total

    assert system.command("down").returncode == 0
    lines = [
        json.loads(line)
        for path in sorted((system.run_dir / "records" / "index" / "index.interval").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    assert sum(line["ended"] for line in lines) == total
    assert [line for line in lines if line["at_ns"] in {body["at_ns"] for body in found}] == found

    recorded = Counter((name, fields["lane"]) for name, _, fields in read(system.run_dir, "index"))
    assert {
        lane: recorded[f"index.{name}", lane] for name, lane in (("Tree", 1), ("File", 2), ("Chunk", 3))
    } == REQUESTS


def test_a_kernel_on_processes(start: Up) -> None:
    """Requests are recorded where they are executed: in the workers' backplanes."""
    system = start(PROCESSES)
    with system.connect() as client:
        assert client.call("spread.count", width=500, timeout=LIMIT_S) == 500
    statistics = statistics_of(system)
    assert {name for name, each in statistics["requests"]["spread"]["by_worker"].items() if each["ended"]} <= {
        "seats-1",
        "seats-2",
    }
    assert statistics["requests"]["spread"]["ended"] == 500
    assert system.command("down").returncode == 0
    recorded = [each for name in ("seats-1", "seats-2") for each in read(system.run_dir, name)]
    found = Counter((name, fields["lane"], fields["outcome"]) for name, _, fields in recorded if "Chunk" in name)
    assert found == {("spread.Chunk", 3, 0): 500}


def test_listen_shows_it(start: Up) -> None:
    """For who sits before it, without having switched anything on."""
    system = start(THREADS)
    words = [*COMMAND, "listen", "index.interval", "--count", "1", "--json", "-s", "demo"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(system.folder)) as listening:
        with system.connect() as client:
            while listening.poll() is None:
                client.call("index.work", width=3, timeout=LIMIT_S)
        assert listening.stdout is not None
        heard = json.loads(listening.stdout.read())
    assert heard["topic"] == "index.interval" and heard["body"]["kernel"] == "index"
