"""SpawnEndpoint: lets others spawn objects in a component, on its route COMPONENT.spawn (`AppObject.spawn_at`).

A component with `spawnable` classes has one; it is a route like any other, so replicas take turns, `key="@front-2"` chooses
one of them, and other nodes may use it if each of the classes has an operation that is exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appbackplane.transport.addressing import AT
from appbackplane.transport.errors import InvalidArgument, NotFound

from .action import DONE, Action, Outcome
from .app_object import AppObject
from .endpoint import Endpoint, Request
from .operation import Mark
from .operation_spec import OperationSpec

if TYPE_CHECKING:
    from .component import Component

#: Name of the route's second word; a component with `spawnable` classes has no other operation of that name.
NAME = "spawn"


class SpawnEndpoint(Endpoint):
    """Turns requests into spawned objects of one component."""

    def __init__(self, component: Component, priority: int) -> None:
        self._component = component
        self._classes: dict[str, type[AppObject]] = {cls.__name__: cls for cls in component.spawnable}
        super().__init__(
            NAME,
            priority=priority,
            summary="Spawn an object, and return its address.",
            signature="(kind: str, settings: dict[str, Any] = {}) -> Address",
            export=all(any(spec.mark.export for spec in cls.__operations__.values()) for cls in component.spawnable),
        )

    def create_action(self, request: Request) -> Action:
        """Raises `InvalidArgument` for other arguments, `NotFound` for another backplane, or a class that is not offered."""
        kind, settings = request.body.get("kind"), request.body.get("settings", {})
        if type(kind) is not str or type(settings) is not dict or request.body.keys() - {"kind", "settings"}:
            raise InvalidArgument(
                f"{request.route}: expected {self.signature}, got {', '.join(map(str, request.body))}"
            )
        here, key = self._component._name.partition("/")[0], request.key
        if (
            key is not None and key.startswith(AT) and key[1:] != here
        ):  # a name that nobody has is resolved to any replica
            raise NotFound(f"{request.route}: there is no backplane {key[1:]!r} with {self._component.component_name}")
        cls = self._classes.get(kind)
        if cls is None:
            raise NotFound(
                f"{self._component.name} lets others spawn no {kind!r}: one of {', '.join(sorted(self._classes))} "
                "(`spawnable` of the component)"
            )
        return SpawnAction(self._component, request, cls, settings)


class SpawnAction(Action):
    """One spawn, requested from outside. Queues at the component, whose order it keeps."""

    __slots__ = ("_cls", "_settings")

    def __init__(self, component: Component, request: Request, cls: type[AppObject], settings: dict[str, Any]) -> None:
        super().__init__(component, request.route, request.priority, request.deadline_ns)
        self._cls, self._settings = cls, settings

    def run(self) -> Outcome:
        """Construct the object, and return its address."""
        component = self.object._component
        assert component is not None
        self.result = component._host.spawn(component, construct(self._cls, self._settings))
        return DONE


def construct(cls: type[AppObject], settings: dict[str, Any]) -> AppObject:
    """Construct `cls` with arguments from outside, checked against the annotations of its constructor.

    Raises `InvalidArgument`, which names the argument.
    """
    init = cls.__init__
    if init is object.__init__:
        if settings:
            raise InvalidArgument(f"{cls.__qualname__} takes no settings: got {', '.join(sorted(settings))}")
        return cls()
    return cls(
        *OperationSpec("__init__", init, Mark(kind="settings")).bind(settings, f"settings of {cls.__qualname__}")
    )
