"""Sockets as a source: operations are begun, and end in messages; a foreign protocol's frames become messages of this one.

`socket_source.py` is what handlers use, `connection.py` what becomes of one stream, `framing.py` (pure) how bytes become
messages, `completions.py` the ready-made messages. `io_thread.py` alone waits. Read `socket_source.py` first.
"""

from .completions import Accepted, Closed, Connected, Failed, Listening, Malformed, Received, Written
from .framing import BadFrame, Frame, Framing, Packets
from .socket_source import SocketSource

__all__ = [
    "Accepted",
    "BadFrame",
    "Closed",
    "Connected",
    "Failed",
    "Frame",
    "Framing",
    "Listening",
    "Malformed",
    "Packets",
    "Received",
    "SocketSource",
    "Written",
]
