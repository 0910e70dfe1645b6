"""Said: forward the standard error of Spark's processes while the stream runs, but not during their start and end.

Uses a pipe instead of our standard error: a worker that finds its driver gone prints pages, after the program has ended well.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import BinaryIO


class Said:
    """A pipe for Spark's processes, and the thread that reads it."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        #: The end of the pipe for Spark's processes.
        self.file: BinaryIO = os.fdopen(writer, "wb")
        self._lines = os.fdopen(reader, "rb")
        self.is_passed_on = False
        threading.Thread(target=self._read, name="what Spark says", daemon=True).start()

    def close(self) -> None:
        """Close our end; the thread ends when the last process with the other end has ended."""
        self.is_passed_on = False
        self.file.close()

    def _read(self) -> None:
        with self._lines:
            for line in self._lines:
                if self.is_passed_on:
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
