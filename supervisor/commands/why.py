"""why: the chain of reasons why a call or an object waits, across backplanes.

Without a name: for the work that has been outstanding longest, running actions included.
"""

from __future__ import annotations

from typing import Any

import click

from . import show
from .asking import ask
from .cli import output_options
from .completing import routes
from .systems import find, system_option

#: Longer than the supervisor takes for a whole chain (supervisor/control/inquiry.py).
TIMEOUT_S = 10.0


@click.command("why")
@click.argument("asked", metavar="[NAME]", required=False, shell_complete=routes)
@system_option
@click.option("--stack", is_flag=True, help="Also show the stacks of running actions.")
@output_options
def command(asked: str | None, system: str | None, stack: bool, as_json: bool) -> None:
    """Tell why NAME waits: an object, a call, or the oldest call of a route. Default: what has been outstanding longest."""
    location = find(system)
    if asked is None:
        longest = _longest(ask(location, "supervisor.status", {"statistics": True}))
        if longest is None:
            _tell_nothing(as_json=as_json)
            return
        asked = longest
    answer = ask(location, "supervisor.why", {"asked": asked, "stack": stack}, TIMEOUT_S)
    if as_json:
        show.as_json(answer)
        return
    for step in answer["steps"]:
        click.echo(f"{_heading(step)}:")
        for reason in step["reasons"]:
            click.echo(f"  {reason['text']}")
            for line in reason.get("stack", "").splitlines():
                click.echo(f"    {line}")


def _longest(answer: dict[str, Any]) -> str | None:
    """The call or object that has been outstanding longest, running work included, of those in the statistics."""
    waits: list[tuple[float, str]] = []
    for backplane in answer["backplanes"]:
        oldest = (backplane["statistics"] or {}).get("oldest", {})
        waits += [(one["oldest_ms"], one["object"]) for one in oldest.get("objects", ())]
        waits += [(one["age_ms"], one["call"]) for one in oldest.get("calls", ())]
    return max(waits)[1] if waits else None


def _tell_nothing(*, as_json: bool) -> None:
    if as_json:
        show.as_json({"steps": []})
    else:
        click.echo("nothing is outstanding")


def _heading(step: dict[str, Any]) -> str:
    name = step.get("route") or step.get("object") or step["asked"]
    words = [f"on {step['object']}"] if step.get("route") else []
    if "outstanding" in step:
        words.append(f"({step['outstanding']} outstanding)")
    if "call" in step:
        words.append(f"(call {step['call']}, priority {step['priority']})")
    if step.get("count", 0) > 1:
        words.append(f"[the oldest of {step['count']}]")
    return " ".join([name, *words])
