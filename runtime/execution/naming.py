"""Naming: how people name an object, a call or a route, and what they mean by it.

An object is BACKPLANE/COMPONENT or BACKPLANE/COMPONENT.KEY, as in every message about it. A call is BACKPLANE:CALLER:NUMBER:
where it is served, who made it, and its number there; the beginning of the caller's name is enough. A route stands for
the oldest call of it that has not ended. Each look stops after `LOOK_MAX` entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from appbackplane.transport.errors import InvalidArgument, NotFound

from ..objects.action import LOCAL, Action
from ..objects.app_object import AppObject
from .digesting import Digest

if TYPE_CHECKING:
    from .engine import Engine

#: Entries of any one table that are looked at: at 50 to 100 ns each, a millisecond at most for which the lead is held.
LOOK_MAX = 10_000
#: Objects and calls listed, the oldest of each.
SHOWN_MAX = 10
#: How much of a caller's random word is shown.
_HEX_SHOWN = 8
_SELF = "self"


class Names:
    """What is meant. All but `object_named` need the lead."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def object_named(self, asked: str) -> AppObject:
        """Without the lead: names do not change, and comparing 100,000 of them takes its time."""
        engine = self._engine
        backplane, _, name = asked.partition("/")
        if backplane != engine.backplane:
            raise NotFound(f"{asked!r} is not in backplane {engine.backplane}")
        for component in list(engine.registry.components.values()):
            if name == component.component_name:
                return component
            if not name.startswith(f"{component.component_name}."):
                continue
            object = engine.registry.by_key(component.component_name, name[len(component.component_name) + 1 :])
            if object is None:
                others = (*component._objects, *engine.intake.digesting.digesters())
                object = next((other for other in others if other._name == asked), None)
            if object is not None:
                return object
        raise NotFound(f"backplane {engine.backplane} has no object {asked!r}")

    def oldest_of_route(self, name: str) -> tuple[Action | AppObject | None, dict[str, Any]]:
        """The oldest call of a route that has not ended, else the oldest cast."""
        engine = self._engine
        route = engine.registry.routes.get(name)
        if route is None:
            raise NotFound(f"backplane {engine.backplane} serves no route {name!r}")
        accepted = islice(engine.intake.accepted.items(), LOOK_MAX)
        calls = [who for who, action in accepted if route_of(action) == name]
        more = {"calls": [self.name(*who) for who in calls[:SHOWN_MAX]], "count": len(calls)}
        if calls:
            return engine.intake.accepted[calls[0]], more
        queued = islice(_queued(islice(route.objects, LOOK_MAX)), LOOK_MAX)
        action = next((action for action in queued if action.name == name), None)
        if action is not None:
            return action, more
        busy = (object for object in islice(route.objects, LOOK_MAX) if object._load)
        return next(busy, route.objects[0] if route.objects else route.component), more

    def call_named(self, asked: str) -> Action | None:
        """The call, or None: it has not been taken in, or has ended. Raises `NotFound`, `InvalidArgument`."""
        backplane, caller, number, *_ = *asked.split(":", 2), "", ""
        if not number.isdecimal() or not caller:
            raise InvalidArgument(f"{asked!r} is no name of a call: expected BACKPLANE:CALLER:NUMBER")
        if backplane != self._engine.backplane:
            raise NotFound(f"{asked!r} is not in backplane {self._engine.backplane}")
        accepted, id = self._engine.intake.accepted, int(number)
        peer = LOCAL if caller == _SELF else caller.encode()
        found = accepted.get((peer, id))
        if found is not None or caller == _SELF:
            return found
        among = islice(accepted.items(), LOOK_MAX)
        return next((action for who, action in among if who[1] == id and who[0].startswith(peer)), None)

    def who_waits_for(self, action: Action) -> tuple[bytes, int] | None:
        """Who waits for it, under which number."""
        if isinstance(action, Digest):
            return (action.sender, action.asked.id) if action.asked.id else None
        return None if action.peer is None else (action.peer, action.call_id)

    def name(self, peer: bytes, id: int) -> str:
        """What a call that is served here is called."""
        return call_name(self._engine.backplane, peer, id)


def _queued(objects: Iterable[AppObject]) -> Iterator[Action]:
    for object in objects:
        action = object._head
        while action is not None:
            yield action
            action = action.next


def route_of(action: Action) -> str:
    """What was asked for, also while its object is being worked out."""
    return action.asked.route or "" if isinstance(action, Digest) else action.name


def call_name(backplane: str, peer: bytes, id: int) -> str:
    """A call that `backplane` serves."""
    name, dash, random = (_SELF if peer == LOCAL else peer.decode(errors="replace")).rpartition("-")
    return f"{backplane}:{name}{dash}{random[:_HEX_SHOWN] if dash else random}:{id}"


def is_object_name(asked: str) -> bool:
    """BACKPLANE/…: neither a call, whose first mark is a colon, nor a route."""
    slash, colon = asked.find("/"), asked.find(":")
    return slash >= 0 and (colon < 0 or slash < colon)
