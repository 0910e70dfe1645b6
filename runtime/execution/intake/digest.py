"""Digest: the action that computes the object key of a request (digesting.py), and the objects that hold these actions."""

from __future__ import annotations

from typing import TypeAlias

from appbackplane.transport.envelope import Envelope

from ...objects.action import Action
from ...objects.app_object import AppObject
from ..actions.method_action import MethodAction


class Digest(MethodAction):
    """Computes the object key of one call or cast; `sender` is the peer that sent it."""

    __slots__ = ("asked",)
    #: The envelope of the request. Its caller gets no reply from this action, only from the request itself.
    asked: Envelope


#: By the name of a component that has had such a request: an object without state, only a queue for its digests.
Digesters: TypeAlias = dict[str, AppObject]


def route_of(action: Action) -> str:
    """The route of the request behind an action, also while a digester computes its key."""
    return action.asked.route or "" if isinstance(action, Digest) else action.name
