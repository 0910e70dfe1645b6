"""Backplanes that tests fork look to themselves and to others as those that users start."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from tests.zygote import NAME

from .conftest import AS_TYPED, System, Up

TOML = """
[backplane.glass]
components = ["looking:Mirror"]
"""


def test_a_fork_looks_as_an_interpreter_of_its_own(begin: Up, folder: Path) -> None:
    """Else tests would try what nobody has."""
    shutil.copy(Path(__file__).with_name("looking.py"), folder)
    forked, typed = begin(TOML, "forked"), begin(TOML, "typed", prefix=AS_TYPED)
    assert has_zygote(forked) and not has_zygote(typed)
    seen = []
    for system in (forked, typed):
        system.wait_up()
        with system.connect() as client:
            seen.append(client.call("mirror.look"))
    seen[1]["title"] = seen[1]["title"].replace("typed", "forked")
    assert seen[0] == seen[1]


def has_zygote(system: System) -> bool:
    """Whether its backplanes are forks."""
    system.wait_up()
    return NAME in {child.name() for child in psutil.Process(system.pid).children()}
