"""`pipeline stream` in a process of its own, to be killed: python driver.py RUN_DIR CHECKPOINT WINDOW_MS."""

from __future__ import annotations

import sys
from pathlib import Path

from appbackplane.spark.stream.program import stream

if __name__ == "__main__":
    stream(
        Path(sys.argv[1]),
        "local[2]",
        checkpoint=Path(sys.argv[2]),
        window_ns=int(sys.argv[3]) * 1_000_000,
        lateness_ns=1_000_000_000,
        as_json=True,
    )
