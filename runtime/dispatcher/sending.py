"""Sending: sends a message as a call or a cast, from a client or from an object of any backplane.

Route, fields and key come from the message, so they always agree. In a sharded dispatcher the key leads to the message's
home, without a detour (shards.py).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, overload

import msgspec

from appbackplane.transport.call_spec import CallSpec
from appbackplane.transport.codec import plain_value

from ..objects.app_object import AppObject
from .message import Message, declared

if TYPE_CHECKING:
    from appbackplane.transport.async_client import AsyncClient
    from appbackplane.transport.client import Client


@overload
def call_message(
    through: Client, component: str, message: Message, *, priority: int | None = ..., timeout: float | None = ...
) -> Any: ...
@overload
def call_message(
    through: AsyncClient | AppObject, component: str, message: Message, *, priority: int | None = ...,
    timeout: float | None = ...,
) -> Awaitable[Any]: ...  # fmt: skip
def call_message(
    through: Client | AsyncClient | AppObject, component: str, message: Message, *, priority: int | None = None,
    timeout: float | None = None,
) -> Any:  # fmt: skip
    """Have the dispatcher `component` handle `message`, and wait: `call_message(client, "cameras", Frame(camera=3))`.

    Returns the answer of its handlers, like `Client.call`. With an `AsyncClient`, or in an operation (`through=self`), it
    returns an awaitable. Raises the errors of `call`.
    """
    route, fields, key = addressed(component, message)
    if isinstance(through, AppObject):
        return through.request(route, fields, key=key, priority=priority, timeout=timeout)
    return through.call(route, key=key, priority=priority, timeout=timeout, arguments=fields)


@overload
def cast_message(
    through: Client | AppObject, component: str, message: Message, *, priority: int | None = ...
) -> None: ...
@overload
def cast_message(
    through: AsyncClient, component: str, message: Message, *, priority: int | None = ...
) -> Awaitable[None]: ...
def cast_message(
    through: Client | AsyncClient | AppObject, component: str, message: Message, *, priority: int | None = None
) -> Awaitable[None] | None:
    """Send `message`, and expect no reply; with an `AsyncClient`, await it. Raises the errors of `cast`."""
    route, fields, key = addressed(component, message)
    if isinstance(through, AppObject):
        through._host.cast(through, CallSpec(route, fields, key=key, priority=priority))
        return None
    return through.cast(route, key=key, priority=priority, arguments=fields)


def addressed(component: str, message: Message) -> tuple[str, dict[str, Any], str | None]:
    """Route, fields and key of a message for `component`. Raises `DeclarationError`."""
    spec = declared(message)
    key = None if spec.key is None else key_text(getattr(message, spec.key))
    return f"{component}.{spec.name}", fields_of(message), key


def key_text(value: Any) -> str | None:
    """A message's key as the key of a call: every process finds the home by this same text."""
    return None if value is None else str(value)


def fields_of(message: Message) -> dict[str, Any]:
    """A message's fields as they travel, copied from the memory of its source, which may be freed before (handles.py)."""
    fields = msgspec.to_builtins(message, builtin_types=(bytes, bytearray, memoryview), enc_hook=plain_value)
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in fields.items()}
