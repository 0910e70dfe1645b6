"""A real system beside a test of Spark: up in a folder of its own, and what is on its recorded topics."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack

from appbackplane.runtime.observation import segments


@contextmanager
def running(folder: Path, toml: str, **modules: str) -> Iterator[Path]:
    """A system of these tables and modules; its run directory. It goes down in order."""
    run_dir = folder / "run"
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    path = folder / "system.toml"
    path.write_text(f'[system]\nname = "beside"\nrun_dir = "{run_dir}"\n{toml}')
    command = (sys.executable, "-m", "appbackplane.supervisor")
    environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
    subprocess.run([*command, "up", "--detach", str(path)], check=True, env=environment, cwd=folder)
    try:
        yield run_dir
    finally:
        subprocess.run([*command, "down", "-s", str(run_dir)], check=True, env=environment, cwd=folder)


def messages(run_dir: Path, topic: str) -> list[dict[str, Any]]:
    """All that backplanes have recorded of a topic, read message by message."""
    bodies = []
    for path in sorted((run_dir / segments.RECORDS).glob(f"*/{topic}/*{segments.MESSAGES_SUFFIX}")):
        data, at = path.read_bytes(), segments.HEADER_BYTES
        while (message := segments.unpack_message(data, at)) is not None:
            bodies.append(msgpack.unpackb(message[2]))
            at = message[3]
    return bodies
