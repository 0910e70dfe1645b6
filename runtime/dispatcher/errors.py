"""Errors of the dispatcher: refused registrations, and failures that its users meet at run time."""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport.errors import FailedPrecondition, InternalError, text_of

from ..objects.operation import DeclarationError


class RegistrationError(DeclarationError):
    """A registration is refused, mostly because a handler and its arguments do not fit. Names the parameter and a remedy."""


class NoHandler(FailedPrecondition):
    """A message was posted that has no registered handler."""

    def __init__(self, message: str, dispatcher: str) -> None:
        super().__init__(f"{message} has no handler in {dispatcher}: register one in setup()")


class HandlerFailed(InternalError):
    """A handler raised. The other handlers of its message have run all the same."""

    def __init__(self, message: str, who: str, error: BaseException, data: Sequence[str]) -> None:
        left = f"; its changes to {', '.join(data)} remain" if data else ""
        super().__init__(f"{message}: {who} raised {type(error).__name__}: {text_of(error)}{left}")
        self.data = tuple(data)
