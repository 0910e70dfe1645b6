"""`scripts/wheel --try`: install a wheel where there is nothing, and wait for README's first program to be answered.

The environment is empty and in a temporary folder; pip sees no index but a folder of wheels; PATH leads to that environment
alone, so that no compiler is found. What is printed is the time of the machine as it is: CPU time stands beside it.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

BLOCK = re.compile(r"^```(?:python|toml)\n# (?P<name>hotel\.\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ANSWER = "Hello, Ada!"


def main() -> None:
    """Arguments: a folder of wheels, the wheel, README.md."""
    offline, wheel, readme = (Path(word).resolve() for word in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="ab-") as name:  # short: socket paths are
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        for block in BLOCK.finditer(readme.read_text(encoding="utf-8")):
            (folder / block["name"]).write_text(block["text"], encoding="utf-8")
        sys.exit(attempt(folder, offline, wheel))


def attempt(folder: Path, offline: Path, wheel: Path) -> int:
    """One installation and one run. The exit code."""
    environment = environment_in(folder)
    python = str(folder / "venv/bin/python")
    began_s, began_cpu_s = time.monotonic(), cpu_s()
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(offline), str(wheel)]
    if subprocess.run(install, env=environment, cwd=folder, check=False).returncode:
        return fail("pip could not install it: the reason is above")
    installed_s, installed_cpu_s = time.monotonic() - began_s, cpu_s() - began_cpu_s
    with subprocess.Popen(
        [python, "hotel.py"], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        line = next((line for line in program.stdout if line.startswith(ANSWER)), "")
        answered_s = time.monotonic() - began_s
        print(program.stdout.read(), end="")
    if not line or program.returncode:
        return fail(f"README's hotel.py gave no answer (exit code {program.returncode}): what it said is above")
    print(line, end="")
    print(f"installed after {installed_s:.1f} s ({installed_cpu_s:.1f} s of CPU)")
    print(f"first call answered after {answered_s:.1f} s ({cpu_s() - began_cpu_s:.1f} s of CPU)")
    return 0


def environment_in(folder: Path) -> dict[str, str]:
    """Nothing of ours but what a locale or a proxy may need: no compiler on PATH, no settings of pip."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "PYTHON", "CC", "APPBACKPLANE_"))
    }
    return kept | {
        "PATH": str(folder / "venv/bin"),
        "PIP_CONFIG_FILE": os.devnull,
        "PYTHONUNBUFFERED": "1",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_STATE_HOME": str(folder),
    }


def cpu_s() -> float:
    """CPU time of the processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fail(why: str) -> int:
    """One line, and the exit code."""
    print(f"appbackplane: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
