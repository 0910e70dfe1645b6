"""BlockHandle: keeps the blocks of a message mapped, from its turn until its last handler has returned."""

from __future__ import annotations

import os

from ..handles import Handle, ReadyHandle
from ..message import Message
from .block import Block, blocks_in
from .block_memory import MAPPINGS, say_done
from .block_pool import BlockPool


class BlockHandle(Handle):
    """Wraps a message with blocks, or another handle of one."""

    __slots__ = ("_blocks", "_inner")

    def __init__(self, message: Message | Handle) -> None:
        inner = message if isinstance(message, Handle) else ReadyHandle(message)
        self._inner = inner
        self.spec, self.ordering_key, self.lock = inner.spec, inner.ordering_key, inner.lock
        #: Blocks mapped so far.
        self._blocks: list[Block] = []

    def resolve(self) -> Message | None:
        """Resolve the message, and map its blocks. Raises `BlockGone`."""
        message = self._inner.resolve()
        if message is not None:
            for block in blocks_in(message):
                MAPPINGS.map(block)
                self._blocks.append(block)
        return message

    # Code that cancels, or asks whether a handler has begun, has the inner handle.

    @property
    def is_cancelled(self) -> bool:
        return self._inner.is_cancelled

    @is_cancelled.setter
    def is_cancelled(self, value: bool) -> None:
        self._inner.is_cancelled = value

    @property
    def has_begun(self) -> bool:
        return self._inner.has_begun

    @has_begun.setter
    def has_begun(self, value: bool) -> None:
        self._inner.has_begun = value

    def release(self) -> None:
        """Unmap the blocks, and notify their owners.

        Owners are not notified if no handler has begun: the message may be sent again, or be forwarded. Then the lease ends it.
        """
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            MAPPINGS.unmap(block)
            if not self.has_begun:
                continue
            if block.pid != os.getpid():
                say_done(block)
            elif (pool := BlockPool.of_token(block.token)) is not None:  # None: it has been taken back
                pool.done(block.token)
        self._inner.release()
