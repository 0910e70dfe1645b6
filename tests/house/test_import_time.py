"""Imports stay cheap (DESIGN 11): every process of a system pays for them, each time it is restarted.

Counted in modules, which are the same on every machine; how long they take is printed, and judged by `scripts/long`.
"""

import subprocess
import sys

from tests.figures import Stopwatch, judge

#: What a backplane's process imports: 302 modules on Python 3.11, of which 181 are ours.
MODULES_MAX = 306
#: What a user's module imports first.
IMPORT_S_MAX = 0.15
#: Slow to import and needed by other folders, or only by those who ask for them.
NOT_FOR_THE_RUNTIME = ("asyncio", "zmq.asyncio", "rich", "click", "multiprocessing", "pyspark", "pandas")

IMPORT = """
import sys
before = set(sys.modules)
import appbackplane.runtime.process
print(*(set(sys.modules) - before))
"""


def started(program: str) -> list[str]:
    """What a fresh interpreter prints, in words."""
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_the_runtime_imports_few_modules() -> None:
    """A second of imports is a second of every restart, and of every command that a person types."""
    imported = started(IMPORT)
    assert "appbackplane.runtime.process" in imported
    assert len(imported) <= MODULES_MAX, "find out by: python -X importtime -c 'import appbackplane.runtime.process'"


def test_the_runtime_imports_nothing_slow() -> None:
    """A count alone would let these in for as many small ones."""
    assert set(started(IMPORT)).isdisjoint(NOT_FOR_THE_RUNTIME)


def test_the_runtime_is_imported_in_time() -> None:
    """What no count shows: one module that reads a large file."""
    started("import appbackplane.runtime")  # its bytecode is there from here on
    watch = Stopwatch()
    started("pass")
    empty_s, watch = watch.taken_s, Stopwatch()
    started("import appbackplane.runtime")
    judge("import appbackplane.runtime", watch.taken_s - empty_s, IMPORT_S_MAX)
