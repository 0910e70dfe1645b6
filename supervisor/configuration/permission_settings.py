"""Permission settings: [permissions] of the TOML, by which nobody may use a thing without a permission. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from appbackplane.runtime.permissions.table import LOCAL_USER
from appbackplane.runtime.process_config import PermissionPolicy

from .reader import Reader


class PermissionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[permissions]: where the permissions are kept, and the principals that may do everything."""

    #: Relative to the TOML.
    file: str = "permissions.json"
    #: "local": programs of this host that connect as clients, such as the command line.
    operators: tuple[str, ...] = (LOCAL_USER,)
    #: Names of keys: their nodes say on whose behalf they call.
    nodes: tuple[str, ...] = ()


def read(reader: Reader, table: Mapping[str, Any], folder: Path) -> PermissionPolicy | None:
    """[permissions] of the whole TOML; None: there is none. Problems are noted in `reader`. `folder`: that of the TOML."""
    if "permissions" not in table:
        return None
    settings = PermissionSettings(**reader.table(PermissionSettings, table["permissions"], ("permissions",)))
    if not settings.file or "\0" in settings.file or settings.file.endswith("/"):
        reader.say(("permissions", "file"), f"expected the path of a file, got {settings.file!r}")
    for index, operator in enumerate(settings.operators):
        if not operator:
            reader.say(("permissions", f"operators[{index}]"), f'expected a principal, such as "{LOCAL_USER}", got ""')
    for index, node in enumerate(settings.nodes):
        if not node:
            reader.say(
                ("permissions", f"nodes[{index}]"), 'expected the name of a trusted key, such as "berlin", got ""'
            )
    path = str(folder / Path(settings.file))
    return PermissionPolicy(file=path, audit=f"{path}.audit", operators=settings.operators, nodes=settings.nodes)
