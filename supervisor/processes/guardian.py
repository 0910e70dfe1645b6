"""Guardian: a small process beside the supervisor that ends the rest of the system when the supervisor is killed.

A healthy backplane sees its supervisor's end by itself and shuts down in order, within `GRACE_NS`. One that is stopped by a
signal, or in C code that holds the GIL, sees nothing and can only be killed; a throttled one would take a second to die; its
own children know nothing of us. So a process is needed that waits for nothing but this. Kernel help (PDEATHSIG) kills at
once, without grace, and not those children.

It holds the backplanes' lifeline open, with the supervisor, and closes it once it has found all processes. Standard input is
a pipe that only the supervisor holds open. The mark by which leftovers are known comes first: a command line would show it to
every user of the machine. End of file without `DISMISSED` means that the supervisor was killed. 17 MB, half of them shared,
and 20 ms of CPU at the start; nothing while it waits. Killed itself, it is started again (guarding.py); killed together with
the supervisor, it leaves hung backplanes to the next `up`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from . import cgroups, leftovers

#: Sent by a supervisor that ends in order.
DISMISSED = b"."
#: Grace of a backplane without a supervisor for its running actions. Less would cut short the time that runtime/process.py
#: allows itself, and the promise is a second for all of it (kill, reap and a busy machine come on top).
GRACE_NS = 500_000_000


def main() -> int:
    """`guardian SYSTEM PID NICE LIFELINE CGROUP`; the last is empty where there is none."""
    system, pid, nice, lifeline, cgroup = sys.argv[1:]
    # Ctrl-C, a closed terminal and a signal to the whole group are handled by the supervisor; until then it is guarded.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    with suppress(PermissionError):  # as urgent as the most urgent process that it is to end, or it might wait for it
        os.setpriority(os.PRIO_PROCESS, 0, int(nice))
    mark, last = _heard_on(0)
    if last == DISMISSED:
        return 0
    if cgroup:
        cgroups.lift(Path(cgroup))
    until_ns = time.monotonic_ns() + GRACE_NS
    # A backplane's end would hide whose its children are: first hold all of them.
    ended = leftovers.end([mark], GRACE_NS, lambda: os.close(int(lifeline)))
    # A process between fork and exec had no mark yet in the first search.
    time.sleep(max(0.0, (until_ns - time.monotonic_ns()) / 1e9))
    late = leftovers.end([mark], 0)
    _say(f"appbackplane: the supervisor of {system!r} (pid {pid}) was killed; {ended + late}\n")
    return 0


def _heard_on(fd: int) -> tuple[str, bytes]:
    """The mark, and the bytes that came after it; waits for the end of file."""
    said = b""
    while more := os.read(fd, 64):
        said += more
    mark, _, last = said.partition(b"\n")
    return mark.decode(), last


def _say(line: str) -> None:
    """Write to standard error, if somebody still reads it."""
    ready = select.poll()
    ready.register(2, select.POLLOUT)
    if any(what & select.POLLOUT for _, what in ready.poll(0)):
        with suppress(OSError):
            os.write(2, line.encode())


if __name__ == "__main__":
    os._exit(main())
