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
        super().__init__(inner.spec, lane=inner.lane, lock=inner.lock)
        self._inner = inner
        #: What has been mapped.
        self._blocks: list[Block] = []

    def resolve(self) -> Message | None:
        """Map them. Raises `BlockGone`."""
        message = None if self._inner.is_cancelled else self._inner.resolve()
        if message is not None:
            for block in blocks_in(message):
                MAPPINGS.map(block)
                self._blocks.append(block)
        return message

    def cancel(self) -> bool:
        """No handler begins with it any more."""
        super().cancel()
        return self._inner.cancel()

    def release(self) -> None:
        """Let go of what was mapped, and let the owners know. What was never looked at may be sent again: its lease ends it."""
        blocks, self._blocks = self._blocks, []
        for block in blocks:
            MAPPINGS.unmap(block)
            pool = BlockPool.of_token(block.token) if block.pid == os.getpid() else None
            if pool is not None:
                pool.done(block.token)
            else:
                say_done(block)
        self._inner.release()
