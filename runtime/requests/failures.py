"""Failures: what a request's owner is told of what its execution raised.

Texts travel; the exception itself is kept where it was raised in the owner's process. Without tracebacks: they would keep all
that its execution had in its hands for as long as anybody has the element, and `trace` says what they said.
"""

from __future__ import annotations

import traceback

from appbackplane.transport.errors import text_of

from .element import Failure
from .errors import RequestFailed

#: Characters of a traceback: deeper ones repeat themselves.
TRACE_MAX = 16 * 1024


def failure_of(error: BaseException) -> Failure:
    """In one line, at length, and its class as data."""
    said = text_of(error).replace("\n", " ")
    name = type(error).__name__
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, RequestFailed) and error.trace:  # where it began, as Python shows what led to what
        trace = f"{error.trace}\nBecause of that:\n\n{trace}"
    trace = text_of(trace, TRACE_MAX)
    return Failure(f"{name}: {said}" if said else name, trace, type_of(error))


def local_failure_of(error: BaseException) -> Failure:
    """`failure_of`, with the exception itself. Nobody raises it further: its traceback is gone."""
    failure = failure_of(error)
    _forget_frames(error)
    # A child's failure leads to the child, and that to its parent, which has this: a circle that only the collector ends.
    return failure._replace(cause=error.element.cause if isinstance(error, RequestFailed) else error)


def type_of(error: BaseException) -> str:
    """Its class, as a traceback names it."""
    cls = type(error)
    name = cls.__qualname__
    return text_of(name if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{name}")


def _forget_frames(error: BaseException) -> None:
    """Of it, and of all that it came from."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        BaseException.with_traceback(each, None)  # users' may be frozen
        left += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
