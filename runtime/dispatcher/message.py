"""Message: the unit of dispatch. A frozen msgspec struct with an identity, (category, id), that no other message may have.

Seed 003, section 3.2: "a message is a class inheriting a specialization of template Messages with two integer parameters,
CategoryID and MessageID". Eavesdroppers listen to a category; a foreign protocol names the message by the pair. Over our own
wire it travels as a request: the route `COMPONENT.NAME`, with its fields as the body. Frozen, because several handlers see the
same object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

import msgspec

from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import check_pattern

from ..objects.operation import DeclarationError
from .checks.fields import cannot_travel, changeable, unhashable


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Subclass it, and give it an identity with `@message`.

    >>> @message(category=1, id=7, key="room")
    ... class Reading(Message):
    ...     room: str
    ...     celsius: float
    """

    __message__: ClassVar[MessageSpec]

    def __init_subclass__(cls, **config: Any) -> None:
        # A subclass of a message is another message, with no identity until it is given one.
        super().__init_subclass__(**config)
        cls.__message__ = MessageSpec(type=cls, name="", category=-1, id=-1)


class MessageSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One declaration by `@message`."""

    type: type[Message]
    #: Last word of its route; "": not declared yet.
    name: str
    category: int
    id: int
    #: The field that identifies its subject: messages with one value are handled in order, one after the other.
    key: str | None = None
    #: 0 is highest; None: the dispatcher decides (priorities.py).
    priority: int | None = None
    #: Expected frequency, Hz; for rate-monotonic priorities.
    rate: float | None = None
    #: A topic by which it also arrives, besides its route.
    topic: str | None = None
    #: Whether only the dispatcher's own sources and handlers send it: it has no route.
    internal: bool = False
    #: Whether other nodes may send it.
    export: bool = False


M = TypeVar("M", bound=type[Message])


class Messages:
    """Registry of identities: finds a message by its pair, which no two share."""

    def __init__(self) -> None:
        self._by_identity: dict[tuple[int, int], MessageSpec] = {}

    def add(self, spec: MessageSpec) -> None:
        """Register a message. Raises `DeclarationError` if another has its identity.

        A class of the same module and name replaces the old one, because modules are reloaded.
        """
        taken = self._by_identity.get((spec.category, spec.id))
        if taken is not None and _place(taken.type) != _place(spec.type):
            raise DeclarationError(
                f"{_place(spec.type)}: category {spec.category}, id {spec.id} is {_place(taken.type)}: give it another id"
            )
        self._by_identity[spec.category, spec.id] = spec

    def find(self, category: int, id: int) -> MessageSpec | None:
        """The declaration with this identity; None: there is none."""
        return self._by_identity.get((category, id))


#: The registry of this process.
MESSAGES = Messages()


def message(
    *,
    category: int,
    id: int,
    key: str | None = None,
    priority: int | None = None,
    rate: float | None = None,
    topic: str | None = None,
    internal: bool = False,
    export: bool = False,
    name: str | None = None,
    among: Messages = MESSAGES,
) -> Callable[[M], M]:
    """Give a `Message` its identity.

    `key`: the field that identifies its subject. Messages of one key are handled in the order in which they came (law 1),
    a `SelectiveProtector` selects by it, and shards are found by it. `priority`: 0 is highest. `rate`: expected frequency,
    Hz, for dispatchers with rate-monotonic priorities. `topic`: a topic by which it arrives, besides its route. `internal`:
    it has no route, so only the dispatcher's own timers, sources and handlers can send it. `export`: other nodes may send
    it. `name`: the last word of its route, default the class name in snake_case. Raises `DeclarationError`.
    """

    def declare(cls: M) -> M:
        kind = _checked(cls)
        spec = MessageSpec(
            type=kind, name=_snake(kind.__name__) if name is None else name, category=category, id=id, key=key,
            priority=priority, rate=rate, topic=topic, internal=internal, export=export,
        )  # fmt: skip
        _check(spec)
        among.add(spec)
        cls.__message__ = spec
        return cls

    return declare


def spec_of(cls: Any) -> MessageSpec | None:
    """The declaration of this very class; None: it has none, or is no message."""
    spec = vars(cls).get("__message__") if isinstance(cls, type) else None
    return spec if isinstance(spec, MessageSpec) and spec.name else None


def declared(message: Message) -> MessageSpec:
    """The declaration of a message's class. Raises `DeclarationError` if it has none."""
    spec = spec_of(type(message))
    if spec is None:
        raise undeclared(type(message))
    return spec


def undeclared(cls: type) -> DeclarationError:
    """Error for a message class without an identity of its own."""
    return DeclarationError(f"{cls.__name__} has no identity: declare it with @message(category=…, id=…)")


def _checked(cls: Any) -> type[Message]:
    if not (isinstance(cls, type) and issubclass(cls, Message)) or cls is Message:
        raise DeclarationError(f"@message on {cls!r}: expected a class derived from Message")
    where, config = _place(cls), cls.__struct_config__
    if spec_of(cls) is not None:
        raise DeclarationError(f"{where} has an identity already: one @message is enough")
    if not config.frozen:
        raise DeclarationError(f"{where} is not frozen, and its handlers all get the same one: leave frozen=False out")
    if config.array_like:
        raise DeclarationError(f"{where} is array_like, but its fields arrive by name: leave array_like out")
    if getattr(cls, "__parameters__", ()):
        raise DeclarationError(f"{where} is generic: declare a message for each kind that it may be of")
    if problem := cannot_travel(cls):
        raise DeclarationError(f"{where}: {problem}")
    for field in msgspec.structs.fields(cls):
        if problem := changeable(field.type):
            raise DeclarationError(f"{where}: field {field.name!r}: {problem}: its handlers all get the same message")
    return cls


def _check(spec: MessageSpec) -> None:
    where, fields = _place(spec.type), spec.type.__struct_fields__
    for what, number in (("category", spec.category), ("id", spec.id)):
        if not _is_count(number):
            raise DeclarationError(f"{where}: {what}={number!r}: expected a number, 0 or more")
    if spec.priority is not None and not _is_count(spec.priority):
        raise DeclarationError(f"{where}: priority={spec.priority!r}: expected a number, 0 (the highest) or more")
    rate: Any = spec.rate
    if rate is not None and (type(rate) not in (int, float) or not 0 < rate < math.inf):
        raise DeclarationError(f"{where}: rate={rate!r}: expected how often it comes a second, above 0")
    if type(spec.name) is not str or not spec.name.isidentifier():
        raise DeclarationError(f"{where}: name={spec.name!r}: expected the last word of a route, such as 'reading'")
    if not isinstance(spec.internal, bool) or (spec.internal and spec.topic is not None):
        raise DeclarationError(
            f"{where}: internal={spec.internal!r}: expected True, and no topic, for one that nobody sends"
        )
    if not isinstance(spec.export, bool) or (spec.internal and spec.export):
        raise DeclarationError(
            f"{where}: export={spec.export!r}: expected True, and not internal, for what other nodes send"
        )
    if spec.topic is not None:
        try:
            check_pattern(spec.topic)
        except InvalidArgument as error:
            raise DeclarationError(f"{where}: topic: {error}") from None
    if spec.key is not None:
        if spec.key not in fields:
            raise DeclarationError(
                f"{where} has no field {spec.key!r} to be its key: it has {', '.join(fields) or 'none'}"
            )
        kind = next(field.type for field in msgspec.structs.fields(spec.type) if field.name == spec.key)
        if part := unhashable(kind):
            raise DeclarationError(
                f"{where}: key={spec.key!r}: {part} cannot be hashed: choose a str, a number or an Enum"
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
