"""Consumed description: what is used of the Thing Description of a thing that lives elsewhere. Pure.

Only URLs of its forms are ever requested, and only at the origins that the configuration allows: by default that of the
description, or of its `base` if it comes from a file. So a description, which others write, names no host of its own choice.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from ..affordances import LOST
from ..description import TD_CONTEXT, TD_CONTEXT_2019, Description
from ..directory.validation import faults_of, is_too_deep

#: Affordances of one thing: each property and action is an operation of this backplane.
AFFORDANCES_MAX: Final = 256
#: Security schemes that can be met with a secret in one file.
SCHEMES: Final = ("nosec", "bearer", "basic", "apikey")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
#: Members of an affordance that say where it is, and not what.
_OF_FORMS: Final = ("forms", "uriVariables")
#: Names of the runtime's own operations of a thing, and of an event that its streams have.
_RESERVED: Final = ("describe", "setters", "notify_all", "notify_changes", LOST)
_METHODS: Final = {"readproperty": "GET", "writeproperty": "PUT", "invokeaction": "POST"}


class DescriptionError(ValueError):
    """A description cannot be used; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Form:
    """A way to interact: a request. `subprotocol`: "sse", "longpoll" or "". `op`: the operation, such as "readproperty".
    `name`: of the affordance. `members`: all of the form, for drivers.
    """

    url: str
    method: str
    subprotocol: str = ""
    op: str = field(default="", compare=False)
    name: str = field(default="", compare=False)
    members: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ConsumedAffordance:
    """A property, action or event. `said`: its members for the model. `read`, `write`, `invoke`, `stream`: how; None: not."""

    name: str
    said: dict[str, Any]
    read: Form | None = None
    write: Form | None = None
    invoke: Form | None = None
    stream: Form | None = None
    #: Whether the input of an action is an object whose members are the arguments here; else its argument is `input`.
    has_arguments: bool = True


@dataclass(frozen=True, slots=True)
class Security:
    """How requests are authenticated: a scheme of `SCHEMES`. `name`: the header of an API key."""

    scheme: str = "nosec"
    name: str = "Authorization"


@dataclass(slots=True)
class ConsumedDescription:
    """One description. `left_out`: the affordances that cannot be used here, with the reason of each."""

    id: str
    title: str
    description: str
    types: tuple[str, ...]
    context: dict[str, str]
    place: str
    security: Security
    properties: dict[str, ConsumedAffordance] = field(default_factory=dict)
    actions: dict[str, ConsumedAffordance] = field(default_factory=dict)
    events: dict[str, ConsumedAffordance] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def description_from(
    data: bytes, url: str, origins: Collection[str], *, has_driver: bool = False
) -> ConsumedDescription:
    """The description in a document. `url`: where it was read; "": a file. `origins`: further ones that its forms may have.
    `has_driver`: its forms, of any protocol, are for a driver, and so is its security.

    Raises `DescriptionError`.
    """
    try:
        td = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise DescriptionError(f"it is no JSON: {error}") from None
    if not isinstance(td, dict) or is_too_deep(td):
        raise DescriptionError("it is no Thing Description: expected a JSON object of some levels")
    context = td.get("@context")
    contexts = context if isinstance(context, list) else [context]
    if TD_CONTEXT not in contexts and TD_CONTEXT_2019 not in contexts:
        raise DescriptionError(
            f"it is a Thing Description of another version: expected 1.1 or 1.0, with {TD_CONTEXT} in @context"
        )
    faults = faults_of(td, 0)  # whether its registration somewhere has expired does not matter
    if faults:
        raise DescriptionError(f"it is no valid Thing Description: {faults[0].field}: {faults[0].description}")
    base = urljoin(url, td.get("base", "")) if url else td.get("base", "")
    allowed = {origin_of(url or base), *origins} - {""}
    found = ConsumedDescription(
        id=td.get("id") or url, title=td["title"], description=str(td.get("description", "")), types=_types(td),
        context=_prefixes(contexts), place=_place(td), security=Security() if has_driver else _security(td),
    )  # fmt: skip
    if not found.id:
        raise DescriptionError('it has no id: give it one, such as "id": "urn:uuid:…"')
    for group, name, said in _affordances(td):
        affordance = _affordance(group, name, said, base, None if has_driver else allowed)
        if isinstance(affordance, str):
            found.left_out.append(f"{group}.{name}: {affordance}")
        elif name in found.properties or name in found.actions:
            found.left_out.append(f"{group}.{name}: another affordance has the same name")
        elif len(found.properties) + len(found.actions) + len(found.events) >= AFFORDANCES_MAX:
            found.left_out.append(f"{group}.{name}: more than {AFFORDANCES_MAX} affordances")
        else:
            getattr(found, group)[name] = affordance
    return found


