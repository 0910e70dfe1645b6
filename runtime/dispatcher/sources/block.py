"""Block: a large body that stays in shared memory, where it was made; only a reference to it travels.

A field of a message: `pixels: Block`. It is mapped when the message's turn has come, and unmapped after its last handler (seed
003, section 3.2), in any process of this node. A small body travels inside the message. A test gives a handler
`Block.of(b"...")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec

from appbackplane.transport.errors import FailedPrecondition, NotFound

from ..message import Message

#: Views of the blocks that are mapped in this process, by token (block_memory.py).
VIEWS: dict[int, memoryview] = {}


class BlockGone(NotFound):
    """A block's owner has died, or has taken its memory back; no handler is called with its message."""


class Block(msgspec.Struct, frozen=True, array_like=True):
    """A body, or a reference to one. Made by a `BlockPool`, or by `of`."""

    size: int
    #: The body itself, if it is small.
    data: bytes = b""
    #: Its owner: process, descriptor of the memory, and descriptor and inode of the pipe to which finished receivers report.
    pid: int = 0
    fd: int = -1
    pipe: int = -1
    pipe_inode: int = 0
    #: Identifies the memory, because descriptor numbers and process ids are reused.
    token: int = 0

    def __post_init__(self) -> None:
        """Check the reference: it may come from an untrusted peer. Raises ValueError."""
        if self.size != len(self.data) if self.is_here else (self.data or self.size < 1 or self.token < 0):
            raise ValueError(
                f"a block of {self.size:,} bytes has {len(self.data):,} in it: make it with a BlockPool, or Block.of"
            )

    @classmethod
    def of(cls, data: bytes) -> Block:
        """A block whose body travels inside the message."""
        return cls(len(data), bytes(data))

    @property
    def is_here(self) -> bool:
        """Whether it contains its body itself."""
        return not self.token

    @property
    def view(self) -> memoryview:
        """Its bytes, read only, without a copy; valid while the handlers of its message run.

        Raises `FailedPrecondition` afterwards.
        """
        if self.is_here:
            return memoryview(self.data)
        found = VIEWS.get(self.token)
        if found is None:
            raise FailedPrecondition(
                f"a block of {self.size:,} bytes was looked at outside of its message's handlers: copy data to keep them, "
                "bytes(block.view)"
            )
        return found


def has_blocks(kind: type[Message]) -> bool:
    """Whether messages of this type may contain blocks."""
    return any(_mentions(annotation) for annotation in get_type_hints(kind).values())


def blocks_in(message: Message) -> list[Block]:
    """The blocks in shared memory, each once, in a message's fields or in collections in them."""
    return list({each.token: each for each in _walk(msgspec.structs.astuple(message)) if not each.is_here}.values())


def _mentions(annotation: Any) -> bool:
    return annotation is Block or any(_mentions(each) for each in get_args(annotation))


def _walk(value: Any) -> Iterator[Block]:
    if isinstance(value, Block):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _walk(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _walk(each)
