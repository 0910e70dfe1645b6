"""Runtime: schedules and runs the actions of one backplane process.

Users import only the names in `__all__`. The layers, bottom up: `objects/` holds the classes that users declare,
`scheduling/` chooses the next action (pure), `observation/` keeps figures and records, `execution/` runs the actions.
`backplane.py` assembles one process; `testing/` runs a whole backplane under a virtual clock. Not here: starting processes
(supervisor) and sending bytes (transport). Read `objects/action.py`, `scheduling/scheduler.py`, `execution/workers/worker.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from appbackplane.transport.address import Address
from appbackplane.transport.errors import (
    BackplaneError,
    Busy,
    CallerError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    NotFound,
    OperandFailed,
    PeerDown,
    PeerError,
    PermissionDenied,
    Unavailable,
    UnknownRoute,
)

if TYPE_CHECKING:
    from .execution.actions.coroutines import checkpoint, should_stop, should_yield
    from .execution.workers.component_lock import ComponentLock
    from .execution.workers.replies import Replies
    from .execution.workers.user_functions import change_priority, current, pause
    from .flows.declaring import sink, source, stage
    from .flows.flow import Flow
    from .objects.action import Action, Outcome
    from .objects.actors import Actors
    from .objects.adaptive import Adaptive
    from .objects.app_object import AppObject
    from .objects.batch import Batch
    from .objects.component import Component
    from .objects.endpoint import Endpoint, Request
    from .objects.module_state import ModuleState
    from .objects.monitor import EndNotice, Monitor
    from .objects.operation import DeclarationError, every, operation, subscribe
    from .objects.state_machine import StateMachine

__all__ = [
    "Action",
    "Actors",
    "Adaptive",
    "Address",
    "AppObject",
    "BackplaneError",
    "Batch",
    "Busy",
    "CallerError",
    "Cancelled",
    "Component",
    "ComponentLock",
    "DeadlineExceeded",
    "DeclarationError",
    "EndNotice",
    "Endpoint",
    "FailedPrecondition",
    "Flow",
    "InternalError",
    "InvalidArgument",
    "ModuleState",
    "Monitor",
    "NotFound",
    "OperandFailed",
    "Outcome",
    "PeerDown",
    "PeerError",
    "PermissionDenied",
    "Replies",
    "Request",
    "StateMachine",
    "Unavailable",
    "UnknownRoute",
    "change_priority",
    "checkpoint",
    "current",
    "every",
    "operation",
    "pause",
    "should_stop",
    "should_yield",
    "sink",
    "source",
    "stage",
    "subscribe",
]

#: Imported on first use. The commands `logs` and `top` need only the log line and the histogram of this package, and a
#: person waits for them.
_LATER = {
    "execution.actions.coroutines": ("checkpoint", "should_stop", "should_yield"),
    "execution.workers.component_lock": ("ComponentLock",),
    "execution.workers.replies": ("Replies",),
    "execution.workers.user_functions": ("change_priority", "current", "pause"),
    "flows.declaring": ("sink", "source", "stage"),
    "flows.flow": ("Flow",),
    "objects.action": ("Action", "Outcome"),
    "objects.actors": ("Actors",),
    "objects.adaptive": ("Adaptive",),
    "objects.batch": ("Batch",),
    "objects.app_object": ("AppObject",),
    "objects.component": ("Component",),
    "objects.endpoint": ("Endpoint", "Request"),
    "objects.module_state": ("ModuleState",),
    "objects.monitor": ("EndNotice", "Monitor"),
    "objects.operation": ("DeclarationError", "every", "operation", "subscribe"),
    "objects.state_machine": ("StateMachine",),
}


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _LATER.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
