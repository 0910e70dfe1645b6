"""TOML files: the TOMLs in the current folder, and the one that a command without `-s` is about.

A broken TOML is found as well: its own error names the mistake, while "which system?" would hide it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

#: The tables without which no system comes up.
_NEEDED = ("system", "backplane")
#: File of a Python project: broken or not, it is no system.
_OTHER = "pyproject.toml"


def toml_of(file: str | None, verb: str) -> Path:
    """Path of the named TOML, or of the one here. Raises `UsageError`."""
    if file == "":  # as a path, '' is the current folder
        raise click.UsageError(f"which system? The name of its TOML is empty: appbackplane {verb} FILE")
    if file is not None:
        return Path(file)
    found = tomls_here()
    if not found:
        raise click.UsageError(
            f"which system? There is no TOML of a system here: appbackplane {verb} FILE names one elsewhere, "
            "appbackplane new NAME makes a project"
        )
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise click.UsageError(f"which system? Several TOMLs are here ({names}): appbackplane {verb} FILE")
    return found[0]


def tomls_here() -> list[Path]:
    """TOMLs of systems in this folder; where there is none, those that are meant to be one and are broken."""
    tables = {path: _table(path) for path in sorted(Path(os.curdir).glob("*.toml")) if path.name != _OTHER}
    whole = [path for path, table in tables.items() if table is not None and all(key in table for key in _NEEDED)]
    return whole or [path for path, table in tables.items() if table is None or _is_meant(table)]


def _table(path: Path) -> Mapping[str, Any] | None:
    """The tables of a TOML; None: it cannot be read, or is not TOML."""
    from appbackplane.transport.discovery import tables_of  # not needed where the system is named

    try:
        return tables_of(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return None


def _is_meant(table: Mapping[str, Any]) -> bool:
    from difflib import get_close_matches  # only where no TOML is whole

    return any(get_close_matches(key, _NEEDED, n=1, cutoff=0.8) for key in table)
