"""peers: this node, its peers and their states as it sees them, the calls between them, and clients on other hosts.

Asked of the backplane that `[node]` adds (configuration/node_settings.py), whose component keeps the answer ready: it comes as
quickly when no peer can be reached. Another node's view of this one has to be asked there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from appbackplane.transport.errors import FailedPrecondition, Unavailable

from . import show
from .asking import ask
from .cli import output_options
from .status import cluster_line
from .systems import find, system_option

if TYPE_CHECKING:
    from appbackplane.transport.discovery import Location

#: The operation and its summary: runtime/peers/node.py, whose import would make a person at a terminal wait
#: (tests/supervisor/test_peers_command.py). A user's component may have the same name.
ROUTE: Final = "node.peers"
SUMMARY: Final = "This node, its peers as it sees them, and clients; with `routes`, the routes that each offers."
#: The operation only reads prepared data.
TIMEOUT_S: Final = 5.0
COLUMNS: Final = ("NODE", "STATE", "FOR", "ADDRESS", "RUNS FOR", "HEARD", "ROUTES", "CALLS TO", "CALLS FROM", "KEY")
#: States that need no reason beside them (runtime/peers/roster.py, transport/peers/effects.py).
_CLEAR: Final = frozenset({"self", "up", "left"})
#: A client offers no routes.
_CALLED: Final = frozenset({"self", "client"})


@click.command("peers")
@system_option
@click.option("--routes", is_flag=True, help="Also list the routes that each node offers.")
@output_options
def command(system: str | None, routes: bool, as_json: bool) -> None:
    """Show this node, its peers as it sees them, and its clients on other hosts."""
    location = find(system)
    _check_is_node(location)
    from appbackplane.transport import connect

    with connect(location.run_dir) as client:
        try:
            nodes = client.call(ROUTE, timeout=TIMEOUT_S, arguments={"routes": routes}, retry=False)
        except (FailedPrecondition, Unavailable) as error:
            raise FailedPrecondition(
                f"{error.message} (`appbackplane status` says what keeps the node down)"
            ) from error
    if as_json:
        show.as_json(nodes)
        return
    show.table(COLUMNS, [_row(node) for node in nodes])
    if cluster := ask(location, "supervisor.status").get("cluster"):
        click.echo(cluster_line(cluster))
    for node in nodes:
        if node["state"] not in _CLEAR and node["because"]:
            click.echo(f"{node['name']}: {node['because']}")
    for node in nodes if routes else ():
        for name in node["route_names"]:
            click.echo(f"{node['name']}/{name}")


def _check_is_node(location: Location) -> None:
    """Raises `FailedPrecondition` if the system has no [node]."""
    entries = ask(location, "supervisor.routes")
    if not any((entry["route"], entry["summary"]) == (ROUTE, SUMMARY) for entry in entries):
        raise FailedPrecondition(
            f"system {location.system!r} has no peers: add a table [node] to its TOML (see docs/peers.md)"
        )


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    is_called = node["state"] not in _CALLED
    return (
        node["name"],
        node["state"],
        show.duration(node["state_for"]),
        node["address"],
        show.duration(node["runs_for"]),
        "-" if node["heard"] is None else f"{show.duration(node['heard'])} ago",
        "-" if node["state"] == "client" else str(node["routes"]),
        str(node["calls_to"]) if is_called else "-",
        "-" if node["state"] == "self" else str(node["calls_from"]),
        node["fingerprint"] or "-",
    )
