"""Discovery: find a running system by its name, its run directory or its TOML (DESIGN section 8).

Only this module turns a name into a run directory; the supervisor creates it by the same rule. It reads only the two keys it
needs from a TOML: the supervisor checks the rest. It reads files, nothing else: `lifeline.py` finds out whether anybody
listens.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from . import addressing
from .errors import FailedPrecondition, InvalidArgument, NotFound, SystemNotRunning

#: `_NAME`: names become folder names and words of a command line: no slashes, no dots, nothing special to a shell.
NO_ROOT = "expected a folder of its own, which the root folder is not"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
#: Levels of lists and tables in a TOML. Each level costs the functions that walk through a configuration some frames of
#: Python's stack, of which there are a thousand; people write three.
NESTING_MAX: Final = 64
#: Bits of a whole number in a TOML. Each key has a bound of its own, and names the value in its error.
NUMBER_BITS_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class Location:
    """A system, and the run directory in which it is expected."""

    run_dir: Path
    #: Its name, or the name of the given folder.
    system: str
    #: Its TOML, if it was found by that.
    toml: Path | None = None
    #: Whether the folder was named by the caller; False: it follows from the system's name.
    is_given: bool = False

    @property
    def supervisor(self) -> Path:
        """Path of its supervisor's socket."""
        return addressing.supervisor_socket(self.run_dir)

    def not_running(self, nearest: str | None = None) -> SystemNotRunning:
        """The error for a system that nobody serves. `nearest`: the system that was probably meant."""
        toml = "SYSTEM.toml" if self.toml is None else str(self.toml)
        return SystemNotRunning(self.system, str(self.run_dir), toml, nearest)

    def not_permitted(self) -> FailedPrecondition:
        """The error for a system that this user has no permission to reach, whether it runs or not."""
        return FailedPrecondition(
            f"system {self.system!r}: no permission to reach its supervisor in {self.run_dir}, which is for the user alone "
            "who started it"
        )


def locate(target: str | os.PathLike[str]) -> Location:
    """Find a system by name, run directory or TOML. A string is a name unless it has a slash or ends in `.toml`.

    Raises `NotFound` for a TOML that does not exist, `InvalidArgument` for one that cannot be read and for a malformed name.
    """
    text = os.fspath(target)
    if isinstance(target, str) and os.sep not in text and not text.endswith(".toml"):
        if not _NAME.fullmatch(text):
            raise InvalidArgument(f"not a system's name, run directory or TOML: {text!r}")
        return Location(addressing.default_run_dir(text), text)
    try:
        path = Path(text).expanduser()
        if path.suffix == ".toml" or path.is_file():
            return _from_toml(path)
    except (OSError, RuntimeError) as error:  # too long, no permission, or an unknown user's home
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InvalidArgument(f"{text}: {reason}") from error
    if is_root(path):
        raise InvalidArgument(
            f"{text}: the root folder is no run directory: give that of a system, its name or its TOML"
        )
    return Location(path, path.name, is_given=True)


def is_root(path: Path) -> bool:
    """Whether this is the root folder, which no system can have for itself."""
    return not os.path.abspath(path).strip(os.sep)  # "//" is another root to POSIX


def tables_of(text: str) -> dict[str, Any]:
    """The tables of a TOML. Raises ValueError, and nothing else, with what is wrong with the text.

    It bounds what Python's parser does not: levels, which exhaust the stack of later steps, and whole numbers, which cannot be
    shown in an error beyond 4,300 digits.
    """
    import tomllib  # 1.5 ms that callers by name do not spend

    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # int() takes no more than 4,300 digits
        raise ValueError(_TOO_LARGE) from None
    level: list[Any] = [tables]
    for _ in range(NESTING_MAX):
        level = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
        if any(isinstance(item, int) and item.bit_length() > NUMBER_BITS_MAX for item in level):
            raise ValueError(_TOO_LARGE)
        level = [item for item in level if isinstance(item, dict | list)]
    if level:
        raise ValueError(_TOO_DEEP)
    return tables


_TOO_DEEP = f"more than {NESTING_MAX} levels of lists and tables"
_TOO_LARGE = f"a whole number of more than {NUMBER_BITS_MAX:,} bits"


def _from_toml(path: Path) -> Location:
    try:
        system = tables_of(path.read_text(encoding="utf-8-sig"))["system"]
        name, given = system["name"], system.get("run_dir")
    except FileNotFoundError:
        raise NotFound(f"no such file: {path}") from None
    except OSError as error:
        raise InvalidArgument(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: cannot be read: not UTF-8: {error}") from error
    except ValueError as error:
        raise InvalidArgument(f"{path}: not TOML: {error}") from error
    except (KeyError, TypeError, AttributeError):
        raise InvalidArgument(f"{path}: expected a table [system] with a name") from None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"{path}: [system] name: expected letters, digits, - and _, got {name!r}")
    if given is not None and (not isinstance(given, str) or "\0" in given):
        raise InvalidArgument(f"{path}: [system] run_dir: expected a path, got {given!r}")
    run_dir = addressing.default_run_dir(name) if given is None else path.parent / Path(given).expanduser()
    if is_root(run_dir):
        raise InvalidArgument(f"{path}: [system] run_dir: {NO_ROOT}, got {given!r}")
    return Location(run_dir, name, path, is_given=given is not None)
