"""Completing: shell completion on TAB: backplanes and routes of the command line's system.

A user who presses TAB waits, and wants no error in the line: a system that does not answer at once offers nothing. (Names of
systems are offered by systems.py, kernels by requests.py.) The scripts for the shells are click's: docs/operation.md.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from appbackplane.transport.addressing import BACKPLANE, backplane_route
from appbackplane.transport.errors import BackplaneError

from .cli import items
from .systems import find

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: A supervisor normally answers in a few milliseconds.
LIMIT_S = 0.5


def backplanes(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Backplanes of the line's system, and the names that replicas share."""
    told = (ask_quickly(ctx, "supervisor.status") or {"backplanes": []})["backplanes"]
    offered = {one["name"]: one["state"] for one in told}
    offered |= {one["replica_of"]: "its replicas" for one in told if one["replica_of"] is not None}
    return items(offered, incomplete)


def routes(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Routes of the line's system; backplanes' own routes if the word begins with their prefix."""
    if incomplete.startswith(f"{BACKPLANE}."):
        from appbackplane.runtime.backplane_operations import BackplaneOperations

        told = ask_quickly(ctx, "supervisor.status") or {"backplanes": []}
        names = [one["name"] for one in told["backplanes"]]
        own = [backplane_route(name, operation) for name in names for operation in BackplaneOperations.__operations__]
        return items(dict.fromkeys(own), incomplete)
    return items(
        {entry["route"]: entry["signature"] for entry in ask_quickly(ctx, "supervisor.routes") or []}, incomplete
    )


def ask_quickly(ctx: click.Context, route: str) -> Any:
    """The supervisor's result; None: an error, or none in time."""
    from .asking import ask

    with suppress(BackplaneError, click.UsageError, OSError):
        return ask(find(ctx.params.get("named") or ctx.params.get("system")), route, timeout_s=LIMIT_S)
    return None
