"""mutate: breaks each law in a copy of the tree and shows that its tests notice (`scripts/mutate [LAW …]`).

First the laws must hold on the unchanged copy, or nothing that follows means anything. Ends with 1 if a mutation survives.
About a second each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.laws.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
PACKAGES = ("transport", "runtime", "supervisor", "spark")
#: A mutation may make a program that does not end. The laws need two seconds.
LIMIT_S = 60
#: What pytest says when tests have failed, and nothing else has gone wrong.
TESTS_FAILED = 1


def main(laws: list[int]) -> int:
    mutations = [mutation for mutation in MUTATIONS if not laws or mutation.law in laws]
    with tempfile.TemporaryDirectory(prefix="appbackplane-mutate-") as name:
        tree = Path(name)
        copy_to(tree)
        if run(tree, "tests/laws") != 0:
            print("the laws do not hold as it is: see scripts/test tests/laws")
            return 1
        survivors = [mutation for mutation in mutations if not is_noticed(tree, mutation)]
    print(f"{len(mutations) - len(survivors)} of {len(mutations)} mutations noticed")
    return 1 if survivors else 0


def copy_to(tree: Path) -> None:
    for part in (*PACKAGES, "tests", "pyproject.toml"):
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / part)
    links = tree / "links" / "appbackplane"
    links.mkdir(parents=True)
    for package in PACKAGES:
        (links / package).symlink_to(tree / package)


def is_noticed(tree: Path, mutation: Mutation) -> bool:
    path = tree / mutation.file
    original = path.read_text()
    assert original.count(mutation.text) == 1, f"{mutation.file}: {mutation.text!r} is not there, or not once"
    (law,) = (tree / "tests" / "laws").glob(f"law_{mutation.law:02}_*.py")
    path.write_text(original.replace(mutation.text, mutation.replacement))
    try:
        code = run(tree, str(law.relative_to(tree)))
    finally:
        path.write_text(original)
    verdict = {0: "SURVIVES", TESTS_FAILED: "noticed"}.get(code, f"BROKEN (pytest ended with {code})")
    print(f"law {mutation.law:2}  {verdict:9} {mutation.breaks}  ({mutation.file})", flush=True)
    return code == TESTS_FAILED


def run(tree: Path, tests: str) -> int:
    """pytest's exit code. Only what is in the copy is imported, and nothing compiled is left that could be stale."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'links'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    check = f"import appbackplane.runtime as r, sys; sys.exit(not r.__file__.startswith({str(tree)!r}))"
    subprocess.run([sys.executable, "-c", check], cwd=tree, env=environment, check=True)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--timeout={LIMIT_S}", tests]
    return subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main([int(argument) for argument in sys.argv[1:]]))
