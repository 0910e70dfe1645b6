"""Said: what Spark's processes say on standard error while the stream runs, passed on; not what they say as they start or end.

A pipe instead of ours, since a worker that finds its driver gone complains of it in pages, after the program has ended well.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import BinaryIO


class Said:
    """A pipe, and a thread that reads it."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        #: For the processes.
        self.file: BinaryIO = os.fdopen(writer, "wb")
        self._lines = os.fdopen(reader, "rb")
        self.is_passed_on = False
        threading.Thread(target=self._read, name="what Spark says", daemon=True).start()

    def close(self) -> None:
        """Of ours; the thread ends when the last process that has the other end has."""
        self.is_passed_on = False
        self.file.close()

    def _read(self) -> None:
        with self._lines:
            for line in self._lines:
                if self.is_passed_on:
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()
