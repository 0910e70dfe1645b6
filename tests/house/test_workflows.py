"""The workflows and pre-commit hooks parse, call scripts that exist, and pin actions by major version.

A workflow with a wrong name fails only after it was pushed, on a machine that nobody sits at.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tiers import TIERS

SCRIPT = re.compile(r"(?<![\w./-])scripts/[\w./-]+")
ACTION = re.compile(r"[\w.-]+/[\w.-]+@v\d+")
FILES = (".github/workflows/checks.yml", ".github/workflows/wheels.yml", ".pre-commit-config.yaml")


def load(path: Path) -> Any:
    """The document; an error of syntax names its line."""
    return yaml.safe_load(path.read_text())


def steps(root: Path) -> list[dict[str, Any]]:
    """Steps of all jobs of all workflows."""
    workflows = [load(path) for path in sorted((root / ".github/workflows").iterdir())]
    return [step for workflow in workflows for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", FILES)
def test_called_scripts_exist(root: Path, name: str) -> None:
    """Each file parses, and each script that it names can be run."""
    load(root / name)
    scripts = {root / script for script in SCRIPT.findall((root / name).read_text())}
    assert [str(script) for script in scripts if not script.stat().st_mode & 0o100] == []


def test_actions_are_pinned_by_major_version(root: Path) -> None:
    """A branch in place of a version may change under us."""
    used = [step["uses"] for step in steps(root) if "uses" in step]
    assert used and [action for action in used if not ACTION.fullmatch(action)] == []


def test_every_tier_is_run(root: Path) -> None:
    """A tier without a job is one that no pull request is judged by."""
    matrix = load(root / ".github/workflows/checks.yml")["jobs"]["tier"]["strategy"]["matrix"]
    assert tuple(matrix["tier"]) == TIERS
    assert {entry["tier"] for entry in matrix["include"]} <= set(TIERS)


def test_hooks_need_no_download(root: Path) -> None:
    """A hook from elsewhere would bring its own versions of the tools, and judge differently."""
    for repository in load(root / ".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local"
        assert {hook["language"] for hook in repository["hooks"]} == {"system"}


def test_each_architecture_has_a_machine_and_each_python_a_wheel(root: Path) -> None:
    """cibuildwheel is told the Pythons by pyproject.toml, and the architecture by the machine that a job runs on."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    settings = project["tool"]["cibuildwheel"]
    assert settings["build"].split() == [f"cp3{minor}-manylinux_*" for minor in range(11, 15)]
    assert settings["environment"] == {"APPBACKPLANE_COMPILE": "1"}, "a wheel that is not compiled would pass for one"
    (tested,) = re.findall(r"{project}/(\S+)", settings["test-command"])
    assert (root / tested).is_file()
    assert settings["linux"]["archs"] == ["auto64"]
    matrix = load(root / ".github/workflows/wheels.yml")["jobs"]["compiled"]["strategy"]["matrix"]["include"]
    assert [(entry["architecture"], entry["runner"].endswith("-arm")) for entry in matrix] == [
        ("x86_64", False),
        ("aarch64", True),
    ]
