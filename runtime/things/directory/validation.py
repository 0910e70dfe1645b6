"""Validation: the minimal validation of Thing Descriptions by their JSON schema (W3C WoT TD 1.1, sections 5 and B).

Each fault names its member, so that its author finds it. What the schema leaves open is accepted: descriptions have members of
any vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from ..description import TD_CONTEXT, TD_CONTEXT_2019
from .rfc3339 import unix_ns_of

#: Faults that one answer lists. A description that is something else altogether has one for each member.
FAULTS_MAX: Final = 32
#: Characters of each text of a fault: names of members are of any length.
FAULT_CHARACTERS_MAX: Final = 512
#: Nesting of a document: members of members. Deeper ones would exhaust the stack of whoever walks them.
DEPTH_MAX: Final = 64
#: Longest id, characters: it is part of each path.
ID_CHARACTERS_MAX: Final = 512
#: Longest time to live, seconds: a hundred years. Times in ns have 64 bits, which end in 2262.
TTL_MAX: Final = 100 * 366 * 86_400

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
_SCHEMES: Final = ("nosec", "auto", "combo", "basic", "digest", "apikey", "bearer", "psk", "oauth2")
_TYPES: Final = ("boolean", "integer", "number", "string", "object", "array", "null")
#: Operations of the forms in each place.
_OPERATIONS: Final = {
    "": ("readallproperties", "writeallproperties", "readmultipleproperties", "writemultipleproperties",
         "observeallproperties", "unobserveallproperties", "queryallactions", "subscribeallevents", "unsubscribeallevents"),
    "properties": ("readproperty", "writeproperty", "observeproperty", "unobserveproperty"),
    "actions": ("invokeaction", "queryaction", "cancelaction"),
    "events": ("subscribeevent", "unsubscribeevent"),
}  # fmt: skip
#: Members that are data schemas, in each kind of affordance.
_SCHEMAS: Final = {
    "properties": (),
    "actions": ("input", "output"),
    "events": ("subscription", "data", "dataResponse", "cancellation"),
}


class Fault(NamedTuple):
    """One fault. `field`: its path, such as "properties.status.forms.0.href"; "(root)": the document itself."""

    field: str
    description: str


def faults_of(td: Any, now_ns: int) -> list[Fault]:
    """The first faults of a document; empty: it is a valid Thing Description. `now_ns`: Unix time."""
    if not isinstance(td, Mapping):
        return [Fault("(root)", "expected a JSON object")]
    return [
        Fault(each.field[:FAULT_CHARACTERS_MAX], each.description[:FAULT_CHARACTERS_MAX])
        for each in islice(_faults(td, now_ns), FAULTS_MAX)
    ]


def is_too_deep(document: Any) -> bool:
    """Whether a document is nested deeper than `DEPTH_MAX`. Walks it without recursion."""
    level = [document]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for each in level
            if isinstance(each, Mapping | list)
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


def _faults(td: Mapping[str, Any], now_ns: int) -> Iterator[Fault]:
    for name in ("@context", "title", "security", "securityDefinitions"):
        if name not in td:
            yield Fault(name, "missing: each Thing Description has it")
    yield from _context(td.get("@context", TD_CONTEXT))
    if "id" in td and not (isinstance(td["id"], str) and _URI.fullmatch(td["id"])):
        yield Fault("id", "expected a URI, such as urn:uuid:…")
    elif len(td.get("id", "")) > ID_CHARACTERS_MAX:
        yield Fault("id", f"expected at most {ID_CHARACTERS_MAX} characters")
    yield from _people(td, "")
    yield from _texts(td, "", "base", "support")
    for name in ("created", "modified"):
        yield from _time(td, name, "")
    definitions = td.get("securityDefinitions", {})
    if not isinstance(definitions, Mapping) or ("securityDefinitions" in td and not definitions):
        yield Fault("securityDefinitions", "expected an object with a member for each scheme")
        definitions = {}
    for name, scheme in definitions.items():
        said = scheme.get("scheme") if isinstance(scheme, Mapping) else None
        if not isinstance(said, str) or not (said in _SCHEMES or said.find(":") > 0):
            yield Fault(f"securityDefinitions.{name}.scheme", f"expected one of {', '.join(_SCHEMES)}, or prefix:name")
    yield from _security(td, "", definitions)
    version = td.get("version", {"instance": ""})
    if not isinstance(version, Mapping) or not isinstance(version.get("instance"), str):
        yield Fault("version.instance", "missing: expected text")
    links = td.get("links", [])
    if not isinstance(links, list):
        yield Fault("links", "expected an array")
    else:
        for index, link in enumerate(links):
            if not isinstance(link, Mapping) or not isinstance(link.get("href"), str):
                yield Fault(f"links.{index}.href", "missing: expected a URI")
    if "forms" in td:
        yield from _forms(td["forms"], "", "forms", definitions)
    yield from _data_schemas(td, "uriVariables", "")
    for kind in ("properties", "actions", "events"):
        group = td.get(kind, {})
        if not isinstance(group, Mapping):
            yield Fault(kind, "expected an object with a member for each of them")
            continue
        for name, said in group.items():
            yield from _affordance(said, kind, f"{kind}.{name}", definitions)
    yield from _registration(td.get("registration", {}), now_ns)


def _context(said: Any) -> Iterator[Fault]:
    known = (TD_CONTEXT_2019, TD_CONTEXT)
    every = said if isinstance(said, list) else [said]
    if not every or every[0] not in known:
        yield Fault("@context", f"expected {TD_CONTEXT} or {TD_CONTEXT_2019}, alone or as the first of an array")
    elif not all(isinstance(each, str | Mapping) for each in every):
        yield Fault("@context", "expected URIs and objects")
    elif every[0] == TD_CONTEXT and TD_CONTEXT_2019 in every:
        yield Fault("@context", f"expected {TD_CONTEXT_2019} before {TD_CONTEXT}")


def _people(said: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """Titles, descriptions and semantic types."""
    yield from _texts(said, path, "title", "description")
    for name in ("titles", "descriptions"):
        texts = said.get(name, {})
        if not isinstance(texts, Mapping) or not all(isinstance(each, str) for each in texts.values()):
            yield Fault(path + name, "expected an object of texts by language")
    types = said.get("@type", [])
    types = types if isinstance(types, list) else [types]
    if not all(isinstance(each, str) for each in types):
        yield Fault(f"{path}@type", "expected text, or an array of texts")
    elif "tm:ThingModel" in types:
        yield Fault(f"{path}@type", "a Thing Model is no Thing Description")


def _texts(said: Mapping[str, Any], path: str, *names: str) -> Iterator[Fault]:
    for name in names:
        if name in said and not isinstance(said[name], str):
            yield Fault(path + name, "expected text")


def _time(said: Mapping[str, Any], name: str, path: str) -> Iterator[Fault]:
    if name not in said:
        return
    try:
        unix_ns_of(said[name])
    except (ValueError, TypeError, OverflowError):
        yield Fault(path + name, "expected a date-time of RFC 3339, such as 2026-02-01T10:00:00Z")


def _security(said: Mapping[str, Any], path: str, definitions: Mapping[str, Any]) -> Iterator[Fault]:
    if "security" not in said:
        return
    names = said["security"] if isinstance(said["security"], list) else [said["security"]]
    if not names or not all(isinstance(each, str) for each in names):
        yield Fault(f"{path}security", "expected the name of a security definition, or several")
        return
    for each in names:
        if definitions and each not in definitions:  # without any, one fault says it
            yield Fault(f"{path}security", f"{each!r} is not in securityDefinitions")


def _forms(said: Any, kind: str, path: str, definitions: Mapping[str, Any]) -> Iterator[Fault]:
    """`kind`: whose forms, a key of `_OPERATIONS`."""
    if not isinstance(said, list) or not said:
        yield Fault(path, "expected an array with at least one form")
        return
    for index, form in enumerate(said):
        inner = f"{path}.{index}."
        if not isinstance(form, Mapping):
            yield Fault(f"{path}.{index}", "expected an object")
            continue
        if not isinstance(form.get("href"), str):
            yield Fault(f"{inner}href", "missing: expected a URI")
        yield from _texts(form, inner, "contentType", "contentCoding", "subprotocol")
        yield from _security(form, inner, definitions)
        operations = form.get("op", [] if kind == "" else [_OPERATIONS[kind][0]])
        operations = operations if isinstance(operations, list) else [operations]
        if not operations or not all(each in _OPERATIONS[kind] for each in operations):
            yield Fault(f"{inner}op", f"expected some of {', '.join(_OPERATIONS[kind])}")


def _affordance(said: Any, kind: str, path: str, definitions: Mapping[str, Any]) -> Iterator[Fault]:
    if not isinstance(said, Mapping):
        yield Fault(path, "expected an object")
        return
    yield from _forms(said.get("forms"), kind, f"{path}.forms", definitions)
    if kind != "properties":
        yield from _people(said, f"{path}.")
        for name in _SCHEMAS[kind]:
            if name in said:
                yield from _data_schema(said[name], f"{path}.{name}")
    else:
        yield from _data_schema(said, path)
    yield from _data_schemas(said, "uriVariables", f"{path}.")


def _data_schemas(said: Mapping[str, Any], name: str, path: str) -> Iterator[Fault]:
    group = said.get(name, {})
    if not isinstance(group, Mapping):
        yield Fault(path + name, "expected an object of data schemas")
        return
    for key, schema in group.items():
        yield from _data_schema(schema, f"{path}{name}.{key}")


def _data_schema(said: Any, path: str) -> Iterator[Fault]:
    if not isinstance(said, Mapping):
        yield Fault(path, "expected a data schema, an object")
        return
    yield from _people(said, f"{path}.")
    if "type" in said and said["type"] not in _TYPES:
        yield Fault(f"{path}.type", f"expected one of {', '.join(_TYPES)}")
    for name, is_right, words in _MEMBERS:
        if name in said and not is_right(said[name]):
            yield Fault(f"{path}.{name}", words)
    yield from _data_schemas(said, "properties", f"{path}.")
    inner = said.get("items", [])
    for index, each in enumerate(inner if isinstance(inner, list) else [inner]):
        yield from _data_schema(each, f"{path}.items.{index}" if isinstance(inner, list) else f"{path}.items")
    alternatives = said.get("oneOf", [])
    for index, each in enumerate(alternatives if isinstance(alternatives, list) else ()):
        yield from _data_schema(each, f"{path}.oneOf.{index}")


def _registration(said: Any, now_ns: int) -> Iterator[Fault]:
    if not isinstance(said, Mapping):
        yield Fault("registration", "expected an object")
        return
    for name in ("created", "modified", "expires", "retrieved"):
        yield from _time(said, name, "registration.")
    ttl = said.get("ttl", 1)
    if not _is_number(ttl) or not 0 < ttl <= TTL_MAX:
        yield Fault("registration.ttl", f"expected seconds, more than 0 and at most {TTL_MAX:,}")
    elif "ttl" not in said and "expires" in said and isinstance(said["expires"], str):
        try:
            left_ns = unix_ns_of(said["expires"]) - now_ns
            if left_ns <= 0:
                yield Fault("registration.expires", "this time has passed")
            elif left_ns > TTL_MAX * 1_000_000_000:
                yield Fault("registration.expires", f"expected a time within {TTL_MAX:,} seconds")
        except (ValueError, OverflowError):
            return  # it is told above


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


#: Members of data schemas, and of properties: whether a value is right, and what it should be.
_MEMBERS: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    *((name, _is_flag, "expected true or false") for name in ("observable", "readOnly", "writeOnly")),
    *((name, lambda value: isinstance(value, str), "expected text") for name in ("unit", "format", "pattern")),
    *((name, _is_number, "expected a number") for name in ("minimum", "maximum", "multipleOf")),
    ("enum", lambda value: isinstance(value, list) and bool(value), "expected an array of values"),
    ("oneOf", lambda value: isinstance(value, list), "expected an array of data schemas"),
    (
        "required",
        lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
        "expected names",
    ),
)
