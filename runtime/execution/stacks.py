"""Stacks: on a signal, the process writes what each of its threads is doing to its standard error.

Two signals. SIGQUIT, which asks a JVM or a Go program for the same, is answered by the main thread in Python, with all others
at rest: it does no harm at any time (7,000 under load). `FORCED` is answered in C by whichever thread gets it, and so also
where an extension keeps the interpreter to itself or the sentinel hangs; but it reads what others are changing, and under
load the process crashed within some hundreds. It is for those who are killed next. SIGUSR1 and SIGUSR2 stay the users'. A
forked child has neither: there SIGQUIT ends it, as it would any program.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from types import FrameType

from .signals import default_in_children

ASKED = signal.SIGQUIT
#: Not the highest, which valgrind takes, nor among the lower ones, which .NET and others do.
FORCED = signal.SIGRTMAX - 1
_STANDARD_ERROR = 2  # whatever becomes of `sys.stderr`


def write_on_signal() -> None:
    """From now on. Call it in the main thread."""
    signal.signal(ASKED, _write)
    faulthandler.register(FORCED, file=_STANDARD_ERROR, all_threads=True, chain=False)
    default_in_children({ASKED: signal.SIG_DFL})
    os.register_at_fork(after_in_child=_leave_forced)


def _leave_forced() -> None:
    faulthandler.unregister(FORCED)


def _write(number: int, frame: FrameType | None) -> None:
    faulthandler.dump_traceback(file=_STANDARD_ERROR, all_threads=True)
