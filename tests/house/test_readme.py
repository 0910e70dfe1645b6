"""The README's first program and its TOML do what the README says: they are cut out of it and run.

A block names its file in its first line (`# hello.py`, `# hello.toml`); one that names none is only looked at.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```(?P<language>python|toml)\b[^\n]*\n(?P<text>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# *([\w-]+\.(?:py|toml))\s*$", re.MULTILINE)
RUN_S_MAX = 60


def blocks(readme: str, language: str) -> list[tuple[str, str]]:
    """(file name, text) of the fenced blocks in one language; a file name is made up where none is given."""
    found = []
    for block in BLOCK.finditer(readme):
        if block["language"] == language:
            named = FILE_NAME.match(block["text"])
            extension = {"python": "py", "toml": "toml"}[language]
            found.append((named[1] if named else f"block{len(found)}.{extension}", block["text"]))
    return found


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    """A folder with all programs and tables of the README in it."""
    readme = (root / "README.md").read_text()
    for name, text in blocks(readme, "python") + blocks(readme, "toml"):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_first_program_runs(root: Path, folder: Path) -> None:
    """The first thing that a newcomer copies must work as it stands."""
    programs = blocks((root / "README.md").read_text(), "python")
    assert programs, "the README shows no program"
    bin_dir = str(Path(sys.executable).parent)
    with tempfile.TemporaryDirectory(prefix="ab-") as run_dirs:  # short: socket paths are
        environment = os.environ | {
            "PATH": f"{bin_dir}:{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": run_dirs,
            "XDG_STATE_HOME": run_dirs,
        }
        command = [sys.executable, programs[0][0]]
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert not list(Path(run_dirs).rglob("*.sock"))
    greeted = re.search(r"Hello, Ada! .* ms, (\d+) audits to go", run.stdout)
    assert greeted, run.stdout
    assert int(greeted[1]) > 50, "the greeting waited for the audits"


def test_the_bank_transfers(folder: Path) -> None:
    """What the README says of the dispatcher, in a process of its own."""
    program = """
from bank import Account, Bank, Transfer, transfer
from appbackplane.runtime.testing import VirtualBackplane
ada, bob = Account("ada"), Account("bob")
transfer(Transfer("ada", "bob", 5), ada, bob)
assert (ada.cents, bob.cents) == (-5, 5)
for target in ("bob", "ada"):
    VirtualBackplane(Bank()).call("bank.transfer", source="ada", target=target, cents=5).result()
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_words_are_counted(folder: Path) -> None:
    """What the README says of requests, in a process of its own."""
    (folder / "books").mkdir()
    (folder / "books" / "storm.txt").write_text("It was a dark night.")
    (folder / "books" / "whale.txt").write_text("Call me.")
    program = """
from words import Words
from appbackplane.runtime.testing import VirtualBackplane
assert VirtualBackplane(Words()).call("words.count", folder="books").result() == 7
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_each_table_is_toml(folder: Path) -> None:
    """A configuration that is not even TOML costs a newcomer's first ten minutes."""
    for path in folder.glob("*.toml"):
        tomllib.loads(path.read_text())


def test_blocks_are_found() -> None:
    """A test of the README that finds nothing in it would pass for ever."""
    readme = "x\n```python\n# a.py\nprint()\n```\n```console\n$ ls\n```\n```toml\n[system]\n```\n"
    assert blocks(readme, "python") == [("a.py", "# a.py\nprint()\n")]
    assert blocks(readme, "toml") == [("block0.toml", "[system]\n")]
