"""Transport: carry one envelope from one process to another, or report why that failed.

Client programs need `connect` (or `connect_async`) and the errors. Most files only decide: they take frames and times and
return the consequences (envelope, codec, batching, calls, topics, directory, resolver; caller_core and session combine them
for a client). A few touch the world: link (ZeroMQ between processes of this host), lifeline, waiting, client, async_client.
Links to other hosts have folders of their own (security, peers, remote). This package knows nothing of components and imports
nothing from the other folders. Nothing is dropped silently: refusals raise, losses are counted. Read first: envelope.py,
link.py, caller_core.py, session.py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .address import Address
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
    OperandFailed,
    PeerDown,
    PeerError,
    PermissionDenied,
    Status,
    SystemNotRunning,
    Unavailable,
    UnknownRoute,
)

if TYPE_CHECKING:
    from .async_client import AsyncClient, connect_async
    from .async_stream import AsyncItemStream
    from .async_subscription import AsyncSubscription
    from .client import Client, connect
    from .directory import Directory
    from .handles import ItemStream, PendingCall, Subscription
    from .inbox import Message
    from .promise import Promise
    from .retrying import RetryBudget
    from .streamed import stream

__all__ = [
    "Address",
    "AsyncClient",
    "AsyncItemStream",
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
    "ItemStream",
    "MalformedFrame",
    "Message",
    "NotFound",
    "OperandFailed",
    "PeerDown",
    "PeerError",
    "PendingCall",
    "PermissionDenied",
    "Promise",
    "RetryBudget",
    "Status",
    "Subscription",
    "SystemNotRunning",
    "Unavailable",
    "UnknownRoute",
    "connect",
    "connect_async",
    "stream",
]

#: Imported on first use: a backplane needs hardly any of these, and asyncio alone costs 15 ms at every start. A command that
#: asks the supervisor needs none, and msgspec would cost it 5 ms.
_LATER = {
    "async_client": ("AsyncClient", "connect_async"),
    "async_stream": ("AsyncItemStream",),
    "async_subscription": ("AsyncSubscription",),
    "client": ("Client", "connect"),
    "directory": ("Directory",),
    "handles": ("ItemStream", "PendingCall", "Subscription"),
    "inbox": ("Message",),
    "promise": ("Promise",),
    "retrying": ("RetryBudget",),
    "streamed": ("stream",),
}


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _LATER.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
