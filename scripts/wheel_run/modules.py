"""Import every compiled module of the installed package; exit 1 where one is interpreted. The test of [tool.cibuildwheel]."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Says how many there are."""
    files = runpy.run_path(str(ROOT / "setup.py"))["compiled_modules"]()
    names = [file.removesuffix(".py").replace("/", ".") for file in files]
    interpreted = [name for name in names if (importlib.import_module(name).__file__ or "").endswith(".py")]
    if interpreted:
        sys.exit(f"appbackplane: not compiled: {', '.join(interpreted)}")
    print(f"{len(names)} compiled modules imported, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
