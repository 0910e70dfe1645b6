"""Urgency: the supervisor runs when it has something to do, also on a machine whose cores are all busy.

Nice counts within one scheduling group only (TRAPS 24), and a supervisor that leads a session is a group by itself: what
is raised is that group's nice. Its answers beside four saturated backplanes on two cores, in three alternating pairs of
runs: p90 151, 31 and 2 ms without, 3, 1 and 2 ms with it. It needs little: a turn when something happens, nothing else.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: As urgent as the most urgent work of most systems ([system] nice).
NICE = -10
_AUTOGROUP = Path("/proc/self/autogroup")


def raise_own(*, is_alone: bool) -> bool:
    """Whether it is more urgent now. `is_alone`: no backplane is in our group, because they have groups of their own.

    Not where others are in it: the jobs of a terminal in which `up` stays, or backplanes of a machine without groups. Where
    it is not permitted, or the kernel has no such groups, all is as it was.
    """
    if not is_alone or os.getsid(0) != os.getpid():
        return False
    with suppress(OSError):
        _AUTOGROUP.write_text(str(NICE))
        return True
    return False
