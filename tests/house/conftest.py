"""What the tests of the house look at: the files of the repository as they lie there."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("transport", "runtime", "supervisor", "spark")
#: What a wheel is made of beside them.
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")


def copy_sources(checkout: Path) -> None:
    """What a wheel is made of, somewhere else, and without git."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, checkout / name)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def modules(root: Path) -> dict[str, Path]:
    """The modules of the four folders, written or not yet committed: "runtime.scheduling.quotas" to its file."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[Path]:
    """All files under version control that are there, relative to the root."""
    # safe.directory: the checkout may belong to another user than the one who tests, as in a container.
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    return [Path(name) for name in listed.stdout.split("\0") if name and (root / name).is_file()]
