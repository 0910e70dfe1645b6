"""Transport: carry one envelope from here to there, or say why not.

Client programs need `connect` (or `connect_async`) and the errors. Inside, files that decide take frames and times and
return what follows from them (envelope, codec, batching, calls, topics, directory, resolver; exchange and session put
them together for a client), and a few that do touch the world: link (the one that knows ZeroMQ), lifeline, waiting,
client, async_client. Links to other hosts have folders of their own (security, peers, remote). Nothing here knows what a
component is, and nothing is imported from the other folders. Nothing is dropped silently: what is refused raises, what is
lost is counted. Read first: envelope.py, link.py, session.py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    BackplaneError,
    Busy,
    CallerError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    MalformedFrame,
    NotFound,
    PeerDown,
    PeerError,
    SystemNotRunning,
    Unavailable,
    UnknownRoute,
)
from .status import Status

if TYPE_CHECKING:
    from .async_client import AsyncClient, connect_async
    from .async_subscription import AsyncSubscription
    from .client import Client, connect
    from .directory import Directory
    from .handles import PendingCall, Subscription
    from .inbox import Message
    from .retrying import RetryBudget

__all__ = [
    "AsyncClient",
    "AsyncSubscription",
    "BackplaneError",
    "Busy",
    "CallerError",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "Directory",
    "FailedPrecondition",
    "InternalError",
    "InvalidArgument",
    "MalformedFrame",
    "Message",
    "NotFound",
    "PeerDown",
    "PeerError",
    "PendingCall",
    "RetryBudget",
    "Status",
    "Subscription",
    "SystemNotRunning",
    "Unavailable",
    "UnknownRoute",
    "connect",
    "connect_async",
]

#: Imported when first asked for: a backplane needs hardly any of these, and asyncio alone costs 15 ms at every start; a
#: command that asks the supervisor needs none, and msgspec costs it 5 ms.
_LATER = {
    "AsyncClient": "async_client",
    "AsyncSubscription": "async_subscription",
    "Client": "client",
    "Directory": "directory",
    "Message": "inbox",
    "PendingCall": "handles",
    "RetryBudget": "retrying",
    "Subscription": "handles",
    "connect": "client",
    "connect_async": "async_client",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
