"""move: take a component or a backplane with its dependents, or the whole system, to another state; return when it is there.

In a cluster, `--node` names the node that is to be primary; any node can be asked. The present primary is drained and gives
the lease back, and the named node takes it.
"""

from __future__ import annotations

import click

from . import handing_over, show
from .asking import order
from .cli import output_options
from .quantities import timeout_option
from .systems import find, system_option

#: As long as the default `start_limit` of a component; for longer hooks, give a longer time-out.
TIMEOUT_S = 60.0


@click.command("move")
@click.argument("state", metavar="STATE", type=click.Choice(("primary", "secondary", "down")))
@click.argument("name", metavar="[COMPONENT|BACKPLANE]", required=False)
@system_option
@click.option("--node", metavar="NAME", help="The node of the cluster that is to be primary.")
@timeout_option(TIMEOUT_S, "Seconds to wait for the end; the order stays in force afterwards.")
@output_options
def command(state: str, name: str | None, system: str | None, node: str | None, timeout: float, as_json: bool) -> None:
    """Move a component, or all of a backplane, with its dependents to STATE: primary, secondary or down.

    Without a name: the whole system. Each waits for those that it depends on. "backplane.NAME" is always a backplane.
    """
    location = find(system)
    if node is not None:
        if state != "primary" or name is not None:
            raise click.UsageError("--node is for the whole system, and for primary: move primary --node NAME")
        cluster = handing_over.hand_over(location, node, timeout)
        if as_json:
            show.as_json(cluster)
        else:
            click.echo(f"node {node!r} is primary of cluster {cluster['name']!r}, epoch {cluster['epoch']}")
        return
    what = repr(name) if name is not None else f"system {location.system!r}"
    body = {"state": state, "component": name}
    answer = order(location, "supervisor.move", body, timeout, f"{what} to become {state}")
    if as_json:
        show.as_json({"system": location.system, **answer})
        return
    click.echo(", ".join(f"{name}={reached}" for name, reached in answer["components"].items()))
