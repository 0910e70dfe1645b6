"""publish: one message to all subscribers of a topic. `appbackplane publish files.changed path=README.md`."""

from __future__ import annotations

import click

from . import show
from .cli import output_options
from .connecting import client_here
from .systems import system_option
from .words import arguments


@click.command("publish")
@click.argument("topic")
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@system_option
@click.option("--priority", type=click.IntRange(0, 255), help="0 is the highest. Default: the subscribers' own.")
@output_options
def command(topic: str, words: tuple[str, ...], system: str | None, priority: int | None, as_json: bool) -> None:
    """Publish a message on TOPIC. A VALUE that is JSON is taken as JSON, all else as text."""
    body = arguments(words)
    with client_here(system) as client:
        count = client.publish(topic, priority=priority, arguments=body)
    if as_json:
        show.as_json({"topic": topic, "backplanes": count})
    elif not count:
        click.echo(f"topic {topic!r} has no subscribers", err=True)
