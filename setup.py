"""Compiles the hot modules, where there is a C compiler; everything else about the package is in pyproject.toml.

The same source runs interpreted and compiled by mypyc (docs/decisions/compiled.md): a call at half the cost, and no
second implementation. An editable installation is never compiled, because a contributor's change to a .py file would then
change nothing. APPBACKPLANE_COMPILE=0 leaves it out, =1 makes whatever is in its way an error; by default it is done if it
can be. Imported (scripts/bootstrap.sh, tests/house) it does nothing, and needs no setuptools.

Nothing is written beside the sources: they may be read-only, or another user's. Building takes place in a temporary folder
that links to them. The build backend calls with absolute paths for what it wants to keep.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setuptools import Command, Extension

ROOT = Path(__file__).parent.resolve()
#: What each call, message, request or action passes through; docs/decisions/compiled.md says how that was measured. What users
#: subclass freely stays interpreted (AppObject, Component), and so does what is declared with msgspec (Mark, Policy) and
#: what runs once a second, a connection or a failure.
COMPILED = """
    transport: argument_stream batching call_checks call_spec caller_core caller_throttle calling calls codec connections
        envelope events fan_out frame_reader inbox item_buffer item_sender link pulling resolver session topics unix_link
        unpacking waitables waiting
    transport/peers: line lines node parts route_table view window
    transport/security: roll
    runtime/objects: action binding operation_spec registry schedulable spawned
    runtime/scheduling: adaptive_limit balance cpu_budget deadline_order fair_order interleaving nice object_queue quotas
        ranked_queues ready_queues scheduler throttle time_shares timers
    runtime/observation: histogram recorder span_buffer span_ids statistics
    runtime/execution/workers: poll_leader worker
    runtime/execution/urgency: board os_priority priority_publisher
    runtime/execution/intake: admission awaiting_calls call_changes caller_liveness deferring digest digesting fairness grants
        idempotency_cache intake overload_control remote_routes sources user_actions withdrawal
    runtime/execution/actions: batch_action completion coroutine_action coroutines inheritance method_action parked_actions
        reading_action recorders stream_action
    runtime/execution/outgoing: outgoing_calls publishing ring_detector routing sender streaming
    runtime/execution/loop: batching engine late_actions worker_loop
    runtime/execution/services: engine_platform host node_services spawning
    runtime/dispatcher: delivery locking registration served
    runtime/peers: answers breaks inward node_endpoint outward
    runtime/requests/contexts: waiting
    runtime/requests/ledger: element lanes ledger owners posters ready_pool synchronized_ledger
    runtime/requests/executing: threads
