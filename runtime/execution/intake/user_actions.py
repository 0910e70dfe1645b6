"""User actions: checks actions made by users' code before they are queued.

An endpoint turns a request into an action, and a component may post an action of its own: both may supply any value. A bad
one is refused here with a message for its author, instead of failing later, where its origin would be unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from appbackplane.transport.errors import BackplaneError, InternalError, sound, text_of

from ...objects.action import Action
from ...objects.endpoint import Request
from ...objects.registry import Route
from ..actions.coroutine_action import as_posted

log = logging.getLogger("appbackplane.runtime")


def action_of(route: Route, request: Request, priorities: int) -> Action | None:
    """The action that a route's endpoint makes of a request; None: it ignores a topic's message.

    Raises the `BackplaneError` with which the endpoint refuses, and `InternalError` for other failures or a malformed action.
    """
    assert route.endpoint is not None
    try:
        create: Callable[[Request], Any] = route.endpoint.create_action
        made = create(request)
    except BackplaneError as error:
        if (told := sound(error)) is not error:
            raise told from error
        raise
    except BaseException as error:
        log.exception("%s.create_action failed", route.name)
        raise InternalError(f"{route.name}: {type(error).__name__}: {text_of(error)}") from error
    if made is None and request.topic is not None:
        return None
    if not isinstance(made, Action) or made.object._component is not route.component:
        problem = f"{route.name}: create_action must return an Action for an object of {route.component.name}"
        log.error("%s", problem)
        raise InternalError(problem)
    action: Action = made
    try:
        check(action, priorities)
    except (TypeError, ValueError) as error:
        log.error("%s: %s", route.name, error)
        raise InternalError(f"{route.name}: {error}") from error
    return as_posted(action)


def check(action: Action, priorities: int) -> None:
    """Raise TypeError or ValueError for an action that no queue could hold, or that is queued already."""
    if type(action.name) is not str:
        raise TypeError(f"{type(action).__name__}.name is a {type(action.name).__name__}: expected a string")
    if not isinstance(action.priority, int) or not 0 <= action.priority < priorities:
        raise ValueError(f"{action.name}: priority {action.priority!r}, expected 0..{priorities - 1}")
    if action.deadline_ns is not None and not isinstance(action.deadline_ns, int):
        raise TypeError(f"{action.name}: deadline_ns is {action.deadline_ns!r}, expected whole nanoseconds")
    if action.posted_ns:
        raise ValueError(f"{action.name}: this action object is posted already and has not ended: post a new one")
