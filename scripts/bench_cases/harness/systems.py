"""Systems: a real one, brought up as a user would, for a case to call; and taken down again, whatever happened."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appbackplane.transport import connect
from appbackplane.transport.client import Client

#: Where `bench_cases` is imported from, here and in the backplanes.
SCRIPTS = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "appbackplane.supervisor")
UP_S_MAX, DOWN_S_MAX = 60, 30
#: By this setting the systems of all cases use another link: APPBACKPLANE_BENCH_LINK=unix.
LINK = f'local_link = "{kind}"\n' if (kind := os.environ.get("APPBACKPLANE_BENCH_LINK")) else ""


@dataclass(frozen=True, slots=True)
class System:
    client: Client
    run_dir: Path

    def pids(self) -> dict[str, int]:
        """Of the backplanes, by name."""
        status = self.client.call("supervisor.status", statistics=False)
        return {each["name"]: each["pid"] for each in status["backplanes"]}


@contextmanager
def system_file(backplanes: Mapping[str, str], system: str = "") -> Iterator[Path]:
    """A TOML in a folder of its own. `backplanes`: name to the lines of its table; `system`: more lines of [system]."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        toml = Path(folder) / "bench.toml"
        tables = [f'[system]\nname = "bench"\nrun_dir = "run"\n{LINK}{system}\n']
        tables += [f"[backplane.{name}]\n{lines}\n" for name, lines in backplanes.items()]
        toml.write_text("\n".join(tables), encoding="utf-8")
        yield toml


@contextmanager
def up(toml: Path) -> Iterator[Path]:
    """Bring it up; its run directory. Raises RuntimeError with what `up` said if it does not come up."""
    run_dir = toml.parent / "run"
    try:
        tell("up", str(toml), "--detach", limit_s=UP_S_MAX)
        yield run_dir
    finally:
        if run_dir.exists():
            tell("down", "-s", str(run_dir), limit_s=DOWN_S_MAX)


@contextmanager
def running(backplanes: Mapping[str, str], system: str = "") -> Iterator[System]:
    """A system that is up, and a client of it."""
    with system_file(backplanes, system) as toml, up(toml) as run_dir, connect(run_dir) as client:
        yield System(client, run_dir)


def tell(*words: str, limit_s: float) -> None:
    """Run one command of ours. Raises RuntimeError with what it said."""
    done = subprocess.run(
        [*COMMAND, *words], env=environment(), capture_output=True, text=True, timeout=limit_s, check=False
    )
    if done.returncode:
        raise RuntimeError(f"appbackplane {words[0]}: {done.stderr.strip()}")


def environment() -> dict[str, str]:
    """Of processes that import the cases."""
    paths = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
