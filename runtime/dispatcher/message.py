"""Message: what is dispatched. A frozen msgspec struct with an identity, (category, id), that no other message may have.

Seed 003, section 3.2: "a message is a class inheriting a specialization of template Messages with two integer parameters,
CategoryID and MessageID". The category is what eavesdroppers listen to; the pair is how a foreign protocol names the message.
Over our own wire it travels as what it is: a route `COMPONENT.NAME`, and its fields as the body. Frozen, because several
handlers see the same one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

import msgspec

from ..objects.operation import DeclarationError


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Subclass it, and give it an identity with `@message`.

    >>> @message(category=1, id=7, key="room")
    ... class Reading(Message):
    ...     room: str
    ...     celsius: float
    """

    __message__: ClassVar[MessageSpec]


class MessageSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What `@message` declared."""

    type: type[Message]
    #: Last word of its route.
    name: str
    category: int
    id: int
    #: The field whose value says what it is about: messages with one value are handled in order, one after the other.
    key: str | None = None
    #: 0 is highest; None: the dispatcher's business.
    priority: int | None = None
    #: How often it is expected, Hz; for rate-monotonic priorities.
    rate: float | None = None
    #: The topic by which it arrives, besides its route.
    topic: str | None = None


M = TypeVar("M", bound=type[Message])


class Messages:
    """The identities there are: a message is found by its pair, and no two have one."""

    def __init__(self) -> None:
        self._by_identity: dict[tuple[int, int], MessageSpec] = {}

    def add(self, spec: MessageSpec) -> None:
        """Take a message in. Raises `DeclarationError` when another has its identity.

        A class that is defined anew, in the same place, replaces the old one: modules are reloaded.
        """
        taken = self._by_identity.get((spec.category, spec.id))
        if taken is not None and _place(taken.type) != _place(spec.type):
            raise DeclarationError(
                f"{_place(spec.type)}: category {spec.category}, id {spec.id} is {_place(taken.type)}: give it another id"
            )
        self._by_identity[spec.category, spec.id] = spec

    def find(self, category: int, id: int) -> MessageSpec | None:
        """The message of this identity."""
        return self._by_identity.get((category, id))


#: Those of this process.
MESSAGES = Messages()


def message(
    *,
    category: int,
    id: int,
    key: str | None = None,
    priority: int | None = None,
    rate: float | None = None,
    topic: str | None = None,
    name: str | None = None,
    among: Messages = MESSAGES,
) -> Callable[[M], M]:
    """Give a `Message` its identity.

    `key`: the field that says what it is about. Messages of one key are handled in the order in which they came (law 1),
    a `SelectiveProtector` chooses by it, and shards are found by it. `priority`: 0 is highest. `rate`: how often it is
    expected, Hz, for dispatchers with rate-monotonic priorities. `topic`: where it is heard, besides its route. `name`: the
    last word of its route, default the class name in snake_case. Raises `DeclarationError`.
    """

    def declare(cls: M) -> M:
        spec = MessageSpec(
            type=_checked(cls), name=name or _snake(cls.__name__), category=category, id=id, key=key, priority=priority,
            rate=rate, topic=topic,
        )  # fmt: skip
        among.add(spec)
        cls.__message__ = spec
        return cls

    return declare


def spec_of(cls: Any) -> MessageSpec | None:
    """What was declared of a class itself; None for what is no message."""
    spec = vars(cls).get("__message__") if isinstance(cls, type) else None
    return spec if isinstance(spec, MessageSpec) else None


def _checked(cls: Any) -> type[Message]:
    if not (isinstance(cls, type) and issubclass(cls, Message)):
        raise DeclarationError(f"@message on {cls!r}: expected a class derived from Message")
    return cls


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
