"""Urgency: lets the supervisor run at once when it has work, also on a machine whose cores are all busy.

Nice counts within one scheduling group only (TRAPS 24), and a supervisor that leads a session is a group by itself: that
group's nice is raised. Its replies beside four saturated backplanes on two cores, in three alternating pairs of runs: p90
151, 31 and 2 ms without, 3, 1 and 2 ms with it. It needs little CPU: an iteration when something happens, nothing else.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: As urgent as the most urgent work of most systems ([system] nice).
NICE = -10
_AUTOGROUP = Path("/proc/self/autogroup")


def raise_own(*, is_alone: bool) -> bool:
    """Raise the nice of our scheduling group. False: not done. `is_alone`: every backplane has a group of its own.

    Not done where others are in our group: the jobs of a terminal in which `up` stays, or backplanes of a machine without
    groups. Without permission, or such groups in the kernel, nothing changes.
    """
    if not is_alone or os.getsid(0) != os.getpid():
        return False
    with suppress(OSError):
        _AUTOGROUP.write_text(str(NICE))
        return True
    return False
