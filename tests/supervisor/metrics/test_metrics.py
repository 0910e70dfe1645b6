"""The metrics port of a running system: what it says, to whom, and what it does when it cannot."""

from __future__ import annotations

import builtins
import json
import re
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from appbackplane.runtime import otel
from appbackplane.supervisor import metrics
from appbackplane.supervisor.commands import main
from appbackplane.supervisor.configuration.config import ConfigError, parse
from appbackplane.supervisor.configuration.metrics_address import host_and_port
from appbackplane.supervisor.metrics import port as metrics_port
from appbackplane.supervisor.metrics.exposition import METRICS
from appbackplane.supervisor.metrics.port import MetricsPort
from appbackplane.transport import connect
from appbackplane.transport.errors import FailedPrecondition, Unavailable
from tests.waiting import Limit, wait_until

from ..conftest import LIMIT_S, MODULE, TOML, RunningSystem, starting

Start = Callable[..., RunningSystem]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=")
        return str(reply.read().decode())


def samples(text: str) -> Samples:
    """As Prometheus reads it."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def one(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset({"system": "demo", **labels}.items())]


def if_of_both(found: Samples, name: str) -> Samples:
    """These, if this is told of both backplanes; else none."""
    return found if sum(each == name for each, _ in found) == 2 else {}


def up(start: Start, system: str) -> tuple[RunningSystem, str]:
    """A system, and where its metrics are."""
    running = start(system)
    said = running.wait_said("metrics at ")
    running.wait_said("is up, pid")
    return running, said.split("metrics at ")[1]


def answered(running: RunningSystem) -> list[dict[str, Any]]:
    """What the status tells of each backplane, once all have answered in the 0.75 s that they are given."""
    told: list[dict[str, Any]] = []

    def have_answered() -> bool:
        told[:] = running.status(statistics=True)["backplanes"]
        return all(each["statistics"] for each in told)

    wait_until(have_answered, lambda: told)
    return told


def settle(running: RunningSystem, **counts: int) -> None:
    """Until these operations are booked so often: an answer leaves before its action is."""
    limit = Limit()
    while True:
        told = answered(running)
        found = {name: one["count"] for each in told for name, one in each["statistics"]["operations"].items()}
        if all(found.get(name.replace("_", ".")) == count for name, count in counts.items()):
            return
        limit.check(found)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningSystem, str]]:
    """A system whose figures are read, and where they are; at its end nobody listens there any more."""
    with starting(tmp_path_factory.mktemp("measured")) as start:
        running, url = up(start, 'metrics = "localhost:0"')
        yield running, url
        running.signal(signal.SIGTERM)
        running.wait_down()
        with pytest.raises(urllib.error.URLError):
            get(url)


def test_values_agree_with_the_status(measured: tuple[RunningSystem, str]) -> None:
    """Two sources that disagree are worse than one. Called is before, so that nothing moves between the two looks; and the
    command that people use says the same.
    """
    running, url = measured
    with connect(running.run_dir, timeout=LIMIT_S) as client:
        for _ in range(25):
            client.call("index.echo", text="x", timeout=LIMIT_S)
        with pytest.raises(Exception, match="text"):
            client.call("index.echo", text=1, timeout=LIMIT_S)
        client.call("query.ask", timeout=LIMIT_S)
    settle(running, index_echo=25, query_ask=1, index_pid=1)
    # A backplane that does not answer in time has a state and no figures.
    found = wait_until(lambda: if_of_both(samples(get(url)), "appbackplane_workers"), "a backplane has no figures")
    for backplane in answered(running):
        name, statistics = backplane["name"], backplane["statistics"]
        assert one(found, "appbackplane_backplane_up", backplane=name) == 1
        assert one(found, "appbackplane_backplane_restarts_total", backplane=name) == backplane["restarts"]
        assert one(found, "appbackplane_queued_actions", backplane=name) == statistics["queues"]["actions"]
        assert one(found, "appbackplane_workers", backplane=name) == statistics["threads"]
        assert 0 < one(found, "appbackplane_cpu_seconds_total", backplane=name) <= statistics["cpu"]["process_ms"] / 1e3
        assert statistics["operations"]
        for operation, account in statistics["operations"].items():
            labels = {"backplane": name, "operation": operation}
            for figure, key in (
                ("actions", "count"), ("errors", "errors"), ("refused", "refused"), ("expired", "expired"),
                ("cancelled", "cancelled"), ("slow", "slow"), ("late", "late"),
            ):  # fmt: skip
                assert one(found, f"appbackplane_operation_{figure}_total", **labels) == account[key]
            assert one(found, "appbackplane_operation_cpu_seconds_total", **labels) == pytest.approx(
                account["cpu_ms"] / 1e3
            )
            for which in ("wait", "run"):
                histogram = f"appbackplane_operation_{which}_seconds"
                assert one(found, f"{histogram}_count", **labels) == account[which]["count"]
                assert one(found, f"{histogram}_bucket", le="+Inf", **labels) == account[which]["count"]
                mean_us = one(found, f"{histogram}_sum", **labels) / account[which]["count"] * 1e6
                assert mean_us == pytest.approx(account[which]["mean_us"], abs=0.1)
                p99_s = account[which]["p99_us"] / 1e6
                # Above, not at: what took 4,096 ns is in a bucket of ours that begins there, and so not in that up to there.
                above = min(b for b in (2**n / 1e9 for n in range(10, 37)) if b > p99_s)
                assert one(found, f"{histogram}_bucket", le=str(above), **labels) >= 0.99 * account[which]["count"]

    def index_shown() -> Any:
        shown = CliRunner().invoke(main, ["status", "-s", str(running.toml), "--stats", "--json"]).stdout
        return json.loads(shown)["backplanes"][1]["statistics"]

    count = wait_until(index_shown, "it does not answer")["operations"]["index.pid"]["count"]
    assert one(found, "appbackplane_operation_actions_total", backplane="index", operation="index.pid") == count == 1


def test_everything_in_the_table_is_exposed_and_nothing_else(measured: tuple[RunningSystem, str]) -> None:
    """With help and kind, as the table says; the dashboard and the page are tested against the table."""
    running, url = measured
    text = get(url)
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    assert kinds == {metric.name: metric.kind for metric in METRICS}
    assert set(re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE)) == set(kinds)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(url.removesuffix("metrics"))
    assert running.process.poll() is None


def test_one_who_connects_and_says_nothing_is_not_waited_for_by_the_system(start: Start) -> None:
    """Nor does it keep the system from going down."""
    running, url = up(start, 'metrics = "127.0.0.1:0"')
    host, port = host_and_port(url.removeprefix("http://").removesuffix("/metrics"))
    with socket.create_connection((host, port)):
        assert running.status()["state"] == "up"
        running.signal(signal.SIGTERM)
        assert running.wait_down() == 0


def test_closing_hangs_up_on_whoever_is_being_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a silent client would hold up each `down` for as long as it may take to ask."""
    monkeypatch.setattr(metrics_port._Handler, "timeout", 3600.0)
    port = MetricsPort("127.0.0.1:0", dict)
    with socket.create_connection(host_and_port(port.address)) as silent:
        silent.sendall(b"GET /met")
        limit = Limit()
        while not port._server.served:
            limit.check()
        port.close()  # returns only when its thread has ended: it would wait for the rest of the question


