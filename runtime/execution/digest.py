"""Digest: the action that computes the object key of a request (digesting.py), and the objects that hold these actions."""

from __future__ import annotations

from appbackplane.transport.envelope import Envelope

from ..objects.action import Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from .method_action import MethodAction


class Digest(MethodAction):
    """Computes the object key of one call or cast; `sender` is the peer that sent it."""

    __slots__ = ("asked",)
    #: The envelope of the request. Its caller gets no reply from this action, only from the request itself.
    asked: Envelope


class Digesters:
    """The digester of each component that has had such a request: an object without state, only a queue for its digests."""

    def __init__(self) -> None:
        self._objects: dict[str, AppObject] = {}

    def all(self) -> list[AppObject]:
        """The digesters created so far."""
        return list(self._objects.values())

    def of(self, component: Component) -> AppObject | None:
        """The digester of a component; None: it has had no request yet."""
        return self._objects.get(component.component_name)

    def created(self, component: Component) -> AppObject:
        """The digester of a component, created at its first request."""
        digester = self._objects.get(component.component_name)
        if digester is None:
            digester = self._objects[component.component_name] = AppObject()
            digester._component, digester._name = component, f"{component.name}.digester"
        return digester


def route_of(action: Action) -> str:
    """The route of the request behind an action, also while a digester computes its key."""
    return action.asked.route or "" if isinstance(action, Digest) else action.name
