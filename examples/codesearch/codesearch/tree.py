"""Tree: the source files below a folder, a folder at a time, so that a large tree can be walked in steps.

Left out: what is not source of the tree itself (`site-packages`, environments, caches, hidden folders). Links to folders
are not followed, as they may lead round in a ring.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

SUFFIXES = (".py", ".pyi")
LEFT_OUT = frozenset(("__pycache__", "site-packages", "dist-packages", "node_modules"))


def source_files(top: Path, suffixes: Collection[str] = SUFFIXES) -> Iterator[list[str]]:
    """Paths of the source files of one folder after the other, sorted. A folder that cannot be read has none."""
    endings = tuple(suffixes)
    todo = [str(top)]
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            yield []
            continue
        files = []
        for entry in entries:
            if entry.name.startswith(".") or entry.name in LEFT_OUT:
                continue
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            elif entry.name.endswith(endings) and entry.is_file():
                files.append(entry.path)
        yield files
