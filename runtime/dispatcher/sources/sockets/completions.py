"""Completions: the ready-made messages by which a socket source reports ends of operations, peers and bad input.

They are internal: no client can send one, and no peer (framing.py). A source with `tells={Received: Arrived}` emits `Arrived`
instead, whose fields are filled by name. It may have any fields of the ready-made message; all its other fields need
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ....objects.operation import DeclarationError
from ...message import Message, message, spec_of

#: Of all ready-made messages. The last 16-bit number: as far as possible from those that people choose.
CATEGORY: Final = 0xFFFF


@message(category=CATEGORY, id=1, internal=True)
class Listening(Message):
    """`begin_listen` has succeeded. `address`: with the actual port."""

    transaction: int
    address: str


@message(category=CATEGORY, id=2, internal=True)
class Accepted(Message):
    """A peer has connected to the listener of `begin_listen` (the transaction)."""

    transaction: int
    connection: int
    peer: str


@message(category=CATEGORY, id=3, internal=True)
class Connected(Message):
    """`begin_connect` has succeeded: the connection is usable."""

    transaction: int
    connection: int
    peer: str


@message(category=CATEGORY, id=4, internal=True)
class Received(Message):
    """`begin_read` has succeeded. `data`: at most its `bytes_max`."""

    transaction: int
    connection: int
    data: bytes


@message(category=CATEGORY, id=5, internal=True)
class Written(Message):
    """`begin_write` has succeeded: the kernel has all bytes."""

    transaction: int
    connection: int


@message(category=CATEGORY, id=6, internal=True)
class Failed(Message):
    """An operation has failed. `connection`: 0 if there is none."""

    transaction: int
    connection: int
    because: str


@message(category=CATEGORY, id=7, internal=True)
class Closed(Message):
    """A connection has ended. All its other messages came before this one."""

    connection: int
    because: str


@message(category=CATEGORY, id=8, internal=True)
class Malformed(Message):
    """Received bytes are no message of the protocol; `data`: their beginning. The connection continues, if it can."""

    connection: int
    because: str
    data: bytes


READY: Final[tuple[type[Message], ...]] = (
    Listening, Accepted, Connected, Received, Written, Failed, Closed, Malformed,
)  # fmt: skip


class CompletionTypes:
    """The message types that a source emits for the ready-made ones."""

    def __init__(self, instead: Mapping[type[Message], type[Message]]) -> None:
        """`instead`: message types by ready-made type. Raises `DeclarationError`."""
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
        """The type emitted for a ready-made one."""
        return self._kinds[ready][0]

    def make(self, ready: type[Message], **facts: Any) -> Message:
        """The message emitted for a ready-made one, with these facts."""
        kind, names = self._kinds[ready]
        return kind(**{name: facts[name] for name in names})
