"""A system with one backplane of one component, for a benchmark to call."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appbackplane.transport import connect
from appbackplane.transport.client import Client

TOML = """
[system]
name = "bench"
[backplane.worker]
components = ["{component}"]
{options}
"""


@contextmanager
def running(component: str, options: str = "") -> Iterator[tuple[Client, Path]]:
    """A client of it, and its run directory. `component`: "module:Class" beside this file; `options`: more TOML lines."""
    with tempfile.TemporaryDirectory(prefix="ab-") as folder:
        toml = Path(folder) / "bench.toml"
        toml.write_text(TOML.format(component=component, options=options))
        environment = os.environ | {"XDG_RUNTIME_DIR": folder, "PYTHONPATH": str(Path(__file__).parent)}
        command = [sys.executable, "-m", "appbackplane.supervisor"]
        subprocess.run([*command, "up", str(toml), "--detach"], env=environment, check=True, capture_output=True)
        run_dir = Path(folder) / "appbackplane" / "bench"
        try:
            with connect(run_dir) as client:
                yield client, run_dir
        finally:
            subprocess.run([*command, "down", "-s", str(run_dir)], env=environment, check=True, capture_output=True)
