"""Wrong configurations: they do not come up, and say why: the file, the key or the component, and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import SHELVES, Up, command, lay_out

SHELF = """
[backplane.a]
components = ["components:Shelf"]
"""
#: TOML, exit code of `up`, and what is said. 2: nothing was started.
CONFIGURATIONS = [
    (SHELF + "threds = 2", 2, "backplane.a.threds: unknown key (did you mean 'threads'?)"),
    ("[backplane.a]\ncomponents = [", 2, "not TOML"),
    ('[backplane.a]\ncomponents = ["components:Self"]', 1, "components has no Component 'Self' (it has: "),
    ('[backplane.a]\ncomponents = ["componets:Shelf"]', 1, "'componets:Shelf': No module named 'componets'"),
    (SHELF + 'settings.Shelf.fails = "no wood"', 1, "its constructor failed: ValueError: no wood"),
    (SHELF + "settings.Shelf.widht = 1", 1, "unknown argument 'widht'"),
    (SHELF + 'settings.Shelf.width = "x"', 1, "argument 'width': expected `int`"),
    (
        '[backplane.a]\ncomponents = ["components:Day"]\n[backplane.b]\ncomponents = ["components:Night"]',
        1,
        "components depend on each other in a cycle: day -> night -> day",
    ),
    (
        '[backplane.a]\ncomponents = ["components:Middle"]',
        1,
        "component 'middle' (backplane 'a') depends on 'bottom', which no backplane has",
    ),
    (SHELF + "affinity = [4095]", 2, "backplane.a.affinity[0]: CPU 4095 is not available to it (available: "),
    ('run_dir = "~nobody-here/x"' + SHELF, 2, "system.run_dir: no home folder of '~nobody-here'"),
    (
        '[backplane.a]\ncomponents = ["components:NoRoom"]',
        1,
        "NoRoom.max_requests: 0 would refuse everything: expected a whole number, 1 or more",
    ),
    (
        '[backplane.a]\ncomponents = ["components:SomeRoom"]',
        1,
        "SomeRoom.max_posted: expected a whole number, 1 or more, got 'many'",
    ),
    (SHELF + SHELF.replace("backplane.a", "backplane.b"), 1, "two components are named 'shelf'"),
]


@pytest.mark.parametrize(("toml", "code", "said"), CONFIGURATIONS, ids=[said[:40] for *_, said in CONFIGURATIONS])
def test_a_wrong_configuration_does_not_come_up_and_says_why(begin: Up, toml: str, code: int, said: str) -> None:
    """By `check` and by `up`, in the same words; and nothing of it is left."""
    system = begin(toml)
    checked = command(system.folder, "check", str(system.toml))
    assert (checked.returncode, checked.stdout) == (2, ""), checked
    assert said in checked.stderr
    assert "Traceback" not in checked.stderr
    assert system.wait_down() == code
    assert any(said in line for line in system.said), system.said
    assert not any("Traceback" in line for line in system.said)


def test_a_name_with_no_file_is_told(folder: Path) -> None:
    """Where it was looked for, and what to do."""
    lay_out(folder, "demo", SHELVES)
    ended = command(folder, "up", "demmo.toml")
    assert ended.returncode == 2
    assert "demmo.toml: cannot be read: No such file" in ended.stderr
    ended = command(folder, "call", "-s", "demo.toml", "shelf.where")
    assert ended.returncode == 1
    assert "system 'demo' is not running" in ended.stderr
