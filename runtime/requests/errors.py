"""Errors of request kernels; their other errors are those of any call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appbackplane.transport.errors import InternalError

if TYPE_CHECKING:
    from .ledger.element import Element


class RequestFailed(InternalError):
    """A request has rejoined without a result.

    `trace` is the traceback behind it, if known. `__cause__` is the exception, if it was raised in this process.
    """

    def __init__(self, element: Element) -> None:
        super().__init__(f"{element.runnable} {element.id}: {element.error}", trace=element.trace)
        self.element = element
        if element.cause is not None:
            self.__cause__ = element.cause
