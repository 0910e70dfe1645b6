"""Traces, with real processes and a collector: each call's spans arrive, parent by parent. A dead collector harms nobody."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.transport import InternalError, call_checks
from tests.collector import Collector, Span, collecting
from tests.waiting import wait_until

from .conftest import HERE, LIMIT_S, System, Up, ask_until, standing

CHAIN = """
[backplane.top]
components = ["traced:Top"]
[backplane.middle]
components = ["traced:Middle"]
[backplane.leaf]
components = ["traced:Leaf"]
"""
#: Enough for what a single backplane says of its collector.
LEAF = CHAIN[CHAIN.index("[backplane.leaf]") :]


@pytest.fixture(scope="module")
def collected(_no_ignored_interrupt: None) -> Iterator[tuple[System, Collector]]:
    """Three backplanes that export to a collector, for all tests."""
    with collecting() as collector, standing(f'[trace]\notlp = "{collector.address}"\n{CHAIN}', "traced.py") as system:
        yield system, collector


@pytest.fixture
def chain(collected: tuple[System, Collector]) -> System:
    """The three backplanes."""
    return collected[0]


@pytest.fixture
def collector(collected: tuple[System, Collector]) -> Collector:
    """The collector. It has forgotten all spans of the test before: each exporter sends in order, so those of a call that is
    made last come last.
    """
    system, collector = collected
    spec = call_checks.asked("top.all", None, None, LIMIT_S, None, {"number": 0})
    trace = os.urandom(16).hex()
    spec.trace = f"00-{trace}-b7ad6b7169203331-01"
    with system.connect() as client:
        client._calling.call(spec)
    collector.wait_for(lambda spans: all(of_route(spans, route, trace) for route in ("top.all", "middle.both")))
    collector.wait_for(lambda spans: len(of_route(spans, "leaf.double", trace)) == 2)
    collector.forget()
    return collector


def tracing(up: Up, folder: Path, trace: str, backplanes: str = LEAF) -> System:
    """A system of one test."""
    shutil.copy(HERE / "traced.py", folder)
    return up(f"[trace]\n{trace}\n{backplanes}")


def of_route(spans: list[Span], route: str, trace: str | None = None) -> list[Span]:
    return [span for span in spans if span.name == route and trace in (None, span.trace)]


def children(spans: list[Span], parent: Span) -> list[str]:
    return sorted(span.name for span in spans if (span.trace, span.parent) == (parent.trace, parent.id))


def test_a_call_through_three_backplanes_is_one_trace_parent_by_parent(chain: System, collector: Collector) -> None:
    """With queue, run and waits, status, priority and source: what people look for when a call was slow."""
    with chain.connect() as client:
        assert client.call("top.all", number=5) == 20
    routes = ("top.all", "middle.both", "leaf.double", "leaf.double")
    spans = collector.wait_for(lambda spans: all(len(of_route(spans, each)) == routes.count(each) for each in routes))
    (top,) = of_route(spans, "top.all")
    (middle,) = of_route(spans, "middle.both", top.trace)
    leaves = of_route(spans, "leaf.double", top.trace)
    assert (top.parent, middle.parent, {leaf.parent for leaf in leaves}) == ("", top.id, {middle.id})
    assert (top.service, middle.service, leaves[0].service) == ("top", "middle", "leaf")
    assert children(spans, top) == ["middle.both", "queue", "run"]
    (run,) = (span for span in spans if (span.trace, span.parent, span.name) == (top.trace, middle.id, "run"))
    assert children(spans, run) == ["await 2 calls", "await pause"]
    assert top.kind == 2, "a server's"
    assert top.started_ns <= middle.started_ns <= leaves[0].started_ns <= leaves[0].ended_ns <= top.ended_ns
    assert (top.attributes["rpc.response.status_code"], top.attributes["appbackplane.priority"]) == ("OK", 2)
    assert middle.attributes["appbackplane.source"] == "top/top"
    assert middle.attributes["appbackplane.priority"] == 2, "its caller's"


def test_a_blocking_call_has_its_place_in_the_trace(chain: System, collector: Collector) -> None:
    """Its caller is the operation that blocks, whoever asks on its behalf."""
    with chain.connect() as client:
        assert client.call("top.plain", number=5) == 10
    counts = {"top.plain": 1, "middle.blocking": 2, "leaf.double": 1}  # what blocks asks by an action of its own
    spans = collector.wait_for(lambda spans: all(len(of_route(spans, each)) == count for each, count in counts.items()))
    (at,) = of_route(spans, "leaf.double")
    above = []
    while at.parent:
        (at,) = (span for span in spans if span.id == at.parent)
        above.append(at.name)
    assert above[-2:] == ["middle.blocking", "top.plain"]


def test_an_error_is_in_its_span(chain: System, collector: Collector) -> None:
    """By its status, as gRPC has it, and without the words of a foreign error, which may be secret."""
    with chain.connect() as client, pytest.raises(InternalError):
        client.call("leaf.double", number=13)
    (span,) = of_route(collector.wait_for(lambda spans: bool(of_route(spans, "leaf.double"))), "leaf.double")
    assert (span.is_error, span.message) == (True, "INTERNAL: ValueError")
    assert span.attributes["error.type"] == "INTERNAL"


def test_log_lines_name_the_span_that_wrote_them(chain: System, collector: Collector) -> None:
    """A root's, too: from a line one finds the trace, and from the trace the lines."""
    with chain.connect() as client:
        client.call("top.all", number=5)
    (top,) = of_route(collector.wait_for(lambda spans: bool(of_route(spans, "top.all"))), "top.all")

    def traces() -> list[str]:
        lines = [json.loads(line) for line in chain.command("logs", "--json").stdout.splitlines()]
        return [line["trace"] for line in lines if line["message"] == "asked"]

    # The supervisor writes the line, and the collector may have the span before.
    wait_until(lambda: traces().count(f"00-{top.trace}-{top.id}-01") == 1, lambda: (top, traces()))


