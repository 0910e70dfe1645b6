"""Status: the code in which a call ends when it does not end in a reply.

Names and numbers follow gRPC, because every reader of a dashboard knows them. PEER_DOWN is ours (gRPC folds it into
UNAVAILABLE): the process that held the call has died, so it is unknown whether the call ran. Numbers travel on the wire and
never change their meaning.
"""

from enum import IntEnum


class Status(IntEnum):
    """How a call ended. Source: gRPC status codes; PEER_DOWN is this project's (DESIGN section 6)."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    INTERNAL = 13
    UNAVAILABLE = 14
    PEER_DOWN = 100