"""
#: All that a wheel and an sdist are made of.
SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "transport", "runtime", "supervisor", "spark")
#: What mypyc asks of a compiler: Python's headers, the C library's, and a linker.
PROBE = "#include <Python.h>\n#include <math.h>\nint probe(void) { return Py_IsInitialized(); }\n"


#: CPU time of the C compiler for what mypyc has written, over that of mypyc: 60 s and 4 s.
C_OVER_MYPYC = 15
#: Between two lines of progress: seldom enough for a log, often enough to see that it has not stopped.
PROGRESS_EVERY_S = 15.0


def main() -> None:
    """What the build backend runs, in the root."""
    from setuptools import setup

    if "editable_wheel" in sys.argv:  # names the folder that it stands in, and writes nothing there
        setup()
        return
    with temporary_folder():
        if "bdist_wheel" in sys.argv and is_wanted():
            progress = Progress(len(compiled_modules()))
            setup(ext_modules=extensions(progress), cmdclass={"build_ext": parallel_build_ext()})
            progress.end()
        else:
            setup()


@contextlib.contextmanager
def temporary_folder() -> Iterator[None]:
    """Work where the sources appear to be, but nothing that is written reaches them."""
    with tempfile.TemporaryDirectory(prefix="appbackplane-") as folder:
        for name in SOURCES:
            Path(folder, name).symlink_to(ROOT / name)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(ROOT)


def say(line: str) -> None:
    """On stderr, which `pip install -v` shows; without -v pip shows nothing, so also on the terminal, if there is one."""
    print(f"appbackplane: {line}", file=sys.stderr, flush=True)
    if not sys.stderr.isatty():
        with contextlib.suppress(OSError), open("/dev/tty", "w", encoding="utf-8") as terminal:
            print(f"\rappbackplane: {line}", file=terminal)


class Progress:
    """Says that it compiles, for how long, and how far it is. Begins when it is made."""

    def __init__(self, modules: int) -> None:
        self._modules = modules
        self._began_s = time.monotonic()
        self._all_s = 0.0
        self._has_ended = threading.Event()
        say(f"compiling {modules} modules: about a minute of one core. APPBACKPLANE_COMPILE=0 leaves it out")

    def expect_compiler(self) -> None:
        """The C is written. The CPU time of that tells how long the C compilers will take on this machine."""
        spent_s, cores = time.process_time(), core_count()
        self._all_s = spent_s * (1 + C_OVER_MYPYC / cores)
        say(f"C written after {self._taken_s():.0f} s; in all it takes about {self._all_s:.0f} s on {cores} cores")
        threading.Thread(target=self._tell, daemon=True).start()

    def end(self) -> None:
        """All is compiled."""
        self._has_ended.set()
        say(f"compiled {self._modules} modules in {self._taken_s():.0f} s")

    def _tell(self) -> None:
        # Each module is a C file of the library that holds the code of all, `__native_NAME.c`: that takes nearly all the time.
        while not self._has_ended.wait(PROGRESS_EVERY_S):
            compiled = min(self._modules, sum(1 for _ in Path("build").rglob("__native_*.o")))
            say(
                f"{self._taken_s():.0f} s so far (of about {self._all_s:.0f} s); {compiled} of {self._modules} compiled"
            )

    def _taken_s(self) -> float:
        return time.monotonic() - self._began_s


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


def core_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def is_wanted() -> bool:
    """Whether a wheel is to hold compiled modules. Exits where they are demanded and cannot be made."""
    if asked() == "0":
        return False
    obstacle = what_is_in_the_way()
    if obstacle and asked() == "1":
        sys.exit(f"APPBACKPLANE_COMPILE=1, but {obstacle}: install a C compiler and Python's headers, or unset it")
    if obstacle:
        say(f"not compiled ({obstacle}): it works, at half the speed")
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


def extensions(progress: Progress) -> list[Extension]:
    """The modules as C, under their full names: the folders of the checkout do not bear them, so they are linked to."""
    from mypyc.build import mypycify

    Path("appbackplane").mkdir()
    for folder in ("transport", "runtime"):
        Path("appbackplane", folder).symlink_to(ROOT / folder)
    try:
        found: list[Extension] = mypycify(
            [
                "--config-file=",
                "--namespace-packages",
                "--explicit-package-bases",
                "--ignore-missing-imports",
                *compiled_modules(),
            ],
            target_dir="build/c",
            opt_level="3",
            multi_file=True,  # a C file for each module: half the CPU time of one file for all, and every core takes part
            group_name="appbackplane",  # of the library beside the packages that holds the code of them all
        )
    except SystemExit as refusal:
        sys.exit(
            f"mypyc refuses the source ({refusal}): its reasons are above; APPBACKPLANE_COMPILE=0 leaves compiling out"
        )
    for extension in found:
        extension.depends = []
        # A traceback names files and lines without the compiler's own notes for a debugger, which are half of the size.
        extension.extra_compile_args.append("-g0")
        extension.extra_link_args.append("-Wl,-s")
    progress.expect_compiler()
    return found


def parallel_build_ext() -> type[Command]:
    """The build command that runs a C compiler on each core.

    Its own option `parallel` builds each extension with one compiler, and nearly all of the code is in one extension.
    """
    from setuptools.command.build_ext import build_ext

    class ParallelBuildExt(build_ext):
        def finalize_options(self) -> None:
            super().finalize_options()
            self.parallel = core_count()

        def build_extensions(self) -> None:
            compile_all = self.compiler.compile

            def compile_each(sources: list[str], *arguments: Any, **options: Any) -> list[str]:
                made = pool.map(lambda source: compile_all([source], *arguments, **options), sources)
                return [file for files in made for file in files]

            with ThreadPoolExecutor(core_count()) as pool:
                self.compiler.compile = compile_each
                super().build_extensions()

    return ParallelBuildExt


if __name__ == "__main__":
    main()
