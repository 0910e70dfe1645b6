"""call: one call, its result on standard output. `appbackplane call query.search text=asyncio limit=5`."""

from __future__ import annotations

import sys

import click

from appbackplane.transport import Address
from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S
from appbackplane.transport.errors import DeadlineExceeded
from appbackplane.transport.streamed import stream

from . import show
from .cli import output_options
from .completing import routes
from .connecting import client_of, keys_option
from .quantities import timeout_option
from .systems import system_option
from .words import arguments, json_lines


@click.command("call")
@click.argument("route", shell_complete=routes)
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1)
@system_option
@click.option("--key", help="The object to call, where several implement the operation.")
@click.option("--address", help="Of a spawned object. ROUTE is then the name of its operation.")
@click.option("--priority", type=click.IntRange(0, 255), help="0 is the highest. Default: the operation's own.")
@timeout_option(TIMEOUT_DEFAULT_S, "Deadline of the call, in seconds from now.", max_s=TIMEOUT_MAX_S)
@click.option("--idempotency-key", metavar="TEXT", help="Calls with the same key are done once.")
@click.option("--stream", "is_stream", is_flag=True, help="ROUTE is a generator: print each item as a line of JSON.")
@click.option(
    "--stream-in", "streamed", metavar="KEY", help="Send the lines of standard input, JSON values, as items of KEY."
)
@keys_option
@output_options
def command(
    route: str,
    words: tuple[str, ...],
    system: str | None,
    key: str | None,
    address: str | None,
    priority: int | None,
    timeout: float,
    idempotency_key: str | None,
    is_stream: bool,
    streamed: str | None,
    keys: str | None,
    as_json: bool,
) -> None:
    """Call ROUTE and print what it returns. A VALUE that is JSON is taken as JSON, all else as text."""
    body = arguments(words)
    if address is not None:
        if key is not None:
            raise click.UsageError("--address selects the object: leave --key out")
        route = Address(address).to(route)
    if is_stream and idempotency_key is not None:
        raise click.UsageError("--idempotency-key is for a call with one result: the items of a stream are not kept")
    if streamed is not None:
        if is_stream or idempotency_key is not None:
            raise click.UsageError("--stream-in is for a call with one result, and without an idempotency key")
        if not streamed.isidentifier() or streamed in body:
            raise click.UsageError(
                f"--stream-in {streamed!r}: expected the name of an argument that is not given otherwise"
            )
        body[streamed] = stream(json_lines(sys.stdin.buffer))
    client = client_of(system, keys)
    try:
        if is_stream:
            for item in client.stream(route, key=key, priority=priority, timeout=timeout, arguments=body, retry=False):
                show.as_json(item)
            return
        # Errors are shown at once, but a call with an idempotency key is retried: its user wants the work done.
        answer = client.call(
            route, key=key, priority=priority, timeout=timeout, arguments=body,
            idempotency_key=idempotency_key, retry=idempotency_key is not None,
        )  # fmt: skip
    except DeadlineExceeded as error:
        if "deadline" not in error.message:  # a time-out inside the operation
            raise
        hint = f"--timeout allows more; `appbackplane why {route}` shows meanwhile what the call waits for"
        late = DeadlineExceeded(f"{error.message} (it had {timeout:g} s: {hint})")
        late.trace = error.trace
        raise late from error
    finally:
        client.close()
    if as_json:
        show.as_json(answer)
    else:
        show.result(answer)
