"""Awaited: what the outstanding calls of this backplane's objects wait for, when that is no process.

The table of outstanding calls (transport/calls.py) holds pauses and retries beside calls, since all of them end at a time.
"""

from __future__ import annotations

from typing import Final

from appbackplane.transport.calls import OutstandingCalls
from appbackplane.transport.retrying import WAITING

from .method_action import MethodAction

#: Stands for the callee of a pause: the clock.
CLOCK: Final = b"\x00clock"


def callee_of(calls: OutstandingCalls[MethodAction], id: int) -> bytes | None:
    """The peer that holds call `id`; None: it has ended, or is not sent yet, because it waits for a retry."""
    peer = calls.peer_of(id)
    return None if peer == WAITING else peer
