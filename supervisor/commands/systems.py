"""Systems: which one a verb is about. `-s NAME`, `-s DIR` (its run directory) or `-s FILE.toml`.

Without `-s`: $APPBACKPLANE_SYSTEM, else the one TOML of a system in this folder, else the only one that runs.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from appbackplane.transport.addressing import default_run_dir
from appbackplane.transport.errors import Unavailable

from ..config import NAME, load
from ..run_dir import running_pid

VARIABLE = "APPBACKPLANE_SYSTEM"
Function = TypeVar("Function", bound=Callable[..., Any])


class Target(NamedTuple):
    """A system and where it is, or would be, found."""

    name: str
    run_dir: Path


def system_option(function: Function) -> Function:
    """`-s` on a verb, as `system`."""
    text = "Its name, run directory or TOML. Default: $APPBACKPLANE_SYSTEM, the TOML here, or the one that runs."
    return click.option("-s", "--system", metavar="NAME|DIR|TOML", envvar=VARIABLE, help=text)(function)


def find(system: str | None) -> Target:
    """Raises `UsageError` when it is not clear which one is meant, `ConfigError` when its TOML is wrong."""
    if system is None:
        system = _only_one()
    path = Path(system).expanduser()
    if path.suffix == ".toml" or path.is_file():
        config = load(path)
        return Target(config.system.name, Path(config.run_dir))
    if path.is_dir() and ("/" in system or running_pid(path) is not None):
        return Target(path.resolve().name, path.absolute())
    if not NAME.fullmatch(system):
        raise click.UsageError(f"{system!r} is neither the name of a system, nor a run directory, nor a TOML file")
    return Target(system, default_run_dir(system))


def running_systems() -> list[Target]:
    """Those of this user that run under their default run directory."""
    base = default_run_dir("any").parent
    try:
        entries = sorted(base.iterdir())
    except OSError:
        return []
    return [Target(entry.name, entry) for entry in entries if entry.is_dir() and running_pid(entry) is not None]


def check_running(target: Target) -> int:
    """The pid of its supervisor. Raises `Unavailable` with the remedy."""
    pid = running_pid(target.run_dir)
    if pid is None:
        text = f"system {target.name!r} is not running (nobody listens in {target.run_dir})"
        others = [other.name for other in running_systems()]
        raise Unavailable(
            f"{text}; running: {', '.join(others)}" if others else f"{text}: start it with appbackplane up"
        )
    return pid


def toml_here() -> Path | None:
    """The one TOML in this folder that has a [system]; None when there is none, or more than one."""
    found = [path for path in sorted(Path(os.curdir).glob("*.toml")) if _is_system(path)]
    return found[0] if len(found) == 1 else None


def _only_one() -> str:
    here = toml_here()
    if here is not None:
        return str(here)
    running = running_systems()
    if len(running) == 1:
        return str(running[0].run_dir)
    names = ", ".join(target.name for target in running) or "none"
    raise click.UsageError(f"which system? Say -s NAME, -s DIR or -s FILE.toml (running: {names})")


def _is_system(path: Path) -> bool:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return "system" in table and "backplane" in table
