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
    (SHELF + 'threads = "two"', 2, "backplane.a.threads: expected a whole number, got 'two'"),
    (SHELF + 'tick = "5 parsec"', 2, "backplane.a.tick: expected a duration"),
    ('[backplane.a]\ncomponents = "components:Shelf"', 2, "backplane.a.components: expected a list"),
    ("[backplane.a]\ncomponents = [", 2, "not TOML"),
    ("", 2, "backplane: expected at least one table"),
    ('[backplane.a]\ncomponents = ["components:Self"]', 1, "components has no Component 'Self' (it has: "),
    ('[backplane.a]\ncomponents = ["componets:Shelf"]', 1, "'componets:Shelf': No module named 'componets'"),
    (SHELF + 'settings.Shelf.fails = "no wood"', 1, "its constructor failed: ValueError: no wood"),
    (SHELF + "settings.Shelf.widht = 1", 1, "unknown argument 'widht'"),
    (SHELF + 'settings.Shelf.width = "x"', 1, "argument 'width': expected `int`"),
    (
        '[backplane.a]\ncomponents = ["components:Day"]\n[backplane.b]\ncomponents = ["components:Night"]',
        1,
        "components depend on each other in a ring: day -> night -> day",
    ),
    (
        '[backplane.a]\ncomponents = ["components:Middle"]',
        1,
        "component 'middle' (backplane 'a') depends on 'bottom', which no backplane has",
    ),
    (SHELF + "threads = 0", 2, "backplane.a.threads: expected a whole number >= 1, got 0"),
    (SHELF + "threads = 10_000", 2, "backplane.a.threads: expected a whole number <= 256, got 10000"),
    (SHELF + "priorities = 300", 2, "backplane.a.priorities: expected a whole number <= 255, got 300"),
    (SHELF + "quotas = [0, -1]", 2, "backplane.a.quotas[1]: expected a whole number >= 0, got -1"),
    (SHELF + "quotas = [99999999999999999999]", 2, "backplane.a.quotas[0]: expected a whole number <= 1000000000"),
    (SHELF + "cpu_limit = 0", 2, "backplane.a.cpu_limit: expected a whole number >= 1, got 0"),
    (SHELF + "cpu_limit = -50", 2, "backplane.a.cpu_limit: expected a whole number >= 1, got -50"),
    (SHELF + "cpu_limit = 99999999999999999999", 2, "backplane.a.cpu_limit: expected a whole number <= 1000000"),
    (SHELF + "cpu_exempt = 8", 2, "backplane.a.cpu_exempt: expected at most 7"),
    (SHELF + "tick = 0", 2, "backplane.a.tick: expected a duration above 0"),
    (SHELF + 'tick = "1ns"', 2, "backplane.a.tick: expected 1ms or more, got '1ns'"),
    (SHELF + "max_latency = 0", 2, "backplane.a.max_latency: expected a duration above 0"),
    (SHELF + 'max_latency = "1ns"', 2, "backplane.a.max_latency: expected 50us or more, got '1ns'"),
    (SHELF + "affinity = [4095]", 2, "backplane.a.affinity[0]: there is no CPU 4095 that it may use (there are: "),
    (SHELF.replace("backplane.a", "backplane.supervisor"), 2, "backplane.supervisor: the name is the supervisor's own"),
    ('run_dir = "~nobody-here/x"' + SHELF, 2, "system.run_dir: there is no home of '~nobody-here'"),
    ("nice = [0, -5]" + SHELF, 2, "system.nice[1]: expected 0 or more, got -5"),
    ("nice = [-21]" + SHELF, 2, "system.nice[0]: expected a whole number >= -20, got -21"),
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
