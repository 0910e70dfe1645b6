"""Code: make the user's modules importable in the Python workers that execute the runnables.

On this machine, workers search the modules' own folders. On a cluster the modules are sent, as an archive of all Python files
of these folders: a runnable finds its neighbours, but no data files. Modules that need more than Python files have to be
installed on the cluster (`code = "installed"`). Installed packages are never sent, nor is this package: all workers need
`appbackplane[spark]` in the driver's version.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appbackplane.transport.errors import FailedPrecondition

if TYPE_CHECKING:
    from pyspark import SparkContext

#: More than this is not a component's folder, but perhaps a home directory. All of it is sent to each worker.
FILES_MAX: Final = 5_000
BYTES_MAX: Final = 32 << 20
_NEVER: Final = {"__pycache__", "node_modules"}


def folders_of(places: Iterable[str]) -> tuple[str, ...]:
    """Folders of the modules in "module:Class" outside the installed packages. Raises `FailedPrecondition`."""
    installed = tuple(
        Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
    )
    found: dict[str, None] = {}
    for where in places:
        folder = _folder(where)
        if not any(folder.is_relative_to(place) for place in installed):
            found[str(folder)] = None
    return tuple(found)


def send(folders: Iterable[str], context: SparkContext, name: str) -> None:
    """Have the workers import from these folders; `name` must be new in the session. Raises `FailedPrecondition`.

    The archive stays in Spark's own folder, because later workers fetch it, too; Spark removes it in the end.
    """
    from pyspark import SparkFiles

    kept = Path(SparkFiles.getRootDirectory())
    place = kept / name
    place.mkdir()
    made = archive(folders, place / f"{name}.zip")
    if made is not None:
        context.addPyFile(str(made))
        sys.path.remove(str(kept / made.name))  # addPyFile has made this process import from the archive, too


def archive(folders: Iterable[str], to: Path) -> Path | None:
    """Archive all Python files of these folders; None: there are none. Raises `FailedPrecondition` above the maxima."""
    files = [(path, path.relative_to(folder)) for folder in folders for path in _python_files(Path(folder))]
    if not files:
        return None
    bytes_count = sum(path.stat().st_size for path, _ in files)
    if len(files) > FILES_MAX or bytes_count > BYTES_MAX:
        raise FailedPrecondition(
            f"policy.spark: {', '.join(folders)} with {len(files):,} Python files, {bytes_count >> 20} MiB, is too large to "
            f'send (at most {FILES_MAX:,} and {BYTES_MAX >> 20} MiB): install it on the workers and set code = "installed"'
        )
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as written:
        for path, name in files:
            written.write(path, str(name))
    return to


def _folder(where: str) -> Path:
    """Folder from which the module of `where` is imported."""
    module_name, _, class_name = where.partition(":")
    if module_name == "__main__" or "<locals>" in class_name:
        why = "is part of the program itself" if module_name == "__main__" else "is defined inside a function"
        raise FailedPrecondition(f"{where} {why}, so no Spark worker can import it: move it into a module")
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if file is None:
        raise FailedPrecondition(f"{where}: its module is not a file, so no Spark worker can import it")
    path = Path(file).resolve()
    parts = module_name.split(".")
    return path.parents[len(parts) if path.stem == "__init__" else len(parts) - 1]


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _NEVER and not Path(place, name, "pyvenv.cfg").exists()
        )
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))
