"""Actor table: sorts the requests of an operation by category, into several queues of its component.

"Parallelism is added by adding an Actor per some sort of category of work … another queue can preempt a lower priority queue"
(seed 004, "Multiple Actor Model"). An actor is an object without state: a queue of a component's operations, of which at most
so many requests run or wait for replies at a time (twins.py). Within an actor, requests begin in the order of arrival; between
actors there is no order. The receiving thread sorts (law 7), under the lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appbackplane.transport.errors import BackplaneError, InternalError, NotFound, text_of

from .actors import BY_PRIORITY, Actors
from .app_object import AppObject

if TYPE_CHECKING:
    from .component import Component


class Actor(AppObject):
    """One queue of a component's operations. Its requests run the component's methods."""

    def __init__(self, component: Component, workers: int) -> None:
        self.concurrency = workers
        self.lends = component.lends


class ActorTable:
    """The actors of one declaration in one component, and the choice among them."""

    def __init__(self, declared: Actors, component: Component) -> None:
        self._component = component
        self._by = declared.by
        #: By category.
        self._actors = {name: Actor(component, workers) for name, workers in declared.workers.items()}
        #: By priority: where each actor begins, the least urgent first.
        self.firsts = sorted((name for name in self._actors if isinstance(name, int)), reverse=True)

    @property
    def by_key(self) -> dict[str, Actor]:
        """The actors by key, in the order of declaration."""
        return {name if isinstance(name, str) else f"priority-{name}": actor for name, actor in self._actors.items()}

    def has(self, object: AppObject) -> bool:
        """Whether `object` is one of these actors."""
        return any(actor is object for actor in self._actors.values())

    def choose(self, route: str, arguments: tuple[Any, ...], priority: int) -> Actor:
        """The actor for a request. Raises `NotFound` if there is none for its category, and `InternalError` if the function
        fails; a `BackplaneError` of the function refuses the request.
        """
        by: Any = self._by
        if by == BY_PRIORITY:
            return self._actors[next(first for first in self.firsts if first <= priority)]
        try:
            category = by(self._component, *arguments)
        except BackplaneError:
            raise
        except Exception as error:  # the edge: the function is a user's
            problem = f"{type(error).__name__}: {text_of(error)}"
            name = getattr(by, "__name__", "its function")
            raise InternalError(f"{route}: {name} could not sort the request: {problem}") from error
        found = self._actors.get(category) if isinstance(category, str) else None
        if found is None:
            known = ", ".join(repr(name) for name in self._actors)
            raise NotFound(f"{route}: no actor for the category {category!r:.80} (there are {known})")
        return found
