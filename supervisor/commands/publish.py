"""publish: one message to all subscribers of a topic. `appbackplane publish files.changed path=README.md`."""

from __future__ import annotations

import click

from . import show
from .cli import debug_option, json_option
from .systems import check_running, find, system_option
from .words import arguments


@click.command("publish")
@click.argument("topic")
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@system_option
@click.option("--priority", type=click.IntRange(0, 255), help="0 is the highest. Default: the subscribers' own.")
@json_option
@debug_option
def command(topic: str, words: tuple[str, ...], system: str | None, priority: int | None, as_json: bool) -> None:
    """Publish a message on TOPIC. A VALUE that is JSON is taken as JSON, all else as text."""
    from appbackplane.transport import connect

    body = arguments(words)
    location = find(system)
    check_running(location)  # its error names the TOML, which the client does not know
    client = connect(location.run_dir)
    try:
        count = client.publish(topic, priority=priority, arguments=body)
    finally:
        client.close()
    if as_json:
        show.as_json({"topic": topic, "backplanes": count})
    elif not count:
        click.echo(f"topic {topic!r} has no subscribers", err=True)
