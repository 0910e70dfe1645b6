"""Recorded: finds the recordings of a system, and replaces this process by the program that reads them.

That program is `python -m appbackplane.spark`; nothing of it is imported here, so that a supervisor never needs the extra.
Its exit code, its signals and its terminal are those of the verb: it is the same process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from appbackplane.runtime.observation.segments import RECORDS
from appbackplane.transport.discovery import Location
from appbackplane.transport.errors import FailedPrecondition, NotFound
from appbackplane.transport.lifeline import nearest

from .cli import is_debug
from .systems import find, named_once

_MASTER = "Spark's master: local[N], spark://HOST:PORT, k8s://..., yarn. Default: local[*], this machine."
master_option = click.option("--master", metavar="MASTER", help=_MASTER)


def folder_of(named: str | None, system: str | None) -> Path:
    """The named system's run directory, or the named folder. Raises `NotFound`, `FailedPrecondition`."""
    named = named_once(named, system)
    if named and os.path.isdir(named):
        return Path(named).absolute()
    location = find(named)
    try:
        # By stat: Path.is_dir returns False as well for a folder that may not be entered.
        os.stat(location.run_dir / RECORDS)
    except PermissionError:
        raise FailedPrecondition(
            f"system {location.system!r}: no permission to read its recordings in {location.run_dir}: only the user who "
            "started it may"
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(_nothing(location)) from None
    except OSError as error:
        raise FailedPrecondition(f"{location.run_dir} cannot be read: {error.strerror}") from error
    return location.run_dir


def _nothing(location: Location) -> str:
    if location.is_given and location.toml is None:
        return f"{location.run_dir}: there is no such folder; give the run directory of a system with recordings"
    what = f"nothing is recorded of system {location.system!r} (looked for in {location.run_dir / RECORDS})"
    near = nearest(location)
    if near is not None:
        return f"{what}: did you mean {near!r}?"
    return f"{what}: a table [record] in its TOML switches it on"


def become(verb: str, folder: Path, *options: str | None) -> NoReturn:
    """Run the program's verb in place of this process. `options`: name, value, name, value; a value None drops its name."""
    words = [sys.executable, "-P", "-m", "appbackplane.spark", verb, str(folder)]
    given = iter(options)
    for option, value in zip(given, given, strict=True):
        if value is not None:
            words += [option or "", value] if value else [option or ""]
    if is_debug():
        words.append("--debug")
    sys.stdout.flush()
    sys.stderr.flush()
    # Its workers are Pythons, too, and must not import from the current folder either.
    os.execve(sys.executable, words, os.environ | {"PYTHONSAFEPATH": "1"})
