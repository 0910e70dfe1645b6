"""Systems: finds a verb's system. `-s NAME`, `-s DIR` (its run directory) or `-s FILE.toml`, as for `connect`.

Without `-s`: $APPBACKPLANE_SYSTEM, else the one TOML of a system in this folder, else the only one that runs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appbackplane.transport.addressing import RUN_LINK, run_dir_bases, state_home
from appbackplane.transport.discovery import Location, locate
from appbackplane.transport.errors import CallerError
from appbackplane.transport.lifeline import check_trusted, find_living, nearest

from ..processes.run_dir import listener, running_pid
from .cli import items
from .toml_files import tomls_here

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "APPBACKPLANE_SYSTEM"
#: Form of a system's name on another host, for verbs that can reach one.
REMOTE = "tcp://NAME@HOST:PORT"


def offered(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Running systems and the TOMLs here, for shell completion."""
    running = {one.system: "running" for one in running_systems()}
    return items({**running, **dict.fromkeys(map(str, tomls_here()))}, incomplete)


_SYSTEM = "Its name, run directory or TOML. Default: $APPBACKPLANE_SYSTEM, the TOML here, or the one that runs."
system_option = click.option(
    "-s", "--system", metavar="NAME|DIR|TOML", envvar=VARIABLE, help=_SYSTEM, shell_complete=offered
)


def find(system: str | None) -> Location:
    """The verb's system. Raises `UsageError` when it is ambiguous, or cannot be told from its TOML."""
    if system is not None and system.startswith("tcp://"):
        raise click.UsageError(f"{system} is on another host: calls from here work, but manage it there")
    target: str | Path = system if system is not None else _only_one()
    if system is not None and os.path.isdir(system) and running_pid(Path(system)) is not None:
        target = Path(system)  # a name that is also a folder here, and that folder a run directory
    try:
        return find_living(locate(target))
    except CallerError as error:
        raise click.UsageError(error.message) from error


def running_systems() -> list[Location]:
    """Systems of this user that run under a default run directory, that of any environment."""
    run_dirs = [entry for base in run_dir_bases() for entry in _entries(base)]
    for folder in _entries(state_home() / "appbackplane"):
        with suppress(OSError):  # no link: it never ran under a default run directory
            run_dirs.append((folder / RUN_LINK).readlink())
    known = {run_dir.resolve(): run_dir for run_dir in reversed(run_dirs) if running_pid(run_dir) is not None}
    return [Location(run_dir, run_dir.name) for run_dir in sorted(known.values(), key=lambda each: each.name)]


def _entries(folder: Path) -> list[Path]:
    """Folders in it; [] where there is no such folder, or it belongs to another user."""
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return []


def check_running(location: Location) -> int:
    """Pid of its supervisor. Raises `SystemNotRunning`, and `FailedPrecondition` where it is another user's."""
    try:
        found = listener(location.run_dir)
    except PermissionError:
        raise location.not_permitted() from None
    if found is None:
        raise location.not_running(nearest(location))
    check_trusted(location, found.uid)
    return found.pid


def named_once(named: str | None, system: str | None) -> str | None:
    """System of a verb that takes it as an argument, too, in place of the environment. Raises `UsageError` for two names."""
    source = click.get_current_context().get_parameter_source("system")
    if named is not None and source is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"which system? It is named twice: {named!r} and {system!r}")
    return system if named is None else named


def _only_one() -> str | Path:
    here = tomls_here()
    if len(here) == 1:
        return here[0]
    running = running_systems()
    if len(running) == 1:
        return running[0].run_dir
    names = ", ".join(location.system for location in running) or "none"
    raise click.UsageError(f"which system? Say -s NAME, -s DIR or -s FILE.toml (running: {names})")
