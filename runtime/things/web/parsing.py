"""Parsing: the headers and bodies of requests of HTTP."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from appbackplane.transport import call_checks
from appbackplane.transport.errors import InvalidArgument

#: Seconds for the body of a request, at most 1 MiB.
BODY_S: Final = 30.0
#: In the place of a body that is empty.
NOTHING: Final = object()


async def json_of(request: web.Request) -> Any:
    """The body; `NOTHING` if it is empty."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        raise web.HTTPUnsupportedMediaType(text="send the body as it is, without a Content-Encoding")
    try:
        async with asyncio.timeout(BODY_S):
            body = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body did not come within {BODY_S:g} s") from None
    if not body:
        return NOTHING
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors, and so is text that is not UTF-8
        raise InvalidArgument(f"the body is not valid JSON: {error}") from None


def from_json(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    """A value of JSON as Python has it: base64 text that stands for bytes is decoded, wherever the schema says so."""
    if isinstance(value, str):
        if any(each.get("contentEncoding") == "base64" for each in (schema, *schema.get("oneOf", ()))):
            try:
                return b64decode(value, validate=True)
            except ValueError as error:
                raise InvalidArgument(f"argument {where!r}: expected base64: {error}") from None
        return value
    for alternative in schema.get("oneOf", ()):
        value = from_json(value, alternative, where)
    if isinstance(value, list) and "items" in schema:
        return [from_json(each, schema["items"], where) for each in value]
    if isinstance(value, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        others = others if isinstance(others, dict) else {}
        return {name: from_json(each, fields.get(name, others), where) for name, each in value.items()}
    return value


def priority_of(request: web.Request) -> int | None:
    """RFC 9218: `u=0` to `u=7` map to the priorities 0 to 7."""
    for member in request.headers.get("Priority", "").split(","):
        key, _, value = member.strip().partition("=")
        if key == "u" and value in ("0", "1", "2", "3", "4", "5", "6", "7"):
            return int(value)
    return None


def timeout_s_of(request: web.Request) -> float:
    """The time of a call, in seconds."""
    return wait_s_of(request) or call_checks.TIMEOUT_DEFAULT_S


def wait_s_of(request: web.Request) -> float | None:
    """RFC 7240: `Prefer: wait=10` seconds. None: the client does not say."""
    for member in request.headers.get("Prefer", "").split(","):
        key, _, value = member.strip().partition("=")
        if key == "wait" and value.isascii() and value.isdecimal() and len(value) <= 4 and 0 < int(value) <= 3_600:
            return float(value)
    return None


def natural_of(request: web.Request, name: str, default: int) -> int:
    value = request.query.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise InvalidArgument(f"{name}={value!r}: expected a number from 0 on")
    return int(value)
