"""web: opens the page of a system's gateway in the browser (docs/concepts/web_page.md)."""

from __future__ import annotations

from contextlib import closing

import click

from appbackplane.transport.errors import FailedPrecondition, NotFound, Unavailable

from . import show
from .cli import output_options
from .connecting import client_here
from .systems import system_option

#: The operation of `appbackplane.runtime.things.web:Gateway` that tells its address.
ADDRESS = "gateway.address"


@click.command("web")
@click.option("--no-open", is_flag=True, help="Only print the address.")
@system_option
@output_options
def command(no_open: bool, system: str | None, as_json: bool) -> None:
    """Open the web page of the system's things."""
    with closing(client_here(system)) as client:
        try:
            address = client.call(ADDRESS)
        except NotFound:
            raise FailedPrecondition(
                "this system has no gateway: add to its TOML a table [backplane.web] with"
                ' components = ["appbackplane.runtime.things.web:Gateway"]'
            ) from None
    if not address:
        raise Unavailable("the gateway is not listening: `appbackplane status` tells its state")
    if as_json:
        show.as_json({"url": address})
    else:
        click.echo(address)
    if not no_open:
        import webbrowser  # only where one is wanted

        if not webbrowser.open(address) and not as_json:
            click.echo("(no browser here: open the address in yours)", err=True)
