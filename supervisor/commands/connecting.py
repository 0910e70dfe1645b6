"""Connecting: the client of a verb that calls, to a system on this host or on another (`-s tcp://NAME@HOST:PORT`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .systems import REMOTE, check_running, find

if TYPE_CHECKING:
    from appbackplane.transport import Client

Function = TypeVar("Function", bound=Callable[..., Any])


def keys_option(function: Function) -> Function:
    """Add `--keys` to a verb, as parameter `keys`."""
    text = f"Of a system on another host ({REMOTE}): the folder of this host's keys. Default: the user's (appbackplane keys)."
    return click.option("--keys", metavar="DIR", help=text)(function)


def client_of(system: str | None, keys: str | None) -> Client:
    """A connected client. Raises `UsageError` when the system is ambiguous, and the errors of `connect`."""
    from appbackplane.transport import connect

    if system is not None and system.startswith("tcp://"):
        return connect(system, keys=keys)
    if keys is not None:
        raise click.UsageError(f"--keys is for a system on another host: -s {REMOTE}")
    location = find(system)
    check_running(location)  # its error names the TOML, which the client does not know
    return connect(location.run_dir)
