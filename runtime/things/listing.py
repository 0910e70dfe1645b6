"""Listing: the things of one backplane, for the gateway."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from ..objects.component import Component
from ..permissions.thing_ids import id_of
from .thing import Thing, process_id

log = logging.getLogger(__name__)
#: Ids that were reported as those of two things.
_reported: set[str] = set()


def listing_of(components: Iterable[Component]) -> dict[str, Any]:
    """All things of these components.

    `things`: id, component, key and class of each. `models`, by class: its Thing Model. `setters`, by class: the operations
    that write its properties. `proxies`: the classes of things that live elsewhere. `places`, by id: where a thing is, if it
    says so. `process`: names this process in notifications.
    """
    found: dict[str, tuple[Component, Thing]] = {}
    for component in components:
        for each in component.objects:
            if isinstance(each, Thing):
                id = id_of(component.component_name, each.key)
                if id not in found:
                    found[id] = component, each
                elif id not in _reported:
                    _reported.add(id)
                    log.warning("two things have the id %s: the second is not served: add it with another key", id)
    classes = {_name(type(each)): type(each) for _, each in found.values()}
    return {
        "process": process_id(),
        "things": [
            [id, component.component_name, each.key, _name(type(each))] for id, (component, each) in found.items()
        ],
        "places": {id: str(each.place) for id, (_, each) in found.items() if each.place},
        "proxies": [name for name, kind in classes.items() if kind.__is_proxy__],
        "models": {name: kind.__model__ for name, kind in classes.items()},
        "setters": {
            name: {each.name: each.setter for each in kind.__affordances__.properties.values() if each.setter}
            for name, kind in classes.items()
        },
    }


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
