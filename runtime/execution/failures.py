"""Failures: what a caller is told of an error that an operation let out.

The errors of `transport/errors.py` that the operation raised itself travel as they are. One that came out of a call the
operation made is not its caller's fault: a callee that died means this operation is unavailable, and an argument it got
wrong is a bug here, so these are translated (gRPC's advice on propagating statuses). All else is INTERNAL, with its type
and message; the remote traceback travels in debug only.
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
    Unavailable,
    text_of,
)

from ..objects.action import Action
from .method_action import MethodAction


def as_error(action: Action, error: BaseException, *, is_debug: bool) -> BackplaneError:
    """What the caller of `action` is told."""
    if isinstance(error, BackplaneError):
        if not (isinstance(action, MethodAction) and error is action.received):
            return error
        if isinstance(error, PeerDown):
            return Unavailable(f"{action.name}: {text_of(error.message)}")
        if not isinstance(error, CallerError) or isinstance(error, (DeadlineExceeded, Cancelled)):
            return error
        return InternalError(
            f"{action.name}: {type(error).__name__}: {text_of(error.message)}", trace=_trace(error, is_debug=is_debug)
        )
    message = f"{action.name}: {type(error).__name__}: {text_of(error)}"
    return InternalError(message, trace=_trace(error, is_debug=is_debug))


def is_own_bug(action: Action, error: BaseException, told: BackplaneError) -> bool:
    """Whether a caller is told INTERNAL for what this operation did: its traceback is then in this log or nowhere.

    An INTERNAL that came from a callee is in that one's log. Actions that are no methods report for themselves.
    """
    if told is not error:
        return isinstance(told, InternalError)
    return isinstance(told, InternalError) and isinstance(action, MethodAction) and error is not action.received


def _trace(error: BaseException, *, is_debug: bool) -> str | None:
    return "".join(traceback.format_exception(error)) if is_debug else None
