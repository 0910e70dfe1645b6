"""Failures: the report of an exception in a request's execution, for its owner.

Texts travel; the exception itself is kept if it was raised in the owner's process. Its tracebacks are removed: they would keep
alive all objects of the execution for as long as anybody has the element, and `trace` has their text.
"""

from __future__ import annotations

import traceback

from appbackplane.transport.errors import text_of

from ..errors import RequestFailed
from ..ledger.element import Failure

#: Characters of a traceback, at most: deeper ones repeat themselves.
TRACE_MAX = 16 * 1024


def failure_of(error: BaseException) -> Failure:
    """The error in one line, its traceback, and its class as data."""
    said = text_of(error).replace("\n", " ")
    name = type(error).__name__
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, RequestFailed) and error.trace:  # the child's traceback first, as Python shows a cause
        trace = f"{error.trace}\nBecause of that:\n\n{trace}"
    trace = text_of(trace, TRACE_MAX)
    return Failure(f"{name}: {said}" if said else name, trace, type_of(error))


def local_failure_of(error: BaseException) -> Failure:
    """`failure_of`, with the exception itself. Its traceback is removed, so nobody should raise it further."""
    failure = failure_of(error)
    _forget_frames(error)
    # `error` itself would be a cycle: a child's failure refers to the child, the child to its parent, the parent to this.
    return failure._replace(cause=error.element.cause if isinstance(error, RequestFailed) else error)


def type_of(error: BaseException) -> str:
    """Class of the error, as a traceback names it."""
    cls = type(error)
    name = cls.__qualname__
    return text_of(name if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{name}")


def _forget_frames(error: BaseException) -> None:
    """Remove the tracebacks of an error and of all its causes."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        BaseException.with_traceback(each, None)  # users' exceptions may be frozen
        left += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
