"""BlockHandle: a message with blocks, from when it has come until its last handler has returned."""

from __future__ import annotations

import os

from ..handles import Handle, Ready
from ..message import Message
from .block import Block, blocks_in
from .block_memory import MAPPINGS, say_done
from .block_pool import BlockPool


class BlockHandle(Handle):
    """Around a message, or around the handle of one."""

    __slots__ = ("_blocks", "_inner")

    def __init__(self, message: Message | Handle) -> None:
        inner = message if isinstance(message, Handle) else Ready(message)
        self._inner = inner
        self.spec, self.lane, self.lock = inner.spec, inner.lane, inner.lock
        #: What has been mapped.
        self._blocks: list[Block] = []

    def resolve(self) -> Message | None:
        """Map them. Raises `BlockGone`."""
        message = self._inner.resolve()
        if message is not None:
            for block in blocks_in(message):
                MAPPINGS.map(block)
                self._blocks.append(block)
        return message

    # Who cancels, or asks whether a handler has begun, knows the inner one.

    @property
    def is_cancelled(self) -> bool:
        """As of the inner one."""
        return self._inner.is_cancelled

    @is_cancelled.setter
    def is_cancelled(self, value: bool) -> None:
        self._inner.is_cancelled = value

    @property
    def has_begun(self) -> bool:
        """Likewise."""
        return self._inner.has_begun

    @has_begun.setter
    def has_begun(self, value: bool) -> None:
        self._inner.has_begun = value

    def release(self) -> None:
        """Let go of what was mapped, and let the owners know.

        What no handler has seen may be sent again, or be on its way to another shard: its lease ends it.
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
