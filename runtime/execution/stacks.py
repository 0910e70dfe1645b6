"""Stacks: on a signal, the process writes what each of its threads is doing to its standard error, and goes on.

Written by a signal handler in C, so that it also works while an extension keeps the interpreter to itself, the sentinel hangs,
or everybody waits for a lock. SIGQUIT, because that is what asks a JVM or a Go program for the same; here nothing else uses
it, and what users do with SIGUSR1 and SIGUSR2 stays theirs. Costs nothing until it is asked for.
"""

from __future__ import annotations

import faulthandler
import signal

STACKS_SIGNAL = signal.SIGQUIT


def write_on_signal() -> None:
    """From now on. At descriptor 2, whatever becomes of `sys.stderr`."""
    faulthandler.register(STACKS_SIGNAL, file=2, all_threads=True, chain=False)
