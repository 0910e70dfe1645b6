"""Batch: how an operation declares that it serves several requests at once, and what it gets and returns then.

Each parameter is annotated as a list; each call gives one element of each. `@operation(batch=Batch(max=256, wait_ms=5))`
`def store(self, row: list[Row]) -> list[int]` is called as `call("index.store", row=row)`, and each caller gets its own number.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin

import msgspec

#: More requests would keep the object from all other work for long, and their replies in memory.
BATCH_MAX = 10_000
#: A longer wait is no batch but a timer: use `@every`. A drain waits for it, too.
WAIT_MAX_MS = 1_000


class Batch(msgspec.Struct, frozen=True):
    """Serve up to `max` queued requests of an operation by one call of its method, which waits for more for at most `wait_ms`.

    `max`: 1 to 10,000. `wait_ms`: milliseconds from the arrival of the first request, at most 1,000; 0: it takes those that
    are queued.
    """

    max: int
    wait_ms: float = 0


def batched_hints(function: Callable[..., Any], hints: dict[str, Any]) -> dict[str, Any]:
    """The annotations that a single request is checked against. Raises TypeError for a method that cannot serve a batch."""
    name = function.__qualname__
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        raise TypeError(f"{name} serves batches, and cannot await or yield: make it a plain `def` operation")
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if not parameters:
        raise TypeError(f"{name} serves batches, and has no parameter: it would not know of how many requests")
    single = {"return": _element(hints.get("return", Any))}
    for parameter in parameters:
        annotation = hints.get(parameter.name, Any)
        if annotation is not list and get_origin(annotation) is not list:
            shown = inspect.formatannotation(annotation)
            raise TypeError(
                f"{name} serves batches, so it gets a list for each parameter: annotate {parameter.name!r} as "
                f"list[{shown}], not as {shown}"
            )
        if parameter.default is not parameter.empty:
            raise TypeError(f"{name} serves batches: its parameter {parameter.name!r} takes no default")
        single[parameter.name] = _element(annotation)
    return single


def single_signature(function: Callable[..., Any], hints: dict[str, Any]) -> inspect.Signature:
    """The signature for a caller, who gives one element of each list and gets one result."""
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=hints[each.name]) if each.name in hints else each
        for each in signature.parameters.values()
    ]
    result = signature.empty if signature.return_annotation is signature.empty else hints["return"]
    return signature.replace(parameters=parameters, return_annotation=result)


def serves_one(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function`, called for a single request."""

    @functools.wraps(function)
    def call(self: Any, *values: Any) -> Any:
        (result,) = results_of(name, function(self, *[[value] for value in values]), 1)
        if isinstance(result, BaseException):
            raise result
        return result

    return call


def results_of(name: str, returned: Any, count: int) -> Sequence[Any]:
    """One result for each request of a batch. Raises TypeError if the method returned another number of them."""
    if returned is None:
        return [None] * count
    if not isinstance(returned, (list, tuple)):
        raise TypeError(f"{name} returned a {type(returned).__name__} for a batch of {count}: expected a list, or None")
    if len(returned) != count:
        raise TypeError(
            f"{name} returned {len(returned)} results for a batch of {count}: expected one for each request"
        )
    return returned


def _element(annotation: Any) -> Any:
    if annotation is None or annotation is type(None):
        return None
    return next(iter(get_args(annotation)), Any) if get_origin(annotation) is list else Any
