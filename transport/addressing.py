"""Addressing: paths of a system's sockets, and reserved names.

A running system is found by its name through its run directory (DESIGN section 8). Every generation of a backplane has a
socket of its own, so messages for a dead process never reach its successor (TRAPS 5). Paths only; nothing is created here.
"""

import os
from pathlib import Path

#: Reserved first words of routes; no component may have these names.
SUPERVISOR, BACKPLANE, CONTROL = "supervisor", "backplane", "control"
RESERVED = frozenset((SUPERVISOR, BACKPLANE, CONTROL))
#: Operation of every backplane by which a caller announces that it will call there no more.
FAREWELL = "farewell"
#: In a system's log folder: a link to the run directory in which the system was last started.
RUN_LINK = "run"
#: Prefix of a key that selects one of the replicas: the name of a backplane follows, and a colon or the end.
AT = "@"
#: Separates the name of a node from a route there: `b/index.stats`.
OF_NODE = "/"


def default_run_dir(system: str) -> Path:
    """`$XDG_RUNTIME_DIR/appbackplane/NAME`, else a folder of this user under the temporary directory."""
    runtime_dir = _absolute("XDG_RUNTIME_DIR")
    return (_temporary_base() if runtime_dir is None else Path(runtime_dir) / "appbackplane") / system


def run_dir_bases() -> list[Path]:
    """Folders that may hold run directories of this user, that of `default_run_dir` first.

    cron, sudo and systemd leave XDG_RUNTIME_DIR out, or set another: a system is then sought where a login or a service would
    have put it. Not if the user has chosen another folder, as tests do to be isolated.
    """
    runtime_dir, usual = _absolute("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"
    chosen = [] if runtime_dir is None else [Path(runtime_dir) / "appbackplane"]
    if runtime_dir not in (None, usual):
        return chosen
    others = [_temporary_base(), Path(usual) / "appbackplane", Path("/run/appbackplane")]
    return chosen + [base for base in others if base not in chosen]


def state_home() -> Path:
    """Folder for files that outlive the programs that write them (XDG Base Directory Specification)."""
    return Path(_absolute("XDG_STATE_HOME") or "~/.local/state").expanduser()


def config_home() -> Path:
    """Folder for what the user configures (XDG Base Directory Specification)."""
    return Path(_absolute("XDG_CONFIG_HOME") or "~/.config").expanduser()


def run_link(system: str) -> Path:
    """Link to the run directory in which this system was last started, if that was a default one."""
    return state_home() / "appbackplane" / system / RUN_LINK


def _absolute(variable: str) -> str | None:
    """The variable if it holds an absolute path: a relative one would differ by folder (XDG Base Directory Specification)."""
    given = os.environ.get(variable)
    return given if given and os.path.isabs(given) else None


def _temporary_base() -> Path:
    """Not `tempfile.gettempdir()`, which chooses another folder as soon as /tmp is full: running systems would be lost."""
    return Path(_absolute("TMPDIR") or "/tmp") / f"appbackplane-{os.getuid()}"


def supervisor_socket(run_dir: Path) -> Path:
    """Socket on which the supervisor listens for backplanes, clients and the command line."""
    return run_dir / "supervisor.sock"


def backplane_socket(run_dir: Path, name: str, generation: int) -> Path:
    """Socket on which one generation of a backplane listens."""
    return run_dir / f"{name}-{generation}.sock"


def backplane_route(name: str, operation: str) -> str:
    """Route of a backplane's own operation: `backplane.query.statistics`."""
    return f"{BACKPLANE}.{name}.{operation}"
