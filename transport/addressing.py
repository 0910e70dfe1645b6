"""Addressing: where the sockets of a system lie, and what things are called.

A running system is found by its name through its run directory (DESIGN section 8). Every backplane has a socket a
generation, so that what was meant for a dead process never reaches its successor (TRAPS 5). Paths only; nothing is
created here.
"""

import os
from pathlib import Path

#: Reserved first words of routes. A component may not bear these names.
SUPERVISOR, BACKPLANE, CONTROL = "supervisor", "backplane", "control"
#: The operation of every backplane by which a caller says that he calls there no more.
FAREWELL = "farewell"
#: Stands between the name of a node and a route there: `b/index.stats`.
OF_NODE = "/"


def default_run_dir(system: str) -> Path:
    """`$XDG_RUNTIME_DIR/appbackplane/NAME`, else a folder of the user's under the temporary directory.

    A relative path there is no path: it would be another one in each folder (XDG Base Directory Specification).
    """
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR")
    if runtime_dir and os.path.isabs(runtime_dir):
        return Path(runtime_dir) / "appbackplane" / system
    import tempfile  # 2 ms, of every command's start, that few need

    return Path(tempfile.gettempdir()) / f"appbackplane-{os.getuid()}" / system


def supervisor_socket(run_dir: Path) -> Path:
    """Where the supervisor listens, for backplanes, clients and the command line."""
    return run_dir / "supervisor.sock"


def backplane_socket(run_dir: Path, name: str, generation: int) -> Path:
    """Where one generation of a backplane listens."""
    return run_dir / f"{name}-{generation}.sock"


def backplane_route(name: str, operation: str) -> str:
    """Route of a backplane's own operation: `backplane.query.statistics`."""
    return f"{BACKPLANE}.{name}.{operation}"
