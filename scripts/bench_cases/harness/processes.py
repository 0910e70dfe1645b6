"""Processes: far ends that are programs of their own, ended whatever happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from .systems import environment


@contextmanager
def program(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m bench_cases.MODULE ARGUMENTS`, with pipes to say and hear lines. Killed on the way out."""
    with started([sys.executable, "-m", f"bench_cases.{module}", *arguments]) as child:
        yield child


@contextmanager
def started(command: Sequence[str], variables: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Any command, likewise; `variables`: more of its environment."""
    child = subprocess.Popen(
        command,
        env=environment() | dict(variables or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def say(child: subprocess.Popen[str], word: str) -> None:
    """One line to it."""
    assert child.stdin is not None
    child.stdin.write(word + "\n")
    child.stdin.flush()


def hear(child: subprocess.Popen[str]) -> str:
    """Its next line. Raises RuntimeError when it has ended instead."""
    pipe: IO[str] | None = child.stdout
    assert pipe is not None
    line = pipe.readline()
    if not line:
        raise RuntimeError(f"{' '.join(map(str, child.args))} ended with exit code {child.wait()}")
    return line.strip()
