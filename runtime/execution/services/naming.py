"""Naming: resolves the names that operators use for objects, calls and routes.

An object is BACKPLANE/COMPONENT or BACKPLANE/COMPONENT.KEY, as in every message about it. A call is BACKPLANE:CALLER:NUMBER:
its callee's backplane, its caller, and its number there; a prefix of the caller's name is enough. A route stands for its
oldest call that has not ended. Each scan stops after `LOOK_MAX` entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from appbackplane.transport.errors import InvalidArgument, NotFound

from ...objects.action import LOCAL, Action
from ...objects.app_object import AppObject, queues_of
from ...objects.spawned import MARK
from ..intake.digest import Digest, route_of
from ..loop.engine import Engine

#: Entries of one table scanned: at 50 to 100 ns each, the lead is held for a millisecond at most.
LOOK_MAX = 10_000
#: Objects and calls listed, the oldest of each.
SHOWN_MAX = 10
#: Characters shown of the random word in a caller's name.
_HEX_SHOWN = 8
_SELF = "self"


class Names:
    """Finds objects and calls by name. All methods except `object_named` need the lead."""

    def __init__(self, engine: Engine) -> None:
        self._backplane, self._registry = engine.backplane, engine.registry
        self._accepted, self._digesters = engine.accepted, engine.digesters

    def object_named(self, asked: str) -> AppObject:
        """The object of that name. Raises `NotFound`. Needs no lead: names do not change, and comparing 100,000 is slow."""
        backplane, _, name = asked.partition("/")
        if backplane != self._backplane:
            raise NotFound(f"{asked!r} is not in backplane {self._backplane}")
        for component in list(self._registry.components.values()):
            if name == component.component_name:
                return component
            if not name.startswith(f"{component.component_name}."):
                continue
            named = name[len(component.component_name) + 1 :]
            object = self._registry.by_key(component.component_name, named)
            if object is None and named.startswith(MARK) and named[1:].isdecimal():
                object = component._spawned.get(int(named[1:]))
            if object is None:
                others = (*component._objects, *self._digesters.values())
                object = next((other for other in others if other._name == asked), None)
            if object is not None:
                return object
        raise NotFound(f"backplane {self._backplane} has no object {asked!r}")

    def oldest_of_route(self, name: str) -> tuple[Action | AppObject | None, dict[str, Any]]:
        """The oldest unended call of a route, else its oldest cast, else one of its objects; and a list and count of calls."""
        route = self._registry.routes.get(name)
        if route is None:
            raise NotFound(f"backplane {self._backplane} serves no route {name!r}")
        accepted = islice(self._accepted.items(), LOOK_MAX)
        calls = [(peer, id) for (peer, id), action in accepted if route_of(action) == name]
        more = {"calls": [call_name(self._backplane, *who) for who in calls[:SHOWN_MAX]], "count": len(calls)}
        if calls:
            return self._accepted.get(calls[0]), more
        queues = islice((queue for each in route.objects for queue in queues_of(each)), LOOK_MAX)
        queued = islice(_queued(queues), LOOK_MAX)
        action = next((action for action in queued if action.name == name), None)
        if action is not None:
            return action, more
        queues = islice((queue for each in route.objects for queue in queues_of(each)), LOOK_MAX)
        return next(
            (queue for queue in queues if queue._load), route.objects[0] if route.objects else route.component
        ), more

    def call_named(self, asked: str) -> Action | None:
        """The call of that name; None: it has not arrived, or has ended. Raises `NotFound`, `InvalidArgument`."""
        backplane, caller, number, *_ = *asked.split(":", 2), "", ""
        if not number.isdecimal() or not caller:
            raise InvalidArgument(f"{asked!r} is not the name of a call: expected BACKPLANE:CALLER:NUMBER")
        if backplane != self._backplane:
            raise NotFound(f"{asked!r} is not in backplane {self._backplane}")
        accepted, id = self._accepted, int(number)
        peer = LOCAL if caller == _SELF else caller.encode()
        found = accepted.get((peer, id))
        if found is not None or caller == _SELF:
            return found
        among = islice(accepted.items(), LOOK_MAX)
        return next((action for (who, one), action in among if one == id and who.startswith(peer)), None)

    def who_waits_for(self, action: Action) -> tuple[bytes, int] | None:
        """The peer that waits for the action's reply, and its call id; None: no caller waits."""
        if isinstance(action, Digest):
            return (action.sender, action.asked.id) if action.asked.id else None
        return None if action.peer is None else (action.peer, action.call_id)


def _queued(objects: Iterable[AppObject]) -> Iterator[Action]:
    for object in objects:
        action = object._head
        while action is not None:
            yield action
            action = action.next


def call_name(backplane: str, peer: bytes, id: int) -> str:
    """The name of a call that `backplane` serves for `peer`, with the caller's random word shortened."""
    name, dash, random = (_SELF if peer == LOCAL else peer.decode(errors="replace")).rpartition("-")
    return f"{backplane}:{name}{dash}{random[:_HEX_SHOWN] if dash else random}:{id}"


def is_object_name(asked: str) -> bool:
    """Whether the name has the form BACKPLANE/…; in the name of a call a colon comes first, a route has neither."""
    slash, colon = asked.find("/"), asked.find(":")
    return slash >= 0 and (colon < 0 or slash < colon)
