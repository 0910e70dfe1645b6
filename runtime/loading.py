"""Loading: import and construct a component that the TOML names, or explain in one line which part failed, and where.

The reader of that line wrote the module, so it ends with the last line of their code that ran. The traceback consists mostly
of our frames and importlib's, and is shown with `--debug`. One line, because only the last line of a process is reported.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from appbackplane.transport.errors import InvalidArgument

from .objects.component import Component
from .objects.spawn_endpoint import construct
from .process_config import ProcessConfig

#: Path prefixes of our own frames: the packages as they were imported, and the file names in compiled code.
_OURS = (*(f"{Path(__file__).parents[1]}/{name}/" for name in ("runtime", "transport", "spark")), "appbackplane/")
_PYTHON = (f"{sysconfig.get_path('stdlib')}/", "<")


class DeclarationFault(Exception):
    """A component cannot be imported or constructed. The message names the component and the reason."""


def load_component(name: str, config: ProcessConfig) -> Component:
    """Import and construct "module:Class", or "module:flow.stage", with its settings.

    Raises `DeclarationFault`, `InvalidArgument`.
    """
    module_name, _, class_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        where = place(error, config) or _gone(config)
        raise DeclarationFault(f"component {name!r}: {first_line(error)}{where}") from error
    except Exception as error:
        raise DeclarationFault(f"component {name!r}: importing {module_name} failed: {told(error, config)}") from error
    cls = getattr(module, class_name, None) or _flow_parts(module).get(class_name)
    if not (isinstance(cls, type) and issubclass(cls, Component)):
        found = [
            n
            for n, c in vars(module).items()
            if isinstance(c, type) and issubclass(c, Component) and c is not Component
        ]
        found += _flow_parts(module)
        raise DeclarationFault(
            f"component {name!r}: {module_name} has no Component {class_name!r} (it has: {', '.join(found) or 'none'})"
            f"{_hidden(module, config)}"
        )
    try:
        component = construct(cls, config.settings.get(class_name, {}))
    except InvalidArgument:
        raise
    except Exception as error:
        raise DeclarationFault(f"component {name!r}: its constructor failed: {told(error, config)}") from error
    assert isinstance(component, Component)
    return component


def _flow_parts(module: ModuleType) -> dict[str, type[Component]]:
    """The components of the flows of a module, as FLOW.STAGE."""
    flows = sys.modules.get(f"{__package__}.flows.flow")  # imported by a module that declares one, and by no other
    if flows is None:
        return {}
    made = {name: value for name, value in vars(module).items() if isinstance(value, flows.Flow)}
    return {f"{name}.{part}": cls for name, flow in made.items() for part, cls in flow.components.items()}


def told(error: BaseException, config: ProcessConfig) -> str:
    """One line for an error that a user's code raised: `RuntimeError: no database (a.py:4)`."""
    words = first_line(error)
    return f"{type(error).__name__}{': ' if words else ''}{words}{place(error, config)}"


def first_line(error: BaseException) -> str:
    """The first non-empty line of the error's message, with " ..." if there are more; "" for an empty message."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] + (" ..." if len(lines) > 1 else "") if lines else ""


def place(error: BaseException, config: ProcessConfig) -> str:
    """` (a.py:4)`: the last line of the user's code in the traceback, relative to the TOML's folder; "" if there is none."""
    folder = f"{config.import_dir}/"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((*_OURS, *_PYTHON))]
    theirs = [f for f in frames if f.filename.startswith(folder) and "/site-packages/" not in f.filename]
    last = (theirs or frames)[-1:]
    return "".join(f" ({frame.filename.removeprefix(folder)}:{frame.lineno})" for frame in last)


def _gone(config: ProcessConfig) -> str:
    """A note for the error message if the TOML's folder no longer exists; else ""."""
    if config.import_dir is None or Path(config.import_dir).is_dir():
        return ""
    return f" (folder {config.import_dir} is gone: deploy it again there)"


def _hidden(module: ModuleType, config: ProcessConfig) -> str:
    """A note for the error message if `module` hides a module of the same name in the TOML's folder; else ""."""
    if config.import_dir is None:
        return ""
    came_from = getattr(module, "__file__", None) or "Python itself"
    own = Path(config.import_dir, *module.__name__.split("."))
    for path in (own.with_suffix(".py"), own / "__init__.py"):
        if path.exists() and not (Path(came_from).exists() and path.samefile(came_from)):
            return f": it was imported from {came_from}, which hides {path}: give yours another name"
    return ""