def origin_of(url: str) -> str:
    """`https://host:port`, with the port of its scheme where it has none; "": it is no URL of HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port or {'http': 80, 'https': 443}[parts.scheme]}"


def is_near(address: str) -> bool:
    """Whether an IP address is of this host, of its link, or of no host. Raises ValueError if it is none."""
    ip = ipaddress.ip_address(address)
    mapped = getattr(ip, "ipv4_mapped", None)
    if mapped is not None:
        ip = mapped
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast or ip.is_reserved


def _affordances(td: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for group in ("properties", "actions", "events"):
        for name, said in td.get(group, {}).items():
            yield group, name, said


def _affordance(
    group: str, name: str, said: Mapping[str, Any], base: str, allowed: Collection[str] | None
) -> ConsumedAffordance | str:
    """The affordance, or why it cannot be used. `allowed`: the origins of its forms; None: they are for a driver."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        return "the name means something else here"
    members = {member: value for member, value in said.items() if member not in _OF_FORMS}
    forms: dict[str, Form] = {}
    problem = "it has no form that can be used: JSON over HTTP"
    for form in said.get("forms", ()):
        operations = form.get("op", _default_operations(group, said))
        for op in [operations] if isinstance(operations, str) else operations:
            key = "stream" if op in ("observeproperty", "subscribeevent") else op
            if key != "stream" and op not in _METHODS:
                continue
            if allowed is None:
                forms.setdefault(key, Form(form["href"], "", op=op, name=name, members=form))
                continue
            url, subprotocol = urljoin(base, form["href"]), form.get("subprotocol", "")
            if form.get("contentType", "application/json").partition(";")[0] not in _CONTENT[key == "stream"]:
                continue
            if (key == "stream") != (subprotocol in ("sse", "longpoll")):
                continue
            if "{" in form["href"]:
                problem = "its form has variables"
            elif origin_of(url) not in allowed:
                problem = f"its form is at {origin_of(url) or url[:200]!r}: add that to `origins` if it is meant"
            elif key not in forms or (subprotocol == "sse" and forms[key].subprotocol != "sse"):
                method = form.get("htv:methodName", _METHODS.get(op, "GET"))
                forms[key] = Form(url, method, subprotocol, op, name, form)
    stream = forms.get("stream")
    if group == "events":
        return problem if stream is None else ConsumedAffordance(name, members, stream=stream)
    if group == "actions":
        invoke = forms.get("invokeaction")
        return (
            problem
            if invoke is None
            else ConsumedAffordance(
                name, _action(members), invoke=invoke, has_arguments=_is_arguments(members.get("input"))
            )
        )
    read, write = forms.get("readproperty"), forms.get("writeproperty")
    if read is None:
        return problem
    members.pop("observable", None)
    members.pop("readOnly", None)
    if write is None or said.get("readOnly"):
        members["readOnly"], write = True, None
    if stream is not None:
        members["observable"] = True
    return ConsumedAffordance(name, _plain(members), read=read, write=write, stream=stream)


_CONTENT: Final = {False: ("application/json",), True: ("application/json", "text/event-stream")}


def _default_operations(group: str, said: Mapping[str, Any]) -> list[str]:
    """Those of a form that names none (TD 1.1, section 5.4)."""
    if group == "actions":
        return ["invokeaction"]
    if group == "events":
        return ["subscribeevent"]
    return [
        *([] if said.get("writeOnly") else ["readproperty"]), *([] if said.get("readOnly") else ["writeproperty"])
    ]  # fmt: skip


def _action(said: dict[str, Any]) -> dict[str, Any]:
    """Members of an action here: its input is an object, and its answer is awaited."""
    schema = said.get("input")
    if schema is not None and not _is_arguments(schema):
        schema = {"type": "object", "properties": {"input": schema}, "required": ["input"]}
    members = {"safe": False, "idempotent": False, **said, "synchronous": True}
    if schema is not None:
        members["input"] = schema
    if said.get("synchronous") is False:  # its answer is a status, and no output
        members.pop("output", None)
    plain: dict[str, Any] = _plain(members)
    return plain


def _is_arguments(schema: Any) -> bool:
    """Whether the input of an action is an object whose members can be arguments of an operation."""
    members = schema.get("properties") if isinstance(schema, dict) else None
    return (
        isinstance(members, dict)
        and schema.get("type") == "object"
        and all(each.isidentifier() and not iskeyword(each) and each != "self" for each in members)
    )


def _plain(schema: Any) -> Any:
    """A schema without the encodings of text: values pass through as they are."""
    if isinstance(schema, dict):
        return {name: _plain(each) for name, each in schema.items() if name not in ("contentEncoding",)}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def _security(td: Description) -> Security:
    names = td["security"] if isinstance(td["security"], list) else [td["security"]]
    schemes = [td["securityDefinitions"][name] for name in names]
    if len(schemes) != 1 or schemes[0]["scheme"] not in SCHEMES or schemes[0].get("in", "header") != "header":
        told = " and ".join(str(each["scheme"]) for each in schemes)
        raise DescriptionError(f"its security is {told}: expected one of {', '.join(SCHEMES)}, in a header")
    return Security(schemes[0]["scheme"], str(schemes[0].get("name", "Authorization")))


def _types(td: Description) -> tuple[str, ...]:
    types = td.get("@type", [])
    return (types,) if isinstance(types, str) else tuple(each for each in types if isinstance(each, str))


def _prefixes(contexts: list[Any]) -> dict[str, str]:
    return {
        prefix: iri
        for each in contexts
        if isinstance(each, dict)
        for prefix, iri in each.items()
        if isinstance(iri, str) and not prefix.startswith("@")
    }


def _place(td: Description) -> str:
    place = td.get("schema:containedInPlace", "")
    return str(place.get("schema:name", "") if isinstance(place, dict) else place)
