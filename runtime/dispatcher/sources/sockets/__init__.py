"""Sockets as a source: operations are begun, and end in messages; frames of a foreign protocol become messages.

Handlers use `socket_source.py`. `connection.py` is the life of one stream, `framing.py` (pure) converts bytes to messages,
`completions.py` has the ready-made messages. Only `io_thread.py` waits. Read `socket_source.py` first.
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
