"""Compiles the hot modules, where there is a C compiler; everything else about the package is in pyproject.toml.

The same source runs interpreted and compiled by mypyc (docs/decisions/compiled.md): twice the calls a second, and no
second implementation. An editable installation is never compiled, because a contributor's change to a .py file would then
change nothing. APPBACKPLANE_COMPILE=0 leaves it out, =1 makes a missing compiler an error; by default it is used if there.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).parent.resolve()
#: What a call, a message or an action passes through. What users subclass freely stays interpreted (AppObject, Component),
#: and so does what is declared with msgspec (Mark, Policy) and what runs a few times a second.
COMPILED = """
    transport: batching calls codec connections envelope exchange hearing inbox publishing request resolver
        session topics waiting
    runtime/objects: action binding registry schedulable
    runtime/scheduling: balance cpu_budget deadline_order object_queue quotas ready_queues scheduler throttle ticks timers
    runtime/observation: histogram statistics
    runtime/execution: board callers coroutines digesting endings engine failures host inheritance intake method_action modules
        outgoing presence publishing reports watch worker
"""


def compiled_modules() -> list[str]:
    """Their files, relative to the folder that stands for the namespace `appbackplane`."""
    files: list[str] = []
    folder = ""
    for word in COMPILED.split():
        if word.endswith(":"):
            folder = word.removesuffix(":")
        else:
            files.append(f"appbackplane/{folder}/{word}.py")
    return files


def is_wanted() -> bool:
    """Whether this run of setup.py is to compile."""
    asked = os.environ.get("APPBACKPLANE_COMPILE", "auto")
    if asked not in ("auto", "0", "1"):
        sys.exit(f"APPBACKPLANE_COMPILE={asked}: expected 0, 1 or auto")
    if asked == "0" or "bdist_wheel" not in sys.argv:
        return False
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    lacks = [
        what for what, is_there in ((compiler, shutil.which(compiler)), (headers, headers.is_file())) if not is_there
    ]
    if lacks and asked == "1":
        sys.exit(
            f"APPBACKPLANE_COMPILE=1, but there is no {lacks[0]}: install a C compiler and Python's headers, or unset it"
        )
    if lacks:
        print(f"appbackplane: not compiled, because there is no {lacks[0]}: it will work, at half the speed")
    return not lacks


def extensions() -> list[Extension]:
    """The modules as C, under their full names: the folders of the checkout do not bear them, so they are staged."""
    from mypyc.build import mypycify

    stage = ROOT / "build" / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    (stage / "appbackplane").mkdir(parents=True)
    for folder in ("transport", "runtime"):
        (stage / "appbackplane" / folder).symlink_to(ROOT / folder)
    os.chdir(stage)
    try:
        found: list[Extension] = mypycify(
            [
                "--config-file=",
                "--namespace-packages",
                "--explicit-package-bases",
                "--ignore-missing-imports",
                *compiled_modules(),
            ],
            target_dir=str(ROOT / "build" / "c"),
            opt_level="3",
        )
    finally:
        os.chdir(ROOT)
    for extension in found:
        extension.sources = [os.path.relpath(source, ROOT) for source in extension.sources]
        extension.depends = []
    return found


setup(ext_modules=extensions() if is_wanted() else [])
