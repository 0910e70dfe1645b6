"""Listing: the things of one backplane, for gateways, which serve them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..objects.component import Component
from .description import id_of
from .thing import PROCESS, Thing


def listing_of(components: Iterable[Component]) -> dict[str, Any]:
    """All things of these components.

    `things`: id, component, key and class of each. `models`, by class: its Thing Model. `setters`, by class: the operations
    that write its properties. `process`: names this process in notifications.
    """
    found = [
        (component.component_name, each)
        for component in components
        for each in component.objects
        if isinstance(each, Thing)
    ]
    classes = {_name(type(each)): type(each) for _, each in found}
    return {
        "process": PROCESS,
        "things": [[id_of(component, each.key), component, each.key, _name(type(each))] for component, each in found],
        "models": {name: kind.__model__ for name, kind in classes.items()},
        "setters": {
            name: {each.name: each.setter for each in kind.__affordances__.properties.values() if each.setter}
            for name, kind in classes.items()
        },
    }


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
