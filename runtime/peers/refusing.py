"""Refusing: an error for the caller that waits for a frame which cannot be decoded.

If a frame holds one message, its first bytes give the kind and the id, however malformed the rest is. A frame that is too
complicated (transport/foreign_frames.py) always holds one. A call is answered with the error. Instead of a malformed reply,
the local process that asked gets the reason: the work is done there, and no other reply will come. All other malformed frames
are only logged.
"""

from __future__ import annotations

from collections.abc import Callable

from appbackplane.transport import codec
from appbackplane.transport.envelope import CALL, REPLY, STATUS, Envelope, status
from appbackplane.transport.errors import InvalidArgument, MalformedFrame
from appbackplane.transport.remote.visitors import is_client


def refuse(
    name: str,
    frame: bytes,
    error: MalformedFrame,
    say: Callable[[str, Envelope, bool], None],
    answered: Callable[[str, Envelope], None],
) -> None:
    """`say`: sends to `name`, the node or client of the frame, as bulk or not. `answered`: takes a node's reply."""
    head = codec.head(frame)
    if head is None:
        return
    kind, id = head
    if kind == CALL:
        say(name, status(id, InvalidArgument(error.message), is_refused=True), False)
    elif (kind == REPLY or kind == STATUS) and not is_client(name):
        answered(name, status(id, InvalidArgument(f"the answer cannot be taken in: {error.message}")))
