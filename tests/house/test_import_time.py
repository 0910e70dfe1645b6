"""`import appbackplane.runtime` stays cheap (DESIGN 11): every process of a system pays it, each time it is restarted."""

import subprocess
import sys

IMPORT_MS_MAX = 150
#: The least of several is the cost; the others are what else the machine was doing.
RUNS = 7
#: Slow to import and needed by other folders, or only by those who ask for them.
NOT_FOR_THE_RUNTIME = ("asyncio", "zmq.asyncio", "rich", "click", "multiprocessing", "pyspark", "pandas")

MEASURE = """
import sys, time
before = set(sys.modules)
begin = time.perf_counter()
import appbackplane.runtime
print((time.perf_counter() - begin) * 1e3, *(set(sys.modules) - before))
"""


def import_in_fresh_interpreter() -> tuple[float, set[str]]:
    """Milliseconds, and the modules that came with it."""
    run = subprocess.run([sys.executable, "-I", "-c", MEASURE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    milliseconds, *imported = run.stdout.split()
    return float(milliseconds), set(imported)


def test_runtime_is_imported_in_time() -> None:
    """A second of imports is a second of every restart, and of every command that a person types."""
    best = min(import_in_fresh_interpreter()[0] for _ in range(RUNS))
    assert best < IMPORT_MS_MAX, "find out by: python -X importtime -c 'import appbackplane.runtime'"


def test_runtime_does_not_bring_what_it_does_not_need() -> None:
    """Time alone would let these in one by one, each within the limit on a fast machine."""
    _, imported = import_in_fresh_interpreter()
    assert "appbackplane.runtime" in imported
    assert imported.isdisjoint(NOT_FOR_THE_RUNTIME)
