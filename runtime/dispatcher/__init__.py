"""Dispatcher: delivers messages to handlers, with protected data and without deadlock (seed 003), on top of the scheduler.

Handlers are plain functions. Their shared data are under protectors and reach them as arguments, locked. No delivery waits
for a lock while it holds one of higher rank. This package has no threads for handlers and no queue beside the scheduler's;
only eavesdroppers have both, because no message waits for them (`eavesdroppers.py`).
Read `message.py` and `protectors.py` first (for users), then `registration.py`, `delivery.py` (one message's way) and
`locking.py` (the proof that no delivery waits for ever).
"""

from .accessor import Accessor, SelectiveAccessor
from .argument import ActiveObject
from .dispatcher import Dispatcher
from .errors import HandlerFailed, NoHandler, RegistrationError
from .handles import Handle
from .message import Message, Messages, message
from .observed import Observed, changes_of, on_change
from .protectors import READ, DataProtector, Read, SelectiveProtector
from .registrations import Registrations
from .sending import call_message, cast_message

__all__ = [
    "READ",
    "Accessor",
    "ActiveObject",
    "DataProtector",
    "Dispatcher",
    "Handle",
    "HandlerFailed",
    "Message",
    "Messages",
    "NoHandler",
    "Observed",
    "Read",
    "RegistrationError",
    "Registrations",
    "SelectiveAccessor",
    "SelectiveProtector",
    "call_message",
    "cast_message",
    "changes_of",
    "message",
    "on_change",
]
