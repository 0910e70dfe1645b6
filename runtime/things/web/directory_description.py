"""The directory's own Thing Description, by the Thing Model of W3C WoT Discovery (section 7.2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..description import TD_CONTEXT, TD_CONTEXT_2019, Description
from ..directory.changes import CREATED, DELETED, UPDATED
from ..directory.registered_things import DISCOVERY_CONTEXT
from .forms import SECURITY

TD: Final = "application/td+json"
JSON_LD: Final = "application/ld+json"
MERGE_PATCH: Final = "application/merge-patch+json"
PROBLEM: Final = "application/problem+json"
#: Its path on each server (RFC 8615).
WELL_KNOWN: Final = "/.well-known/wot"

_THING_ID: Final = {
    "id": {"@type": "ThingID", "title": "Id of the description", "type": "string", "format": "iri-reference"}
}
#: A description, or a part of one.
_DOCUMENT: Final = {"type": "object", "properties": {"id": {"type": "string"}}}
_PAGE: Final = {
    "offset": {"title": "Descriptions before the page", "type": "integer", "default": 0, "minimum": 0},
    "limit": {"title": "Descriptions in a page", "type": "integer", "minimum": 0},
    "format": {"title": "Form of the answer", "type": "string", "enum": ["array", "collection"], "default": "array"},
}


def directory_description(base: str, *, security: str) -> Description:
    """The description. `base`: the gateway's address, with a slash at its end. `security`: a scheme of `SECURITY`."""
    return {
        "@context": [TD_CONTEXT_2019, TD_CONTEXT, DISCOVERY_CONTEXT],
        "@type": ["ThingDirectory"],
        "title": "Directory of things",
        "description": "The things of this system, and those whose descriptions were registered here",
        "version": {"instance": "1.0.0", "model": "1.0.0"},
        "base": base,
        "securityDefinitions": SECURITY[security],
        "security": [security],
        "properties": {
            "things": {
                "description": "All descriptions, by id",
                "readOnly": True,
                "oneOf": [{"type": "array", "items": _DOCUMENT}, _DOCUMENT],
                "uriVariables": _PAGE,
                "forms": [_form("things{?offset,limit,format}", "GET", 200, JSON_LD, op="readproperty")],
            }
        },
        "actions": {
            "createAnonymousThing": _action("Register a description without an id", "things", "POST", 201, TD),
            "createThing": _action("Register a description", "things/{id}", "PUT", 201, TD),
            "updateThing": _action("Replace a description", "things/{id}", "PUT", 204, TD),
            "partiallyUpdateThing": _action("Change parts of a description", "things/{id}", "PATCH", 204, MERGE_PATCH),
            "deleteThing": _action("Delete a description", "things/{id}", "DELETE", 204),
            "retrieveThing": _retrieval("One description", "things/{id}", _THING_ID, TD),
            "searchJSONPath": _retrieval(
                "Values of all descriptions, by JSONPath (RFC 9535)", "search/jsonpath{?query}",
                {"query": {"title": "A JSONPath", "type": "string"}}, "application/json",
            ),
            "search": _retrieval(
                "Descriptions by text, type, place and state", "search{?text,type,place,where,offset,limit,format}",
                {
                    "text": {"title": "Words of the title, description, type or id", "type": "string"},
                    "type": {"title": "A semantic type", "type": "string"},
                    "place": {"title": "Part of the name of a place", "type": "string"},
                    "where": {"title": "A condition on a property, such as temperature>21", "type": "string"},
                    **_PAGE,
                },
                JSON_LD,
            ),
        },
        "events": {
            "thingCreated": _event(CREATED, "A description is new", "Send the whole description"),
            "thingUpdated": _event(UPDATED, "A description has changed", "Send the merge patch (RFC 7396)"),
            "thingDeleted": _event(DELETED, "A description is gone, or has expired", ""),
        },
    }  # fmt: skip


def _form(href: str, method: str, status: int, content_type: str, **more: Any) -> dict[str, Any]:
    problem = {"success": False, "contentType": PROBLEM}
    return {
        "href": href,
        "htv:methodName": method,
        "response": {"contentType": content_type, "htv:statusCodeValue": status},
        "additionalResponses": [problem],
        **more,
    }


def _action(text: str, href: str, method: str, status: int, content_type: str | None = None) -> dict[str, Any]:
    """A change. `content_type`: of its body; None: it has none."""
    form = _form(href, method, status, "application/json", op="invokeaction")
    said: dict[str, Any] = {"description": text, "safe": False, "idempotent": method != "POST"}
    if "{id}" in href:
        said["uriVariables"] = _THING_ID
    if content_type is not None:
        said["input"] = _DOCUMENT
        form["contentType"] = content_type
    return said | {"forms": [form]}


def _retrieval(text: str, href: str, variables: Mapping[str, Any], content_type: str) -> dict[str, Any]:
    return {
        "description": text,
        "uriVariables": variables,
        "output": {"oneOf": [_DOCUMENT, {"type": "array"}]},
        "safe": True,
        "idempotent": True,
        "forms": [_form(href, "GET", 200, content_type, op="invokeaction")],
    }


def _event(kind: str, text: str, diff: str) -> dict[str, Any]:
    """`diff`: what the argument of this name does; empty: it has none."""
    form = {
        "href": f"events/{kind}" + ("{?diff}" if diff else ""),
        "op": ["subscribeevent"],
        "subprotocol": "sse",
        "contentType": "text/event-stream",
        "htv:headers": [{"htv:fieldName": "Last-Event-ID", "description": "Continue after the event of this id"}],
    }
    variables = {"uriVariables": {"diff": {"description": diff, "type": "boolean"}}} if diff else {}
    return {"description": text, **variables, "data": _DOCUMENT, "forms": [form]}
