"""Route: the endpoint by which a message arrives from anywhere: `COMPONENT.MESSAGE`, with its fields as arguments.

The fields are checked against the message's annotations in the receiving thread (law 7), like arguments of an operation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from appbackplane.transport.errors import InvalidArgument, text_of

from ..objects import binding
from ..objects.action import Action
from ..objects.binding import Binding
from ..objects.endpoint import Endpoint, Request
from .message import Message, MessageSpec

if TYPE_CHECKING:
    from .dispatcher_base import DispatcherBase
    from .registration import HandlerEntry


class MessageEndpoint(Endpoint):
    """Turns requests into deliveries of one message."""

    def __init__(
        self, dispatcher: DispatcherBase, spec: MessageSpec, priority: int, entries: Sequence[HandlerEntry]
    ) -> None:
        bound = binding_of(spec)
        signature = bound.signature + "".join(_answer(each) for each in entries if each.answers)
        super().__init__(
            spec.name,
            priority=priority,
            summary=(vars(spec.type).get("__doc__") or "").strip().partition("\n")[0],
            signature=signature,
            topic=spec.topic,
            export=spec.export,
        )
        self._dispatcher = dispatcher
        self._spec = spec
        self._binding = bound
        self._make = _maker(spec.type)

    def create_action(self, request: Request) -> Action | None:
        """The delivery, or the forward to its shard; None: a published one of another shard. Raises `InvalidArgument`."""
        values = self._binding.bind(request.body, request.route)
        try:
            message = self._make(*values)
        except (TypeError, ValueError) as error:  # from its own __post_init__: the types of its fields are right
            raise InvalidArgument(f"{request.route}: {text_of(error)}") from None
        shards = self._dispatcher._shards
        if shards is not None and request.topic is not None and not shards.is_here(message):
            return None
        return self._dispatcher._action_of(message, request.priority, request.deadline_ns, request)


def binding_of(spec: MessageSpec) -> Binding:
    """Converts a map of arguments to the fields of a message, in their order."""
    fields = msgspec.structs.fields(spec.type)
    plain: list[Any] = []
    for field in fields:
        if field.default_factory is not msgspec.NODEFAULT:
            plain.append(None)
        elif field.default is not msgspec.NODEFAULT:
            plain.append(binding.plain(field.encode_name, field.type, field.default))
        else:
            plain.append(binding.plain(field.encode_name, field.type))

    def convert(arguments: Any) -> tuple[Any, ...]:
        return msgspec.structs.astuple(
            msgspec.convert(arguments, spec.type, builtin_types=(bytes, bytearray, memoryview))
        )

    signature = ", ".join(_text(field) for field in fields)
    return Binding(None if None in plain else plain, convert, f"({signature})")


def _maker(cls: type[Message]) -> Callable[..., Message]:
    """A function that makes a message from its fields in their order."""
    names = cls.__struct_fields__
    parameters = inspect.signature(cls).parameters.values()
    if not any(each.kind is each.KEYWORD_ONLY for each in parameters):
        return cls
    return lambda *values: cls(**dict(zip(names, values, strict=True)))


def _text(field: Any) -> str:
    kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    default = "" if field.default is msgspec.NODEFAULT else f" = {field.default!r}"
    return f"{field.encode_name}: {kind}{default}"


def _answer(entry: HandlerEntry) -> str:
    kind = inspect.signature(entry.handler).return_annotation
    return f" -> {inspect.formatannotation(kind)}".replace("'", "")