def test_half_a_request_delays_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of them kept Prometheus waiting for half a minute, by which time it had given up; nor do more than fit."""
    monkeypatch.setattr(metrics_port._Handler, "timeout", 3600.0)

    def look() -> Any:
        raise Unavailable("asked")

    port = MetricsPort("127.0.0.1:0", look)
    with ExitStack() as stack:
        stack.callback(port.close)
        for _ in range(3 * metrics_port.CONNECTIONS_MAX):
            half = stack.enter_context(socket.create_connection(host_and_port(port.address)))
            half.sendall(b"GET /met")
        wait_until(lambda: len(port._server.served) == metrics_port.CONNECTIONS_MAX, lambda: port._server.served)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            get(f"http://{port.address}/metrics")


def refused(port: MetricsPort, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect while no thread can be started, and be hung up on."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with socket.create_connection(host_and_port(port.address)) as connection:
            assert connection.recv(1) == b""


def test_a_connection_whose_thread_cannot_be_started_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host with as many threads as it may have: after 16 of them nobody was served any more, and closing failed."""
    port = MetricsPort("127.0.0.1:0", dict)
    for _ in range(2 * metrics_port.CONNECTIONS_MAX + 1):
        refused(port, monkeypatch)
    assert port._server.served == []
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"http://{port.address}/")
    refused(port, monkeypatch)
    port.close()


