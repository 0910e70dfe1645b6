"""Forms: the Thing Description of one thing, made of the Thing Model of its class and the addresses of the gateway.

Existing clients decide the order of the forms: long polling stands before server-sent events, because node-wot delivers every
message with the first, and sends no credentials with the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ..description import PLACE, PREFIXES, TD_CONTEXT, TD_CONTEXT_2019, Description

JSON: Final = "application/json"
SECURITY: Final[dict[bool, dict[str, Any]]] = {
    True: {"bearer": {"scheme": "bearer", "in": "header", "format": "opaque"}},
    False: {"nosec": {"scheme": "nosec"}},
}


def path_of(id: str) -> str:
    """The path of a thing, relative to the base."""
    return f"things/{quote(id, safe='')}"


def description_of(
    id: str, model: Mapping[str, Any], base: str, subscriber: str, *, is_secured: bool, place: str = ""
) -> Description:
    """The Thing Description. `base`: the gateway's own address, with a slash at its end. `subscriber`: the id of the
    long-polling queue in this description; each retrieval gets a new one, so that clients do not take each other's messages.
    `is_secured`: tokens are asked for. `place`: where the thing is, if it is known.
    """
    said, types = model["@context"], [each for each in model["@type"] if each != "tm:ThingModel"]
    prefixes = said[1:] if isinstance(said, list) else []
    if place:
        prefixes = [(prefixes[0] if prefixes else {}) | {"schema": PREFIXES["schema"]}]
    path, security = path_of(id), SECURITY[is_secured]
    whole: Description = {
        # The first one is for clients that know only the first version.
        "@context": [TD_CONTEXT_2019, TD_CONTEXT, *prefixes],
        **({"@type": types} if types else {}),
        "id": id,
        "title": model["title"],
        **({"description": model["description"]} if "description" in model else {}),
        **({PLACE: place} if place else {}),
        "base": base,
        "securityDefinitions": security,
        "security": list(security),
    }
    properties = {
        name: said | {"forms": _property_forms(f"{path}/properties/{quote(name, safe='')}", said, subscriber)}
        for name, said in model.get("properties", {}).items()
    }
    actions = {
        name: said
        | {"forms": [{"href": f"{path}/actions/{quote(name, safe='')}", "op": ["invokeaction"], "contentType": JSON}]}
        for name, said in model.get("actions", {}).items()
    }
    events = {
        name: said
        | {
            "forms": _streams(
                f"{path}/events/{quote(name, safe='')}", ["subscribeevent", "unsubscribeevent"], subscriber
            )
        }
        for name, said in model.get("events", {}).items()
    }
    if properties:
        whole["forms"] = [{"href": f"{path}/properties", "op": ["readallproperties"], "contentType": JSON}]
    for kind, group in (("properties", properties), ("actions", actions), ("events", events)):
        if group:
            whole[kind] = group
    return whole


def _property_forms(href: str, said: Mapping[str, Any], subscriber: str) -> list[dict[str, Any]]:
    operations = ["readproperty"] if said.get("readOnly") else ["readproperty", "writeproperty"]
    forms = [{"href": href, "op": operations, "contentType": JSON}]
    if said.get("observable"):
        forms += _streams(href, ["observeproperty", "unobserveproperty"], subscriber)
    return forms


def _streams(href: str, operations: list[str], subscriber: str) -> list[dict[str, Any]]:
    return [
        {"href": f"{href}/stream?sub={subscriber}", "op": operations, "subprotocol": "longpoll", "contentType": JSON},
        {"href": f"{href}/stream", "op": operations, "subprotocol": "sse", "contentType": "text/event-stream"},
    ]
