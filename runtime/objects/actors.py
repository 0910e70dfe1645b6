"""Actors: how an operation declares that its requests are sorted by category, into queues of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

#: The word for which requests are sorted by their priorities.
BY_PRIORITY: Final = "priority"


class Actors:
    """Sort the requests of a component's operation: `@operation(actors=Actors(by=kind_of, workers={"retail": 1, "bulk": 4}))`.

    by: a function of the component and the arguments of the request, which returns the name of an actor; or "priority".
    workers: by name of the actor, how many of its requests may run or wait for replies at a time, 1 to 1,000. By priority, a
    name is a number: the actor's most urgent priority, so `{0: 2, 4: 1}` are one actor for 0 to 3 and one for all others.

    Operations that name the same `Actors` share them. The key of an actor is its name, and `priority-4` for the number 4.
    The function is called in the thread that received the request, which dispatches nothing else meanwhile: be quick.
    """

    __slots__ = ("by", "workers")

    def __init__(
        self, *, by: Callable[..., str] | Literal["priority"], workers: Mapping[str, int] | Mapping[int, int]
    ) -> None:
        self.by = by
        self.workers = workers


def of_component(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a component as a function of its actor."""

    @functools.wraps(function)
    def call(queue: Any, *arguments: Any) -> Any:
        return function(queue._component, *arguments)

    return call
