"""Errors of the dispatcher: what is wrong at registration, and what its users meet at run time."""

from __future__ import annotations

from collections.abc import Sequence

from appbackplane.transport.errors import FailedPrecondition, InternalError, text_of

from ..objects.operation import DeclarationError


class RegistrationError(DeclarationError):
    """A handler and what it is registered with do not fit; says which parameter, and what to write instead."""


class NoHandler(FailedPrecondition):
    """A message was posted for which nothing is registered."""

    def __init__(self, message: str, dispatcher: str) -> None:
        super().__init__(f"{message} has no handler in {dispatcher}: register one in setup()")


class HandlerFailed(InternalError):
    """A handler raised. The other handlers of its message have run all the same."""

    def __init__(self, message: str, who: str, error: BaseException, data: Sequence[str]) -> None:
        left = f"; what it had changed stays as it left it: {', '.join(data)}" if data else ""
        super().__init__(f"{message}: {who} raised {type(error).__name__}: {text_of(error)}{left}")
        self.data = tuple(data)
