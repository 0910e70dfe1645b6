"""Runtime: decide what runs next in this process, and run it.

Users import what `__all__` lists and nothing deeper. The storeys, from the ground up: `objects/` what users declare,
`scheduling/` what runs next (pure) and `observation/` what happened, `execution/` running it, `backplane.py` the assembly,
`testing/` a whole backplane under a virtual clock. Never here: who starts processes (supervisor), how bytes travel
(transport). Read `objects/action.py` first, then `scheduling/scheduler.py`, `execution/worker.py` and `backplane.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    PeerDown,
    PeerError,
    Unavailable,
    UnknownRoute,
)

if TYPE_CHECKING:
    from .execution.coroutines import checkpoint, should_stop, should_yield
    from .execution.pausing import pause
    from .objects.action import Action, Outcome
    from .objects.app_object import AppObject
    from .objects.component import Component
    from .objects.endpoint import Endpoint, Request
    from .objects.module_state import ModuleState
    from .objects.operation import DeclarationError, every, operation, subscribe
    from .objects.state_machine import StateMachine

__all__ = [
    "Action",
    "AppObject",
    "BackplaneError",
    "Busy",
    "CallerError",
    "Cancelled",
    "Component",
    "DeadlineExceeded",
    "DeclarationError",
    "Endpoint",
    "FailedPrecondition",
    "InternalError",
    "InvalidArgument",
    "ModuleState",
    "NotFound",
    "Outcome",
    "PeerDown",
    "PeerError",
    "Request",
    "StateMachine",
    "Unavailable",
    "UnknownRoute",
    "checkpoint",
    "every",
    "operation",
    "pause",
    "should_stop",
    "should_yield",
    "subscribe",
]

#: Imported when first asked for: `logs` and `top` need of this package what a line and a histogram are, and are typed by
#: somebody who waits.
_LATER = {
    "Action": "objects.action",
    "AppObject": "objects.app_object",
    "Component": "objects.component",
    "DeclarationError": "objects.operation",
    "Endpoint": "objects.endpoint",
    "ModuleState": "objects.module_state",
    "Outcome": "objects.action",
    "Request": "objects.endpoint",
    "StateMachine": "objects.state_machine",
    "checkpoint": "execution.coroutines",
    "every": "objects.operation",
    "operation": "objects.operation",
    "pause": "execution.pausing",
    "should_stop": "execution.coroutines",
    "should_yield": "execution.coroutines",
    "subscribe": "objects.operation",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
