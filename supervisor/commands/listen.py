"""listen: print the messages of a topic as they come, until Ctrl-C or `--count`. Gaps are shown, never hidden."""

from __future__ import annotations

from contextlib import suppress

import click

from . import show
from .cli import output_options
from .connecting import client_here
from .systems import system_option


@click.command("listen")
@click.argument("topic")
@system_option
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many messages.")
@output_options
def command(topic: str, system: str | None, count: int | None, as_json: bool) -> None:
    """Print the messages of TOPIC ("files" is this topic alone, "files.*" all topics below it)."""
    with client_here(system) as client, suppress(KeyboardInterrupt):  # the usual end
        for number, message in enumerate(client.subscribe(topic), start=1):
            if as_json:
                show.as_json({"topic": message.topic, "lost": message.lost, "body": message.body})
            else:
                if message.lost:
                    click.echo(f"({show.counted(message.lost, 'message')} of {message.topic} lost here)", err=True)
                click.echo(f"{message.topic} {show.in_one_line(message.body)}")
            if number == count:
                return
