"""`appbackplane peers`: what a person sees of nodes. (With two that run: docs/peers.md.)"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

from appbackplane.runtime.peers import Node, roster
from appbackplane.supervisor.commands import main, peers
from appbackplane.transport.errors import BackplaneError, Unavailable
from appbackplane.transport.peers.peer import NEVER

SECOND = 1_000_000_000
KEY = "aaaa-bbbb-cccc-dddd-eeee"
ROWS = (
    roster.Row("b", roster.SELF, SECOND, "this node", "tcp://10.0.0.2:7400", KEY, 40 * SECOND, routes=("x.y",)),
    roster.Row("a", "up", 9 * SECOND, "it is heard, and hears this node", "tcp://10.0.0.1:7400", KEY, 35 * SECOND,
               10 * SECOND, ("index.add", "index.stats"), 3, 1),
    roster.Row("c", "dead", 8 * SECOND, "silent for 2 s", "tcp://10.0.0.3:7400", KEY, 30 * SECOND, 6 * SECOND),
    roster.Row("d", roster.UNMET, SECOND, "nobody listens there", "tcp://10.0.0.4:7400", "", 0, NEVER),
    roster.Row("e", roster.CLIENT, SECOND, "2 connections, this is the first", "10.0.0.5:41000", KEY, calls_from=7),
)  # fmt: skip
#: As `supervisor.routes` tells of it.
ENTRY = {"route": peers.ROUTE, "component": "node", "summary": peers.SUMMARY, "places": {"node": True}}


class Client:
    """Answers as the component does."""

    #: What the system says instead.
    refusal: BackplaneError | None = None

    def call(self, route: str, *, arguments: dict[str, Any], **_: Any) -> list[roster.PeerInWords]:
        assert route == peers.ROUTE
        if self.refusal is not None:
            raise self.refusal
        return [row.in_words(11 * SECOND, 50 * SECOND, has_names=arguments["routes"]) for row in ROWS]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """The routes of the system that is asked, which a test may change."""
    told, cluster = [ENTRY], None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        peers, "ask", lambda location, route: told if route == "supervisor.routes" else {"cluster": cluster}
    )
    monkeypatch.setattr("appbackplane.transport.connect", lambda run_dir: Client())
    return told


def run(*words: str) -> Result:
    """The verb, about a system that is named."""
    return CliRunner().invoke(main, ["peers", "-s", "demo", *words])


def test_what_it_knows_a_node_by_is_what_nodes_say() -> None:
    """The words are written twice, because a person at a terminal should not wait for an import."""
    spec = Node.__operations__["peers"]
    assert (f"{Node.component_name}.{spec.name}", (inspect.getdoc(spec.function) or "").partition("\n")[0]) == (
        peers.ROUTE, peers.SUMMARY,
    )  # fmt: skip
    assert spec.priority == 0, "it is answered when nothing else is"
    assert not spec.mark.export, "who a node knows is not for everybody"


def test_a_line_a_node_and_what_is_the_matter_below(entries: list[dict[str, Any]]) -> None:
    """This one first; why is said of those alone who are not well."""
    lines = run().stdout.splitlines()
    assert [" ".join(line.split()) for line in lines[:6]] == [
        " ".join(peers.COLUMNS),
        f"b self 10.0 s tcp://10.0.0.2:7400 10.0 s - 1 - - {KEY}",
        f"a up 2.0 s tcp://10.0.0.1:7400 15.0 s 1.0 s ago 2 3 1 {KEY}",
        f"c dead 3.0 s tcp://10.0.0.3:7400 20.0 s 5.0 s ago 0 0 0 {KEY}",
        "d unmet 10.0 s tcp://10.0.0.4:7400 - - 0 0 0 -",
        f"e client 10.0 s 10.0.0.5:41000 - - - - 7 {KEY}",
    ]
    assert lines[6:] == ["c: silent for 2 s", "d: nobody listens there", "e: 2 connections, this is the first"]


def test_routes_are_named_as_they_are_called(entries: list[dict[str, Any]]) -> None:
    """So that a line can be pasted behind `appbackplane call`."""
    assert run("--routes").stdout.splitlines()[-3:] == ["b/x.y", "a/index.add", "a/index.stats"]


def test_programs_are_told_the_same(entries: list[dict[str, Any]]) -> None:
    """One document on a line; names of routes where they are asked for."""
    nodes = json.loads(run("--json").stdout)
    assert [(node["name"], node["routes"], node["calls_to"]) for node in nodes[:2]] == [("b", 1, 0), ("a", 2, 3)]
    assert nodes[3]["incarnation"] is None
    assert all("route_names" not in node for node in nodes)
    assert json.loads(run("--json", "--routes").stdout)[0]["route_names"] == ["x.y"]


def test_of_a_node_that_is_not_up_the_reason_is_where_it_is_said(
    entries: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing keys, a port in use: only the supervisor knows the reason, since a node that is not up answers no call."""
    monkeypatch.setattr(
        Client, "refusal", Unavailable("node.peers is not served while node/node is start", retry_after=1)
    )
    result = run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "appbackplane: node.peers is not served while node/node is start"
        " (`appbackplane status` says what keeps the node down)\n"
    )


def test_a_component_that_has_the_same_name_is_no_node(entries: list[dict[str, Any]]) -> None:
    """What is not told apart here would be shown as nonsense."""
    entries[:] = [{**ENTRY, "summary": "All peers of the realm."}]
    result = run()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "appbackplane: system 'demo' has no peers: add a table [node] to its TOML (see docs/peers.md)\n"
    )
