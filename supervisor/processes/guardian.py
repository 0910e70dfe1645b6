"""Guardian: a small process beside the supervisor that ends what is left of the system when the supervisor is killed.

A backplane that is well sees its supervisor's end by itself and goes in order, within `GRACE_NS`. One that is stopped by a
signal, or in C code that keeps the GIL, sees nothing and can only be killed; one that is throttled would take a second to
die; its own children know nothing of us. So somebody else must be there who waits for nothing but this. Kernel help
(PDEATHSIG) kills at once, without grace, and not those children.

It holds the backplanes' lifeline open, with the supervisor, and lets go of it once it knows who there is.
Its standard input is a pipe that only the supervisor holds open. First comes the mark by which leftovers are known, which a
command line would tell every user of the machine; end of file without the word `DISMISSED` means that the supervisor was
killed. 17 MB, half of them shared, and 20 ms of CPU at the start; nothing while it waits. Killed itself, it is started
again (guarding.py); killed together with the supervisor, it leaves the unwell ones to the next `up`.
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

#: What an orderly supervisor says at its end.
DISMISSED = b"."
#: How long a backplane without a supervisor may take over what it runs: less than runtime/process.py allows itself would cut
#: that short, and a second is what is promised for all of it (kill, reap and a busy machine come on top).
GRACE_NS = 500_000_000


def main() -> int:
    """`guardian SYSTEM PID NICE LIFELINE CGROUP`; the last is empty where there is none."""
    system, pid, nice, lifeline, cgroup = sys.argv[1:]
    # Ctrl-C, a terminal that goes and an order to all are the supervisor's to act on; until it has, it is guarded.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    with suppress(PermissionError):  # as urgent as the most urgent that it is to end, or it might wait for them
        os.setpriority(os.PRIO_PROCESS, 0, int(nice))
    mark, last = _heard_on(0)
    if last == DISMISSED:
        return 0
    if cgroup:
        cgroups.lift(Path(cgroup))
    until_ns = time.monotonic_ns() + GRACE_NS
    # A backplane that goes takes with it the knowledge of whose its children are: first hold all of them.
    ended = leftovers.end([mark], GRACE_NS, lambda: os.close(int(lifeline)))
    # One that was between fork and exec had no mark yet when we looked first.
    time.sleep(max(0.0, (until_ns - time.monotonic_ns()) / 1e9))
    late = leftovers.end([mark], 0)
    _say(f"appbackplane: the supervisor of {system!r} (pid {pid}) was killed; {ended + late}\n")
    return 0


def _heard_on(fd: int) -> tuple[str, bytes]:
    """The mark, and what was said after it; waits for the end."""
    said = b""
    while more := os.read(fd, 64):
        said += more
    mark, _, last = said.partition(b"\n")
    return mark.decode(), last


def _say(line: str) -> None:
    """If somebody reads what the supervisor printed."""
    ready = select.poll()
    ready.register(2, select.POLLOUT)
    if any(what & select.POLLOUT for _, what in ready.poll(0)):
        with suppress(OSError):
            os.write(2, line.encode())


if __name__ == "__main__":
    os._exit(main())
