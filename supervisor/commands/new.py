"""new: makes a project: one component with one object, its test, its TOML. It comes up, and its test passes.

The files are templates beside this package (supervisor/skeleton). Nothing is overwritten: a folder that has anything in it is
refused, and so is a name that would hide another package or cannot be a component's.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from importlib import metadata, resources
from pathlib import Path
from string import Template

import click

from appbackplane.transport.addressing import BACKPLANE, CONTROL, SUPERVISOR
from appbackplane.transport.errors import FailedPrecondition

from . import show
from .cli import output_options

#: The name serves as package, system and component at once.
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
#: Template to the file that it becomes.
FILES = {
    "README.md.template": "README.md",
    "pyproject.toml.template": "pyproject.toml",
    "gitignore.template": ".gitignore",
    "system.toml.template": "$name.toml",
    "package.py.template": "$name/__init__.py",
    "component.py.template": "$name/component.py",
    "test.py.template": "tests/test_$name.py",
}


@click.command("new")
@click.argument("name")
@output_options
def command(name: str, as_json: bool) -> None:
    """Make a project in the folder NAME: a component, its test, its TOML."""
    check_name(name)
    folder = Path(name)
    try:
        is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    except OSError as error:
        raise FailedPrecondition(f"{name} cannot be read: {error.strerror}") from error
    if not is_free:
        raise FailedPrecondition(f"{name} is there already, and not an empty folder: choose another name")
    files = written(folder, name)
    if as_json:
        show.as_json({"name": name, "folder": str(folder.resolve()), "files": files})
        return
    for file in files:
        click.echo(f"{name}/{file}")
    click.echo(f"next: cd {name} && appbackplane up --detach && appbackplane call {name}.greet person=Ada")


def check_name(name: str) -> None:
    """Raises `UsageError` with the problem of this name."""
    problem = ""
    if not _NAME.fullmatch(name):
        problem = "expected small letters, digits and single _, beginning with a letter"
    elif keyword.iskeyword(name) or keyword.issoftkeyword(name):
        problem = "it is a keyword of Python"
    elif name in (SUPERVISOR, BACKPLANE, CONTROL, "tests"):
        problem = "the name is reserved"
    elif name in sys.stdlib_module_names or is_elsewhere(name):
        problem = "it would hide the package of that name"
    elif component_of(name) is None:
        problem = "its words are too short for the name of a class"
    if problem:
        raise click.UsageError(f"{name!r} cannot be the name of a project: {problem}")


def is_elsewhere(name: str) -> bool:
    """Whether this name can be imported from anywhere but a folder here, which is checked separately."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return False
    folders = spec.submodule_search_locations
    return spec.origin is not None or any(Path(folder).parent != Path.cwd() for folder in folders or ())


def component_of(name: str) -> str | None:
    """The class whose component has this name; None: there is none."""
    from appbackplane.runtime import Component

    component = "".join(word.capitalize() for word in name.split("_"))
    cls: type[Component] = type(component, (Component,), {})
    return component if cls.component_name == name else None


def written(folder: Path, name: str) -> list[str]:
    """Write all files, and return their names. Raises `FailedPrecondition`."""
    words = {
        "name": name,
        "component": component_of(name),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "version": metadata.version("appbackplane"),
    }
    templates = resources.files("appbackplane.supervisor") / "skeleton"
    files = []
    try:
        for template, target in FILES.items():
            file = Template(target).substitute(words)
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template((templates / template).read_text(encoding="utf-8")).substitute(words))
            files.append(file)
    except OSError as error:
        raise FailedPrecondition(f"{error.filename} cannot be written: {error.strerror}") from error
    return files
