"""A component that tells how its process looks, from inside and outside."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from appbackplane.runtime import Component, operation


class Mirror(Component):
    """Its own process."""

    @operation()
    def look(self) -> dict[str, Any]:
        """All that a process has from its start, but for numbers that differ each time."""
        status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
        shown = Path("/proc/self/environ").read_bytes().rstrip(b"\0").split(b"\0")
        return {
            "folder": str(Path.cwd()),
            "environment": sorted(os.environ),
            "shown environment": sorted(word.partition(b"=")[0].decode() for word in shown),
            "is shown as it is": all(
                os.environb[name] == value for name, _, value in (word.partition(b"=") for word in shown)
            ),
            "title": Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode(),
            "is child of its session's leader": os.getppid() == os.getsid(0),
            "leads its group": os.getpgid(0) == os.getpid(),
            "signals": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt")],
            "interrupt": getattr(signal.getsignal(signal.SIGINT), "__qualname__", "default"),
            "umask": status["Umask"],
            "limits": Path("/proc/self/limits").read_text(),
            "streams": [os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in range(3)],
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
            "path": sys.path,
            "main": sys.modules["__main__"].__spec__.name if sys.modules["__main__"].__spec__ else "",
            "output": [(each.encoding, each.errors, each.write_through) for each in (sys.stdout, sys.stderr)],
        }
