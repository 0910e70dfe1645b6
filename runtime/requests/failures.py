"""Failures: what a request's owner is told of what its execution raised."""

from __future__ import annotations

import traceback

from appbackplane.transport.errors import text_of

from .element import Failure

#: Characters of a traceback: deeper ones repeat themselves.
TRACE_MAX = 16 * 1024


def failure_of(error: BaseException) -> Failure:
    """In one line, and at length."""
    said = text_of(error).replace("\n", " ")
    name = type(error).__name__
    trace = text_of("".join(traceback.format_exception(error)), TRACE_MAX)
    return Failure(f"{name}: {said}" if said else name, trace)
