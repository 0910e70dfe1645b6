"""Completions: the messages in which operations of a socket source end, and what else it tells.

Ready-made, and internal: no client sends one, and no peer (framing.py). A source that is given `tells={Received: Arrived}`
tells `Arrived` instead, whose fields are filled by their names: it has those of the ready-made one that it wants, and what it
has besides has defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ....objects.operation import DeclarationError
from ...message import Message, message, spec_of

#: Of all ready-made messages. The last of 16 bits: as far from what people choose as it gets.
CATEGORY: Final = 0xFFFF


@message(category=CATEGORY, id=1, internal=True)
class Listening(Message):
    """`begin_listen` has done: this is where."""

    transaction: int
    address: str


@message(category=CATEGORY, id=2, internal=True)
class Accepted(Message):
    """Somebody has connected to what `begin_listen` (the transaction) has begun."""

    transaction: int
    connection: int
    peer: str


@message(category=CATEGORY, id=3, internal=True)
class Connected(Message):
    """`begin_connect` has done."""

    transaction: int
    connection: int
    peer: str


@message(category=CATEGORY, id=4, internal=True)
class Received(Message):
    """`begin_read` has done."""

    transaction: int
    connection: int
    data: bytes


@message(category=CATEGORY, id=5, internal=True)
class Written(Message):
    """`begin_write` has done: it is the kernel's now."""

    transaction: int
    connection: int


@message(category=CATEGORY, id=6, internal=True)
class Failed(Message):
    """An operation has not done what it was to do. `connection`: 0 where there is none."""

    transaction: int
    connection: int
    because: str


@message(category=CATEGORY, id=7, internal=True)
class Closed(Message):
    """There is no such connection any more; whatever else it had to tell has been told."""

    connection: int
    because: str


@message(category=CATEGORY, id=8, internal=True)
class Malformed(Message):
    """What has come is no message of the protocol; `data`: how it begins. The connection goes on, if it can."""

    connection: int
    because: str
    data: bytes


READY: Final[tuple[type[Message], ...]] = (
    Listening, Accepted, Connected, Received, Written, Failed, Closed, Malformed,
)  # fmt: skip


class Tells:
    """What is told for each of the ready-made ones."""

    def __init__(self, instead: Mapping[type[Message], type[Message]]) -> None:
        """Raises `DeclarationError`."""
        for ready, kind in instead.items():
            if ready not in READY:
                raise DeclarationError(f"tells: {ready!r} is none of {', '.join(each.__name__ for each in READY)}")
            if spec_of(kind) is None:
                raise DeclarationError(f"tells: {kind!r} is not a message: declare it with @message(category=…, id=…)")
            lacking = [
                field.name
                for field in msgspec.structs.fields(kind)
                if field.required and field.name not in ready.__struct_fields__
            ]
            if lacking:
                raise DeclarationError(
                    f"tells: nothing fills {kind.__name__}.{lacking[0]}: {ready.__name__} has "
                    f"{', '.join(ready.__struct_fields__)}; give it a default"
                )
        self._kinds = {
            ready: (
                kind := instead.get(ready, ready),
                tuple(set(kind.__struct_fields__) & set(ready.__struct_fields__)),
            )
            for ready in READY
        }

    def kind(self, ready: type[Message]) -> type[Message]:
        """What is told instead of it."""
        return self._kinds[ready][0]

    def make(self, ready: type[Message], **facts: Any) -> Message:
        """The message."""
        kind, names = self._kinds[ready]
        return kind(**{name: facts[name] for name in names})
