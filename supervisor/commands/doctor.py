"""doctor: the abilities of this machine, and a remedy for each lack. Exit code 0 when a system can come up here."""

from __future__ import annotations

import click
import msgspec

from ..doctor.checkup import checkup, is_fit
from ..doctor.machine import look
from . import show
from .cli import FAILED, output_options

_STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}


@click.command("doctor")
@output_options
def command(as_json: bool) -> None:
    """Check what this machine grants, and show a remedy for each problem."""
    findings = checkup(look())
    if as_json:
        show.as_json({"is_fit": is_fit(findings), "findings": msgspec.to_builtins(findings)})
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            # A missing ability that is optional is no fault.
            is_fault = finding.is_required or finding.verdict != "missing"
            style = _STYLES[finding.verdict] if is_fault else "yellow"
            click.echo(f"{click.style(f'{finding.verdict:<7}', fg=style)}  {finding.name:<{width}}  {finding.found}")
            if finding.remedy:
                click.echo(f"{'':<7}  {'':<{width}}  -> {finding.remedy}")
        faults = [finding.name for finding in findings if finding.is_required and finding.verdict == "missing"]
        click.echo(f"a system cannot come up here: {', '.join(faults)}" if faults else "a system can come up here")
    if not is_fit(findings):
        click.get_current_context().exit(FAILED)
