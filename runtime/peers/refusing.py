"""Refusing: who waits for a frame that is too complicated to be taken in is told so.

Such a frame holds one message (transport/foreign_frames.py), and how that begins says whose it is: of a call the caller
hears, of an answer the one who asked, here, since the work is done and nobody will say it again. What nobody waits for is in
the log.
"""

from __future__ import annotations

from collections.abc import Callable

from appbackplane.transport import codec
from appbackplane.transport.envelope import CALL, REPLY, STATUS, Envelope, status
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.foreign_frames import TooComplicated
from appbackplane.transport.remote.visitors import is_client


def refuse(
    name: str,
    frame: bytes,
    error: TooComplicated,
    say: Callable[[str, Envelope, bool], None],
    answered: Callable[[str, Envelope], None],
) -> None:
    """`say`: to the node or client `name`, who sent it, as bulk or not. `answered`: that a node has answered."""
    head = codec.head(frame)
    if head is None:
        return
    kind, id = head
    if kind == CALL:
        say(name, status(id, InvalidArgument(error.message), is_refused=True), False)
    elif (kind == REPLY or kind == STATUS) and not is_client(name):
        answered(name, status(id, InvalidArgument(f"the answer cannot be taken in: {error.message}")))
