"""Forms: the Thing Description of one thing, made of the Thing Model of its class and the addresses of the gateway.

Existing clients decide the order of the forms: long polling stands before server-sent events, because node-wot delivers every
message with the first, and sends no credentials with the second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import quote

from ..description import PLACE, PREFIXES, TD_CONTEXT, TD_CONTEXT_2019, Description

JSON: Final = "application/json"
#: What can be done with several properties at once, where it can be done with one.
_MANY: Final = (("readproperty", "readallproperties"), ("writeproperty", "writemultipleproperties"))
SECURITY: Final[dict[bool, dict[str, Any]]] = {
    True: {"bearer": {"scheme": "bearer", "in": "header", "format": "opaque"}},
    False: {"nosec": {"scheme": "nosec"}},
}


def _all(kind: str, name: str) -> bool:
    return True


def path_of(id: str) -> str:
    """The path of a thing, relative to the base."""
    return f"things/{quote(id, safe='')}"


def description_of(
    id: str,
    model: Mapping[str, Any],
    base: str,
    subscriber: str,
    *,
    is_secured: bool,
    place: str = "",
    permits: Callable[[str, str], bool] = _all,
) -> Description:
    """The Thing Description. `base`: the gateway's own address, with a slash at its end. `subscriber`: the id of the
    long-polling queue in this description; each retrieval gets a new one, so that clients do not take each other's messages.
    `is_secured`: tokens are asked for. `place`: where the thing is, if it is known.
    `permits(kind, name)`: whether the reader may use an affordance in this way; others are left out.
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
    properties = {}
    for name, said in model.get("properties", {}).items():
        kinds = [kind for kind in ("read", "write", "observe") if _has(said, kind) and permits(kind, name)]
        if kinds:
            forms = _property_forms(f"{path}/properties/{quote(name, safe='')}", kinds, subscriber)
            properties[name] = _limited(said, kinds) | {"forms": forms}
    actions = {
        name: said
        | {"forms": [{"href": f"{path}/actions/{quote(name, safe='')}", "op": ["invokeaction"], "contentType": JSON}]}
        for name, said in model.get("actions", {}).items()
        if permits("invoke", name)
    }
    events = {
        name: said
        | {
            "forms": _streams(
                f"{path}/events/{quote(name, safe='')}", ["subscribeevent", "unsubscribeevent"], subscriber
            )
        }
        for name, said in model.get("events", {}).items()
        if permits("observe", name)
    }
    offered = {op for said in properties.values() for form in said["forms"] for op in form["op"]}
    many = [each for each in _MANY if each[0] in offered]
    if many:
        operations = [op for _, op in many]
        whole["forms"] = [{"href": f"{path}/properties", "op": operations, "contentType": JSON}]
    for kind, group in (("properties", properties), ("actions", actions), ("events", events)):
        if group:
            whole[kind] = group
    return whole


def _has(said: Mapping[str, Any], kind: str) -> bool:
    """Whether a property can be used in this way at all."""
    if kind == "write":
        return not said.get("readOnly")
    return kind == "read" or bool(said.get("observable"))


def _limited(said: Mapping[str, Any], kinds: Collection[str]) -> dict[str, Any]:
    """A property with the kinds of access that are left."""
    limited = {key: value for key, value in said.items() if key not in ("readOnly", "observable")}
    if "write" not in kinds:
        limited["readOnly"] = True
    elif kinds == ["write"]:
        limited["writeOnly"] = True
    if "observe" in kinds:
        limited["observable"] = True
    return limited


def _property_forms(href: str, kinds: Collection[str], subscriber: str) -> list[dict[str, Any]]:
    operations = [f"{kind}property" for kind in kinds if kind != "observe"]
    forms = [{"href": href, "op": operations, "contentType": JSON}] if operations else []
    if "observe" in kinds:
        forms += _streams(href, ["observeproperty", "unobserveproperty"], subscriber)
    return forms


def _streams(href: str, operations: list[str], subscriber: str) -> list[dict[str, Any]]:
    return [
        {"href": f"{href}/stream?sub={subscriber}", "op": operations, "subprotocol": "longpoll", "contentType": JSON},
        {"href": f"{href}/stream", "op": operations, "subprotocol": "sse", "contentType": "text/event-stream"},
    ]
