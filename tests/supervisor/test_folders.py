"""`check` refuses a folder that `up` refuses, in the same words, and makes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from appbackplane.supervisor.commands import main
from appbackplane.supervisor.folders import obstacle
from tests import launching

from .conftest import LIMIT_S, MODULE, TOML

FAILED, WRONG = 1, 2


def folder(path: Path, mode: int = 0o700) -> Path:
    """Made, with this mode."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.mkdir()
    path.chmod(mode)
    return path


#: What is in the way, by the words that both say; "log": a folder beside the run directory "run".
REFUSED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a file": ("run is not a folder of yours", lambda here: (here / "run").write_text("")),
    "a link": ("run is not a folder of yours", lambda here: (here / "run").symlink_to(folder(here / "other"))),
    "open to others": ("run is open to others: chmod 700", lambda here: folder(here / "run", 0o755)),
    "lock": ("run cannot be used: lock in it was not made by a supervisor", lambda here: folder(here / "run" / "lock")),
    "log link": ("run cannot be used: log in it was not made by", lambda here: folder(here / "run" / "log")),
    "socket": ("run cannot be used: supervisor.sock in it", lambda here: folder(here / "run" / "supervisor.sock")),
    "log file": ("log cannot be written: Not a directory", lambda here: (here / "log").write_text("")),
    "dead log link": ("log is a link to nothing", lambda here: (here / "log").symlink_to(here / "nowhere")),
    "open log": ("log can be changed by others: chmod go-w", lambda here: folder(here / "log", 0o777)),
    "newest log": ("00000002.jsonl in it is not a file", lambda here: folder(here / "log" / "00000002.jsonl")),
    "last words": ("supervisor.err in it is not a file", lambda here: folder(here / "log" / "supervisor.err")),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a system in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.py").write_text(MODULE)
    (tmp_path / "demo.toml").write_text(TOML.format(system='log = { dir = "log" }', index=""))
    return tmp_path


def there_is(here: Path) -> set[Path]:
    """All files and folders."""
    return {path for path in here.rglob("*") if "__pycache__" not in path.parts}


def refused_by_both(here: Path) -> str:
    """What `check` says, which `up` says, too."""
    before = there_is(here)
    checked = CliRunner().invoke(main, ["check", "demo.toml"])
    assert there_is(here) == before
    started = launching.run("up", "demo.toml", environment=os.environ, folder=here, given=None, limit_s=LIMIT_S)
    assert (checked.exit_code, checked.stderr) == (started.returncode, started.stderr)
    assert checked.exit_code in (FAILED, WRONG)
    assert "internal error" not in checked.stderr
    return checked.stderr


@pytest.mark.parametrize("name", REFUSED)
def test_a_folder_that_cannot_be_used_is_refused_by_check_as_by_up(here: Path, name: str) -> None:
    """`check` passed all of them. Whoever deploys what it has passed learns of the folder when the system is to come up."""
    words, make = REFUSED[name]
    make(here)
    assert words in refused_by_both(here)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("name", ["run", "log"])
def test_another_users_folder_is_refused_by_both(here: Path, name: str) -> None:
    """It is another's to change."""
    os.chown(folder(here / name), 12_345, -1)
    assert f"{name} is not a folder of yours" in refused_by_both(here)


def test_a_log_folder_in_the_place_of_the_link_to_it_is_refused_by_both(here: Path) -> None:
    """The run directory leads to the log by a link of this name."""
    (here / "demo.toml").write_text(TOML.format(system='log = { dir = "run/log" }', index=""))
    assert "the run directory has a link to the log there" in refused_by_both(here)


def test_a_home_folder_that_nobody_has_is_refused_by_both(here: Path) -> None:
    """It was an internal error of `up`."""
    (here / "demo.toml").write_text(TOML.format(system='log = { dir = "~no-such-user/log" }', index=""))
    assert "system.log.dir: no home folder of '~no-such-user'" in refused_by_both(here)


def test_a_run_directory_too_long_for_the_supervisors_socket_is_refused_by_both(here: Path) -> None:
    """With backplanes of short names only the supervisor's path exceeds the limit, and `up` failed with an internal error."""
    run_dir = here / ("r" * (108 - len(os.fsencode(here)) - len("//supervisor.sock")))
    text = TOML.format(system="", index="").replace('"run"', f'"{run_dir}"')
    (here / "demo.toml").write_text(
        text.replace("backplane.query", "backplane.a").replace("backplane.index", "backplane.b")
    )
    assert "supervisor.sock is longer than a socket path may be" in refused_by_both(here)


def test_what_stands_in_the_way_is_found_without_making_anything(tmp_path: Path) -> None:
    """Of a folder that is not there yet, the nearest one above decides."""
    (tmp_path / "file").write_text("")
    assert obstacle(tmp_path / "a" / "b") is None
    assert obstacle(tmp_path / "file" / "b") == "Not a directory"
    assert obstacle(tmp_path / ("n" * 300)) == "File name too long"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("mode", [0o500, 0o300, 0o600])
def test_a_folder_without_a_right_is_an_obstacle(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root has all rights: the kernel's answer is a stand-in's."""
    monkeypatch.setattr(os, "access", lambda _path, needed: needed & (mode >> 6) == needed)
    assert obstacle(tmp_path) == "Permission denied"
    assert (obstacle(tmp_path / "new") is None) is (mode == 0o300), "whoever makes a folder need not read the one above"
