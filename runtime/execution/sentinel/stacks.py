"""Stacks: on a signal, the process writes the stacks of all its threads to its standard error.

SIGQUIT, as in a JVM or a Go program, is handled by the main thread in Python, with all other threads at rest. It is safe at
any time (7,000 under load). `FORCED` is handled in C by the thread that receives it, so it works even while an extension
keeps the GIL or the sentinel hangs. But it reads data that other threads are changing: under load the process crashed within
some hundreds. Send it only to a process that is killed next. SIGUSR1 and SIGUSR2 are left to users. A forked child handles
neither: there SIGQUIT ends it, like any program.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from functools import partial
from types import FrameType

from .signals import default_in_children

ASKED = signal.SIGQUIT
#: Not the highest, which valgrind uses, nor one of the lower ones, which .NET and others use.
FORCED = signal.SIGRTMAX - 1
_STANDARD_ERROR = 2  # independent of `sys.stderr`, which may be replaced


def write_on_signal() -> None:
    """Install both handlers. Main thread only."""
    signal.signal(ASKED, _write)
    faulthandler.register(FORCED, file=_STANDARD_ERROR, all_threads=True, chain=False)
    default_in_children({ASKED: signal.SIG_DFL})
    os.register_at_fork(after_in_child=partial(faulthandler.unregister, FORCED))


def _write(number: int, frame: FrameType | None) -> None:
    faulthandler.dump_traceback(file=_STANDARD_ERROR, all_threads=True)