def test_only_roots_are_sampled_by_ratio(up: Up, folder: Path) -> None:
    """A caller that has decided is followed: the program below samples all of its calls, in a system that samples none."""
    with collecting() as collector:
        system = tracing(up, folder, f'otlp = "{collector.address}"\nsample = 0.0', CHAIN)
        with system.connect() as client:
            for number in range(10):
                client.call("top.all", number=number)
        asked = run_program(system, "sampled")
        spans = collector.wait_for(lambda spans: bool(of_route(spans, "top.all")))
    assert {span.trace for span in spans} == {asked[0]["trace"]}


@pytest.mark.parametrize("answer", [503, 400, 302])
def test_a_collector_that_refuses_is_told_once_and_what_is_lost_is_counted(up: Up, folder: Path, answer: int) -> None:
    """The system serves on; the operator finds the reason in the log and in the statistics."""
    with collecting(answer) as collector:
        system = tracing(up, folder, f'otlp = "{collector.address}"')
        with system.connect() as client:
            client.call("leaf.double", number=5)
            ask_until(
                client, "backplane.leaf.statistics", lambda told: told["traces"]["lost"] and told["traces"]["problem"]
            )
            system.wait_for(f"traces: {collector.address} takes no spans")
            assert client.call("leaf.double", number=5) == 10


def test_what_a_client_gives_as_a_trace_and_is_none_spoils_nothing(chain: System, collector: Collector) -> None:
    """All spans that are sent with it would be lost, and the collector blamed."""
    with chain.connect() as client:
        spec = call_checks.asked("leaf.double", None, None, 30.0, None, {"number": 4})
        spec.trace = "00--000000000000000000000000000000f-b7ad6b7169203331-01"
        assert client._calling.call(spec) == 8
        assert client.call("leaf.double", number=5) == 10
    spans = collector.wait_for(lambda spans: len(of_route(spans, "leaf.double")) == 2)
    assert {span.parent for span in of_route(spans, "leaf.double")} == {""}


def test_an_address_where_nobody_listens_is_one_clear_line(up: Up, folder: Path) -> None:
    """It may come later, so it is no reason to stay down."""
    with socket.socket() as taken:  # nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        system = tracing(up, folder, f'otlp = "{address}"')
        with system.connect() as client:
            assert client.call("leaf.double", number=5) == 10
        line = system.wait_for(f"traces: {address} takes no spans")
    assert "Connection refused" in line or "Failed to establish" in line
    assert "check [trace] otlp" in line


def test_a_program_with_an_sdk_sees_its_calls_as_its_own_spans(chain: System, collector: Collector) -> None:
    """A call, one that is submitted, a stream and a cast, of both clients: each a child of the program's current span."""
    asked = run_program(chain, "spans")
    by_name = {(span["name"], span["how"]): span for span in asked if span["how"]}
    assert {how for _, how in by_name} == {
        "call",
        "submit",
        "stream",
        "cast",
        "async call",
        "async submit",
        "async stream",
    }
    spans = collector.wait_for(
        lambda spans: (
            {span["id"] for span in asked if span["how"] and span["how"] != "cast"} <= {span.parent for span in spans}
        )
    )
    for span in by_name.values():
        assert span["parent"] == next(each["id"] for each in asked if each["name"] == f"by {span['how']}")
        assert (span["status"], span["is_error"]) == ("OK", False)
    (called,) = (span for span in spans if span.parent == by_name["top.all", "call"]["id"])
    assert (called.name, called.trace) == ("top.all", by_name["top.all", "call"]["trace"])


def test_failed_calls_of_a_program_end_their_spans_in_the_error(chain: System) -> None:
    """Also those that could not begin."""
    ends = [(span["name"], span["status"], span["is_error"]) for span in run_program(chain, "failing")]
    assert ends == [
        ("leaf.double", "INTERNAL", True),
        ("leaf.none", "NOT_FOUND", True),
        ("leaf.double", "INTERNAL", True),
        ("leaf.none", "NOT_FOUND", True),
        ("leaf.none", "NOT_FOUND", True),
        ("leaf.none", "NOT_FOUND", True),
        ("leaf.double", "INTERNAL", True),
    ]


def test_a_processor_that_waits_for_another_caller_of_the_client_does_not_wait_for_ever(chain: System) -> None:
    """A handler of logging that publishes by the same client, and a processor that logs: each would have the other's lock."""
    assert run_program(chain, "entangled") == []


def test_what_asyncio_tells_of_errors_that_nobody_took_it_still_tells(chain: System) -> None:
    """A span must not look as if it had taken the error."""
    assert run_program(chain, "untaken") == []


def run_program(system: System, name: str) -> list[dict[str, str]]:
    """The spans that a program with an SDK has exported (traced_programs.py)."""
    program = subprocess.run(
        [sys.executable, str(HERE / "traced_programs.py"), name, str(system.run_dir)],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert program.returncode == 0, program.stderr
    spans: list[dict[str, str]] = json.loads(program.stdout)
    return spans
