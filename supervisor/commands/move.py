"""move: take one component with its dependents, or the whole system, to another state, and return when it is there.

In a cluster, `--node` names the node that is to be primary; any node can be asked. The present primary is drained and gives
the lease back, and the named node takes it.
"""

from __future__ import annotations

import threading

import click

from . import handing_over, show
from .asking import ask
from .cli import debug_option, json_option
from .quantities import Seconds
from .systems import find, system_option

#: As long as the default `start_limit` of a component; for longer hooks, give a longer time-out.
TIMEOUT_S = 60.0
#: A day; for longer, run the command again.
TIMEOUT_S_MAX = 86_400
#: A longer wait is reported.
_SILENT_S = 1.0
#: Added to the time-out, because the supervisor's own message is better than ours.
_ANSWER_S = 2.0


@click.command("move")
@click.argument("state", metavar="STATE", type=click.Choice(("primary", "secondary", "down")))
@click.argument("component", required=False)
@system_option
@click.option("--node", metavar="NAME", help="The node of the cluster that is to be primary.")
@click.option(
    "--timeout",
    type=Seconds(0, TIMEOUT_S_MAX, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    help="Seconds to wait for the end; the order stays in force afterwards.",
)
@json_option
@debug_option
def command(
    state: str, component: str | None, system: str | None, node: str | None, timeout: float, as_json: bool
) -> None:
    """Move COMPONENT and what depends on it, or the whole system, to STATE: primary, secondary or down.

    Each waits for those that it depends on.
    """
    location = find(system)
    if node is not None:
        if state != "primary" or component is not None:
            raise click.UsageError("--node is for the whole system, and for primary: move primary --node NAME")
        cluster = handing_over.hand_over(location, node, timeout, _SILENT_S)
        if as_json:
            show.as_json(cluster)
        else:
            click.echo(f"node {node!r} is primary of cluster {cluster['name']!r}, epoch {cluster['epoch']}")
        return
    what = f"component {component!r}" if component is not None else f"system {location.system!r}"
    progress = threading.Timer(_SILENT_S, click.echo, [f"waiting for {what} to become {state}"], {"err": True})
    progress.daemon = True
    progress.start()
    try:
        body = {"state": state, "component": component, "timeout": timeout}
        answer = ask(location, "supervisor.move", body, max(0.0, timeout) + _ANSWER_S)
    finally:
        progress.cancel()
    if as_json:
        show.as_json({"system": location.system, **answer})
        return
    click.echo(", ".join(f"{name}={reached}" for name, reached in answer["components"].items()))
