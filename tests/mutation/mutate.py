"""mutate: makes each mistake of the tables in a copy of the tree, and shows that the tests notice (`scripts/mutate --help`).

First the tests must pass on the unchanged copy, or nothing that follows means anything. Each worker has a copy of its own, so
no mutation sees another (trials.py). Bytecode lies beside the sources, checked by hash instead of by date: a mutated file is
compiled anew, and all else is not.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.mutation.areas import AREAS, MUTATIONS
from tests.mutation.laws import LAWS
from tests.mutation.mutation import Mutation
from tests.mutation.trials import Trial, in_trees, prepare
from tests.tiers import ROOT

PACKAGES = ("transport", "runtime", "supervisor", "spark")


def main(words: list[str]) -> int:
    """The exit code: 0, all noticed; 1, one survived; 2, bad usage."""
    parser = argparse.ArgumentParser(prog="scripts/mutate", add_help=False)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("words", nargs="*")
    parser.error = refuse  # type: ignore[method-assign]
    options = parser.parse_intermixed_args(words)
    if options.workers < 1:
        refuse("--workers takes a number of 1 or more")
    for word in options.words:
        if not any(is_meant(mutation, word) for mutation in MUTATIONS):
            refuse(f"no area {word!r}: give some of {', '.join(AREAS)}, a law (1 to {max(LAWS)}) or a mutated file")
    chosen = [
        mutation for mutation in MUTATIONS
        if not options.words or any(is_meant(mutation, word) for word in options.words)
    ]  # fmt: skip
    return judge(chosen, min(options.workers, len(chosen)))


def refuse(why: str) -> NoReturn:
    print(f"scripts/mutate: {why}", file=sys.stderr)
    sys.exit(2)


def is_meant(mutation: Mutation, word: str) -> bool:
    """Whether a word of the command line, an area, the number of a law or a file, names this mutation."""
    law = LAWS.get(int(word)) if word.isdecimal() else None
    return word in (mutation.area, mutation.file) or law in mutation.tests


def judge(mutations: list[Mutation], workers: int) -> int:
    prepare()
    # The short name matters: tests/environment.py gives up a longer folder of temporary files, and failed tests leave theirs.
    with tempfile.TemporaryDirectory(prefix="m-", dir="/tmp") as name:
        trees = [Path(name) / f"tree-{number}" for number in range(workers)]
        copy_to(trees[0])
        if not passes(trees[0], mutations, workers):
            return 1
        for tree in trees[1:]:
            shutil.copytree(trees[0], tree, symlinks=True)
            link(tree)
        noticed = noticed_of(mutations, trees)
    print(table(mutations, noticed))
    return 0 if len(noticed) == len(mutations) else 1


def copy_to(tree: Path) -> None:
    for part in (*PACKAGES, "examples", "tests", "pyproject.toml"):
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / part)
    for package in PACKAGES:
        by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(tree / package, quiet=1, invalidation_mode=by_hash)
    link(tree)


def link(tree: Path) -> None:
    """The packages under the names that they are imported by."""
    links = tree / "links" / "appbackplane"
    shutil.rmtree(links, ignore_errors=True)
    links.mkdir(parents=True)
    for package in PACKAGES:
        (links / package).symlink_to(tree / package)


def passes(tree: Path, mutations: list[Mutation], workers: int) -> bool:
    """Whether all tests that are named pass as it is. Leaves their bytecode in the tree."""
    files = sorted({file for mutation in mutations for file in mutation.tests})
    print(f"as it is: {len(files)} files of tests", flush=True)
    is_good = True
    for trial, outcome in in_trees([Trial((file,)) for file in files], [tree] * workers):
        if outcome.code != pytest.ExitCode.OK:
            print(f"{trial.tests[0]} fails without any mutation: {outcome.failed or outcome.verdict}\n{outcome.why}")
            is_good = False
    return is_good


def noticed_of(mutations: list[Mutation], trees: list[Path]) -> list[Mutation]:
    """Which mutations the tests noticed. Prints a line for each."""
    noticed = []
    for trial, outcome in in_trees([Trial(mutation.tests, mutation) for mutation in mutations], trees):
        mutation = trial.mutation
        assert mutation is not None
        by = f", by {outcome.failed.removeprefix('tests/')}" if outcome.failed else ""
        print(f"{mutation.area:10} {outcome.verdict:8}  {mutation.breaks}  ({mutation.file}{by})", flush=True)
        if outcome.is_noticed:
            noticed.append(mutation)
    return noticed


def table(mutations: list[Mutation], noticed: list[Mutation]) -> str:
    counts, seen = (Counter(mutation.area for mutation in some) for some in (mutations, noticed))
    rows = [("area", "mutations", "noticed"), *((area, str(counts[area]), str(seen[area])) for area in counts)]
    rows.append(("all", str(counts.total()), str(seen.total())))
    return "\n" + "\n".join(f"{area:10} {count:>9} {number:>9}" for area, count, number in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
