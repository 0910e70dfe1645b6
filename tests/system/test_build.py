"""What runs in a process: one form of the package, compiled or interpreted, everywhere; and how it keeps its memory in order.

`scripts/test` runs the suite twice; that the second run is not the first once more is what this file is for.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from pathlib import Path

from appbackplane.runtime.build import BUILD
from appbackplane.runtime.process import COLLECT_AFTER

from .conftest import Up, command

#: The modules that are compiled where anything is.
HOT = [
    file.removesuffix(".py").replace("/", ".")
    for file in runpy.run_path(str(Path(__file__).parents[2] / "setup.py"))["compiled_modules"]()
]
EXPECTED = "compiled" if os.environ.get("APPBACKPLANE_EXPECT_COMPILED") == "1" else BUILD

HASTY = """
[backplane.hasty]
components = ["hasty:Hasty"]
"""
HASTY_MODULE = """
import gc
from components import Mirror
class Hasty(Mirror):
    component_name = "hasty"
gc.set_threshold(70, 7, 7)
"""
MIRROR = """
[backplane.mirror]
components = ["components:Mirror"]
"""


def forms(files: dict[str, str]) -> dict[str, str]:
    """Module to form, by the file it was loaded from."""
    return {name: "interpreted" if file.endswith(".py") else "compiled" for name, file in files.items()}


def test_all_hot_modules_are_of_the_form_that_is_told() -> None:
    """One that was forgotten, or an old .so beside a new .py, would be measured and tested as what it is not."""
    found = forms({name: importlib.import_module(name).__file__ or "" for name in HOT})
    assert found == dict.fromkeys(HOT, EXPECTED)
    assert BUILD == EXPECTED


def test_what_users_subclass_is_interpreted() -> None:
    """A compiled class refuses attributes that its subclasses' users make up, and takes no class of two such bases."""
    from appbackplane.runtime import AppObject, Component, StateMachine

    assert {sys.modules[each.__module__].__file__[-3:] for each in (AppObject, Component, StateMachine)} == {".py"}


def test_every_process_of_a_system_is_of_this_form(up: Up, folder: Path) -> None:
    """A backplane is started by its supervisor, and could find another installation than the one that was asked for."""
    system = up(MIRROR)
    with system.connect() as client:
        files = client.call("mirror.files")
    hot = {name: form for name, form in forms(files).items() if name in HOT}
    assert set(hot.values()) == {EXPECTED}, hot
    assert "appbackplane.runtime.execution.workers.worker" in hot
    assert system.status()["build"] == EXPECTED
    assert json.loads(system.command("status", "--json").stdout)["build"] == EXPECTED
    assert system.command("status").stdout.splitlines()[0].endswith(f", {EXPECTED}")
    assert command(folder, "--version").stdout.strip().endswith(f", {EXPECTED}")


def test_a_backplane_looks_for_garbage_less_often_than_python_does(up: Up, folder: Path) -> None:
    """Unless its component's module has said how often."""
    (folder / "hasty.py").write_text(HASTY_MODULE)
    system = up(MIRROR + HASTY)
    with system.connect() as client:
        assert client.call("mirror.collects_after") == [*COLLECT_AFTER]
        assert client.call("hasty.collects_after") == [70, 7, 7]
