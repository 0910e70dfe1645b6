"""Connecting: the client of a verb that calls, to a system on this host or on another (`-s tcp://NAME@HOST:PORT`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .systems import REMOTE, check_running, find

if TYPE_CHECKING:
    from appbackplane.transport import Client

_KEYS = (
    f"Of a system on another host ({REMOTE}): the folder of this host's keys. Default: the user's (appbackplane keys)."
)
keys_option = click.option("--keys", metavar="DIR", help=_KEYS)


def client_of(system: str | None, keys: str | None) -> Client:
    """A connected client. Raises `UsageError` when the system is ambiguous, and the errors of `connect`."""
    from appbackplane.transport import connect

    if system is not None and system.startswith("tcp://"):
        return connect(system, keys=keys)
    if keys is not None:
        raise click.UsageError(f"--keys is for a system on another host: -s {REMOTE}")
    return client_here(system)


def client_here(system: str | None) -> Client:
    """The same, of a system on this host."""
    from appbackplane.transport import connect

    location = find(system)
    check_running(location)  # its error names the TOML, which the client does not know
    return connect(location.run_dir)
