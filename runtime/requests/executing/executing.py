"""Executing: a worker of the kernel as an object, and a coroutine's request as an operation of it.

Kept apart from threads.py, which is compiled: no other code recognises a coroutine of mypyc's, and objects are not compiled.
"""

from __future__ import annotations

from typing import Any

from ...objects.app_object import AppObject
from ..contexts.context import Context
from ..ledger.element import Element, Failure
from ..runnable import RunnableSpec
from .failures import local_failure_of


class KernelWorker(AppObject):
    """One worker of the kernel: it executes one request at a time (law 1)."""


async def execute(
    worker: AppObject, spec: RunnableSpec, element: Element, context: Context
) -> tuple[Any, Failure | None]:
    """Its result, or its failure: that is for the request's owner, and not for the log."""
    result: Any = None
    failure: Failure | None = None
    try:
        result = await spec.execute(element.request, context)
    except GeneratorExit:  # the coroutine is dropped, perhaps by the garbage collector: nobody gets its outcome
        raise
    except BaseException as error:  # the edge: sys.exit() in a request ends the request, not the worker
        failure = local_failure_of(error)
    # Here, and not in `on_end`: that runs with the lead, and this may close a user's handles.
    context.resources.request_ended()
    return result, failure
