"""Tiers: which file of tests runs in which part of `scripts/test`.

checks    what a machine can tell without running the program: layout, walls, types
pieces    pure logic, in one process, and no other is started (tests/conftest.py refuses it)
systems   real processes and sockets, started as users start them
calm      what takes a JVM, a page of the docs or an example, and says nothing about time

The longest path that a file begins with decides. Files that start processes stand in systems, wherever they lie.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TIERS = ("checks", "pieces", "systems", "calm")

#: Folders and files, relative to the root, to their tier.
TIER_OF = {
    "tests": "pieces",
    "tests/house": "checks",
    "tests/typing": "checks",
    "tests/system": "systems",
    "tests/network": "systems",
    "tests/docs": "calm",
    "tests/examples": "calm",
    "tests/spark": "calm",
}

#: The pieces that a compiled module can change: they run a second time, with the compiled package.
COMPILED = ("tests/laws", "tests/runtime", "tests/transport")


def tier_of(path: Path) -> str:
    """The tier of a file or folder of tests."""
    relative = path.relative_to(ROOT)
    for each in (relative, *relative.parents):
        if tier := TIER_OF.get(each.as_posix()):
            return tier
    raise ValueError(f"{path} is no part of tests/")


def holds(folder: Path, tier: str) -> bool:
    """Whether a folder may hold files of a tier."""
    prefix = folder.relative_to(ROOT).as_posix() + "/"
    return tier_of(folder) == tier or any(TIER_OF[path] == tier for path in TIER_OF if path.startswith(prefix))