def test_check_says_what_metrics_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the first `up` on the machine that counts would say it."""
    (tmp_path / "demo.py").write_text(MODULE)
    (tmp_path / "demo.toml").write_text(TOML.format(system='metrics = "127.0.0.1:0"', index=""))
    assert CliRunner().invoke(main, ["check", str(tmp_path / "demo.toml")]).exit_code == 0
    monkeypatch.setattr(metrics, "is_installed", lambda: False)
    result = CliRunner().invoke(main, ["check", str(tmp_path / "demo.toml")])
    assert result.exit_code == 2
    assert "demo.toml: system.metrics: needs prometheus-client: pip install" in result.stderr


@pytest.mark.parametrize("verb", ["check", "up"])
def test_a_missing_opentelemetry_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Each backplane would say it, and be given up."""
    (tmp_path / "demo.py").write_text(MODULE)
    (tmp_path / "demo.toml").write_text(TOML.format(system="", index="") + '[trace]\notlp = "http://localhost:4318"\n')
    monkeypatch.setattr(otel, "is_installed", lambda: False)
    result = CliRunner().invoke(main, [verb, str(tmp_path / "demo.toml")])
    assert result.exit_code == 2
    assert "demo.toml: trace: needs OpenTelemetry: pip install 'appbackplane[otel]'" in result.stderr


def test_a_port_that_is_taken_is_one_clear_line(start: Start) -> None:
    """And nothing has been started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        running = start(f'metrics = "{address}"')
        assert running.wait_down() == 1
    assert running.said == [f"appbackplane: [system] metrics: cannot listen at {address}: Address already in use"]


def test_without_prometheus_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configured, and not there: a system without the metrics that somebody counts on is worse than none."""
    real_import = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(FailedPrecondition, match=re.escape("pip install 'appbackplane[metrics]'")):
        MetricsPort("127.0.0.1:0", dict)


def test_a_supervisor_that_does_not_answer_is_a_status_and_not_an_empty_page() -> None:
    """Prometheus then knows that the scrape has failed, and `up` is 0."""

    def look() -> Any:
        raise Unavailable("the supervisor of 'demo' did not answer")

    port = MetricsPort("127.0.0.1:0", look)
    try:
        with pytest.raises(urllib.error.HTTPError, match="503") as raised:
            get(f"http://{port.address}/metrics")
        assert raised.value.read() == b"the supervisor of 'demo' did not answer\n"
    finally:
        port.close()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('metrics = "127.0.0.1:9464"', None),
        ('metrics = "[::1]:9464"', None),
        ('metrics = "0.0.0.0:9464"', "others could read 0.0.0.0:9464"),
        ('metrics = "192.168.1.5:9464"', "metrics_public = true"),
        ('metrics = "0.0.0.0:9464"\nmetrics_public = true', None),
        ('metrics = "9464"', 'expected "HOST:PORT"'),
        ('metrics = "127.0.0.1:70000"', 'expected "HOST:PORT"'),
        ('metrics = "example.org:80"', "numeric host"),
    ],
)
def test_strangers_read_nothing_unless_it_is_said(lines: str, problem: str | None) -> None:
    """Names of operations and their load are nobody's business by default."""
    text = f'[system]\nname = "demo"\n{lines}\n[backplane.main]\ncomponents = ["a:A"]\n'
    if problem is None:
        parse(text, Path("/demo.toml"))
        return
    with pytest.raises(ConfigError, match=re.escape(problem)) as raised:
        parse(text, Path("/demo.toml"))
    assert raised.value.problems[0].startswith("system.metrics: ")
