"""Failures: translates an error that an operation raised into the error for its caller.

Errors of `transport/errors.py` that the operation itself raised are sent unchanged. An error of a call that the operation made
is not its caller's fault, so it is translated (gRPC's advice on propagating statuses): a dead callee makes this operation
unavailable, and a wrong argument to the callee is a bug of this operation. A refusal on behalf of a user is told without what
was refused, which that user may not know of. Any other error becomes INTERNAL, with its type and message; the remote traceback
is sent in debug only.
"""

from __future__ import annotations

import traceback

from appbackplane.transport.errors import (
    BackplaneError,
    CallerError,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    PeerDown,
    PermissionDenied,
    Unavailable,
    sound,
    text_of,
)

from ...objects.action import Action
from .method_action import MethodAction


def as_error(action: Action, error: BaseException, *, is_debug: bool) -> BackplaneError:
    """The error to send to the caller of `action`, which raised `error`."""
    said: BaseException | str = error
    if isinstance(error, BackplaneError):
        if not (isinstance(action, MethodAction) and error is action.received):
            return sound(error)
        if isinstance(error, PeerDown):
            return Unavailable(f"{action.name}: {text_of(error.message)}")
        if not isinstance(error, CallerError) or isinstance(error, (DeadlineExceeded, Cancelled)):
            return error
        if isinstance(error, PermissionDenied) and action.principal is not None:
            # The refusal names what the caller may not know of; it is in the log of this backplane, as a bug is.
            refused = (
                f"a call that it makes on behalf of {action.principal} is refused: the log of its backplane has more"
            )
            return InternalError(f"{action.name}: {refused}")
        said = error.message
    trace = "".join(traceback.format_exception(error)) if is_debug else None
    return InternalError(f"{action.name}: {type(error).__name__}: {text_of(said)}", trace=trace)


def is_own_bug(action: Action, error: BaseException, told: BackplaneError) -> bool:
    """Whether the caller gets INTERNAL for a bug of this very operation, whose traceback must then be logged here.

    An INTERNAL from a callee is in the callee's log. Actions that are not methods report their own errors.
    """
    is_own = told is not error or (isinstance(action, MethodAction) and error is not action.received)
    return is_own and isinstance(told, InternalError)
