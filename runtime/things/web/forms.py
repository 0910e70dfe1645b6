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
#: The definitions, by scheme.
SECURITY: Final[dict[str, dict[str, Any]]] = {
    "bearer": {"bearer": {"scheme": "bearer", "in": "header", "format": "opaque"}},
    "basic": {"basic": {"scheme": "basic", "in": "header", "name": "Authorization"}},
    "nosec": {"nosec": {"scheme": "nosec"}},
}
#: The profiles of W3C that each description fulfils whose security they know.
PROFILES: Final = (
    "https://www.w3.org/2022/wot/profile/http-basic/v1",
    "https://www.w3.org/2022/wot/profile/http-sse/v1",
)
_PROFILED: Final = ("basic", "nosec")


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
    security: str,
    place: str = "",
    permits: Callable[[str, str], bool] = _all,
) -> Description:
    """The Thing Description. `base`: the gateway's own address, with a slash at its end. `subscriber`: the id of the
    long-polling queue in this description; each retrieval gets a new one, so that clients do not take each other's messages.
    `security`: a scheme of `SECURITY`. `place`: where the thing is, if it is known.
    `permits(kind, name)`: whether the reader may use an affordance in this way; others are left out.
    """
    said, types = model["@context"], [each for each in model["@type"] if each != "tm:ThingModel"]
    prefixes = said[1:] if isinstance(said, list) else []
    if place:
        prefixes = [(prefixes[0] if prefixes else {}) | {"schema": PREFIXES["schema"]}]
    path = path_of(id)
    whole: Description = {
        # The first one is for clients that know only the first version.
        "@context": [TD_CONTEXT_2019, TD_CONTEXT, *prefixes],
        **({"@type": types} if types else {}),
        "id": id,
        **({"profile": [*PROFILES]} if security in _PROFILED else {}),
        "title": model["title"],
        **({"description": model["description"]} if "description" in model else {}),
        **({PLACE: place} if place else {}),
        "base": base,
        "securityDefinitions": SECURITY[security],
        "security": [security],
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
    if forms := _thing_forms(path, properties, actions, events):
        whole["forms"] = forms
    for kind, group in (("properties", properties), ("actions", actions), ("events", events)):
        if group:
            whole[kind] = group
    return whole


def _thing_forms(
    path: str, properties: Mapping[str, Any], actions: Mapping[str, Any], events: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The forms for all properties, actions or events at once."""
    offered = {op for said in properties.values() for form in said["forms"] for op in form["op"]}
    many = [op for one, op in _MANY if one in offered]
    forms: list[dict[str, Any]] = [{"href": f"{path}/properties", "op": many, "contentType": JSON}] if many else []
    if not all(said["synchronous"] for said in actions.values()):
        forms.append({"href": f"{path}/actions", "op": ["queryallactions"], "contentType": JSON})
    if "observeproperty" in offered:
        forms.append(_sse(f"{path}/stream/properties", ["observeallproperties", "unobserveallproperties"]))
    if events:
        forms.append(_sse(f"{path}/stream/events", ["subscribeallevents", "unsubscribeallevents"]))
    return forms


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
        _sse(f"{href}/stream", operations),
    ]


def _sse(href: str, operations: list[str]) -> dict[str, Any]:
    """The content type is that of the data in each message."""
    return {"href": href, "op": operations, "subprotocol": "sse", "contentType": JSON}
