"""Compiles the hot modules, where there is a C compiler; everything else about the package is in pyproject.toml.

The same source runs interpreted and compiled by mypyc (docs/decisions/compiled.md): a call at half the cost, and no
second implementation. An editable installation is never compiled, because a contributor's change to a .py file would then
change nothing. APPBACKPLANE_COMPILE=0 leaves it out, =1 makes whatever is in its way an error; by default it is done if it
can be. Imported (scripts/bootstrap.sh, tests/house) it does nothing, and needs no setuptools.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Extension

ROOT = Path(__file__).parent.resolve()
#: What a call, a message or an action passes through. What users subclass freely stays interpreted (AppObject, Component),
#: and so does what is declared with msgspec (Mark, Policy) and what runs a few times a second.
COMPILED = """
    transport: attempts batching calling calls codec connections envelope events exchange hearing inbox link
        proving publishing purposes request resolver session topics waitables waiting
    transport/peers: line lines membership node parts route_table view window
    transport/security: roll
    runtime/objects: action binding operation_spec registry schedulable
    runtime/scheduling: balance cpu_budget deadline_order nice object_queue quotas ready_queues scheduler throttle ticks timers
    runtime/observation: histogram recorder statistics
    runtime/execution: board callers coroutines digesting endings engine failures firing foreign host inheritance intake
        method_action modules os_priority outgoing parking presence publishing replays reports trying_again watch worker
    runtime/dispatcher: delivery holding locking registration served
    runtime/peers: answers breaks endpoint inward outward
    runtime/requests: desk disowning element lanes ledger oversight owners posters posting ready_pool threads waiting
"""
#: What mypyc asks of a compiler: Python's headers, the C library's, and a linker.
PROBE = "#include <Python.h>\n#include <math.h>\nint probe(void) { return Py_IsInitialized(); }\n"


def main() -> None:
    """What the build backend runs, in the root."""
    from setuptools import setup

    is_wheel = "bdist_wheel" in sys.argv
    if is_wheel:  # what an earlier state of the sources left there would be packed, too
        shutil.rmtree(ROOT / "build", ignore_errors=True)
    setup(ext_modules=extensions() if is_wheel and is_wanted() else [])


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
    """Whether a wheel is to hold compiled modules. Exits where they are demanded and cannot be made."""
    if asked() == "0":
        return False
    obstacle = what_is_in_the_way()
    if obstacle and asked() == "1":
        sys.exit(f"APPBACKPLANE_COMPILE=1, but {obstacle}: install a C compiler and Python's headers, or unset it")
    if obstacle:
        print(f"appbackplane: not compiled ({obstacle}): it works, at half the speed")
    return not obstacle


def asked() -> str:
    """What the person who builds wants: "0", "1" or "auto"."""
    word = os.environ.get("APPBACKPLANE_COMPILE") or "auto"
    if word not in ("auto", "0", "1"):
        sys.exit(f"APPBACKPLANE_COMPILE={word}: expected 0, 1 or auto")
    return word


def what_is_in_the_way() -> str:
    """Why nothing can be compiled here; "" if it can."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "mypyc is for CPython with the interpreter lock"
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    with tempfile.TemporaryDirectory(prefix="appbackplane-") as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE, encoding="utf-8")
        options = [f"-I{sysconfig.get_path('include')}", "-shared", "-fPIC", str(source), "-o", f"{folder}/probe.so"]
        try:
            tried = subprocess.run([*shlex.split(compiler), *options], capture_output=True, text=True, check=False)
        except OSError:
            return f"there is no C compiler ({compiler})"
    if tried.returncode:
        said = tried.stderr.splitlines() or [f"exit code {tried.returncode}"]
        error = next((line for line in said if "error:" in line), said[-1])
        return f"the C compiler ({compiler}) does not work: {error.strip()}"
    return ""


def extensions() -> list[Extension]:
    """The modules as C, under their full names: the folders of the checkout do not bear them, so they are staged."""
    from mypyc.build import mypycify

    stage = ROOT / "build" / "stage"
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
            group_name="appbackplane",  # of the library beside the packages that holds the code of them all
        )
    except SystemExit as refusal:
        sys.exit(
            f"mypyc refuses the source ({refusal}): its reasons are above; APPBACKPLANE_COMPILE=0 leaves compiling out"
        )
    finally:
        os.chdir(ROOT)
    for extension in found:
        extension.sources = [os.path.relpath(source, ROOT) for source in extension.sources]
        extension.depends = []
    return found


if __name__ == "__main__":
    main()
