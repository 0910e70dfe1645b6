"""BlockPool: makes blocks, and keeps their memory until their receivers are done, or their lease has ended.

A receiver that dies, or never maps its block, reports nothing. So each block is taken back after `lease` seconds, by default
the default deadline of a call; a receiver that has mapped it keeps its mapping. The pool is bounded in blocks, because each is
a descriptor, and in bytes. It collects finished blocks when one more is made, and each second while any are lent.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from appbackplane.transport.call_checks import TIMEOUT_DEFAULT_NS
from appbackplane.transport.errors import Busy, InvalidArgument

from ...objects.operation import DeclarationError
from ..protectors import shortened
from .block import Block
from .block_memory import DonePipe, make
from .source import Source

if TYPE_CHECKING:
    from ...objects.action import Action
    from ...objects.platform import WorkHandle

#: Smaller bodies travel inside the message: below 64 to 256 KiB a copy costs less than memory of its own (TRAPS 12).
INLINE_BYTES_MAX: Final = 64 << 10
#: Each is a descriptor; a process has 1,024 by default.
BLOCKS_MAX_DEFAULT: Final = 256
BYTES_MAX_DEFAULT: Final = 256 << 20
#: How often a pool with lent blocks collects finished ones. Receivers of this process return blocks at once; others write
#: into a pipe that is not polled otherwise.
LOOK_NS: Final = 1_000_000_000
#: Retry hint in `Busy`: most blocks are lent for milliseconds.
RETRY_AFTER_S: Final = 0.05


class _Lent:
    __slots__ = ("fd", "left", "size", "until_ns")

    def __init__(self, fd: int, size: int, left: int | None, until_ns: int | None) -> None:
        self.fd, self.size = fd, size
        #: Receivers that are not done; None: their number is unknown.
        self.left = left
        #: End of its lease; None: the clock was not known when it was made.
        self.until_ns = until_ns


class BlockPool(Source):
    """Makes large bodies for messages; from any thread, without waiting.

    >>> def capture(message: Shutter, camera: Camera, blocks: BlockPool, outlet: Outlet) -> None:
    ...     outlet.send("gallery", Picture(camera.name, blocks.make(camera.bytes, camera.read_into)))
    """

    __slots__ = ("_blocks_max", "_bytes_max", "_lease_ns", "_lent", "_lent_bytes", "_mutex", "_pipe", "_timer",
                 "expired_count")  # fmt: skip

    #: The pool that has lent a block, by its token.
    _by_token: WeakValueDictionary[int, BlockPool] = WeakValueDictionary()

    def __init__(
        self,
        *,
        bytes_max: int = BYTES_MAX_DEFAULT,
        blocks_max: int = BLOCKS_MAX_DEFAULT,
        lease: float = TIMEOUT_DEFAULT_NS / 1e9,
    ) -> None:
        """`bytes_max`, `blocks_max`: bounds on lent blocks. `lease`: seconds. Raises `DeclarationError`."""
        for name, value in (("bytes_max", bytes_max), ("blocks_max", blocks_max), ("lease", lease)):
            if not (isinstance(value, (int, float)) and 0 < value < math.inf):
                raise DeclarationError(f"BlockPool: {name}={value!r}: expected more than 0")
        self._bytes_max, self._blocks_max, self._lease_ns = bytes_max, blocks_max, round(lease * 1e9)
        self._mutex = threading.Lock()
        self._lent: dict[int, _Lent] = {}
        self._lent_bytes = 0
        self._pipe: DonePipe | None = None
        self._timer: WorkHandle | None = None
        #: Blocks whose lease ended first: their receivers were not done, or could not report it.
        self.expired_count = 0

    # -- for handlers -------------------------------------------------------------------------------------------------

    def put(self, data: bytes | bytearray | memoryview, *, receivers: int | None = 1) -> Block:
        """A block with these bytes, which are copied once. Parameters and errors as for `make`."""
        view = memoryview(data).cast("B")

        def copy(into: memoryview) -> None:
            into[:] = view

        return self.make(view.nbytes, copy, receivers=receivers)

    def make(self, size: int, fill: Callable[[memoryview], object], *, receivers: int | None = 1) -> Block:
        """A block whose memory `fill` writes directly.

        `receivers`: how many messages will carry it; None: unknown, as with topics, so only its lease ends it.
        Raises `Busy` if the pool has no room now, `InvalidArgument` for a size that it could never hold.
        """
        if receivers is not None and not (type(receivers) is int and receivers > 0):
            raise InvalidArgument(
                f"receivers={receivers!r}: expected the number of messages that carry the block, or None"
            )
        if type(size) is not int:
            raise InvalidArgument(f"a block of {shortened(size)} bytes: expected a number")
        if size < 0 or size > self._bytes_max:
            raise InvalidArgument(f"a block of {size:,} bytes: the pool has {self._bytes_max:,} (bytes_max)")
        if size <= INLINE_BYTES_MAX or self._dispatcher is None:
            small = bytearray(size)
            fill(memoryview(small))
            return Block.of(bytes(small))
        self._check_open()
        self.collect()
        with self._mutex:
            if len(self._lent) >= self._blocks_max or self._lent_bytes + size > self._bytes_max:
                raise Busy(
                    f"{len(self._lent)} blocks of {self._lent_bytes:,} bytes are lent (blocks_max = {self._blocks_max}, "
                    f"bytes_max = {self._bytes_max:,})",
                    retry_after=RETRY_AFTER_S,
                )
            self._lent_bytes += size  # reserved
        try:
            fd, token = make(size, fill)
            try:
                block = self._lend(fd, token, size, receivers)
            except BaseException:
                os.close(fd)
                raise
        except BaseException as error:
            with self._mutex:
                self._lent_bytes -= size
            if isinstance(error, OSError):
                raise Busy(f"a block of {size:,} bytes cannot be made: {error}", retry_after=RETRY_AFTER_S) from error
            raise
        self._look_soon()
        return block

    def drop(self, block: Block) -> None:
        """Take back a block that was not sent, or is no longer needed; a receiver that has it mapped keeps its mapping."""
        self._take_back({block.token})

    def collect(self) -> None:
        """Take back blocks whose receivers are done, and those whose lease has ended."""
        now_ns = self._now_ns()
        over = set()
        with self._mutex:
            if self._pipe is not None:
                for token in self._pipe.read():
                    if self._has_done(token):
                        over.add(token)
            for token, lent in self._lent.items():
                if lent.until_ns is None and now_ns is not None:
                    lent.until_ns = now_ns + self._lease_ns
                if lent.until_ns is not None and now_ns is not None and now_ns >= lent.until_ns and token not in over:
                    over.add(token)
                    self.expired_count += 1
        self._take_back(over)

    @property
    def lent_count(self) -> int:
        """Number of blocks that are lent now."""
        return len(self._lent)

    @property
    def lent_bytes(self) -> int:
        """Bytes of the blocks that are lent now."""
        return self._lent_bytes

    # -- with the states ----------------------------------------------------------------------------------------------

    def end_emitting(self) -> None:
        """Take all blocks back: a receiver that has not mapped one yet gets `BlockGone`."""
        self.close()

    def close(self) -> None:
        """Give back all memory and descriptors."""
        self._take_back(set(self._lent))
        with self._mutex:
            pipe, self._pipe, self._timer = self._pipe, None, None
        if pipe is not None:
            pipe.close()

    def __del__(self) -> None:
        if hasattr(self, "_timer"):  # its constructor has finished
            self.close()

    def _drain(self) -> None:
        """Goes on lending: blocks of handlers belong to work that has begun."""

    # -- for its parts ------------------------------------------------------------------------------------------------

    @classmethod
    def of_token(cls, token: int) -> BlockPool | None:
        """The pool of this process that has lent a block; None: it has been taken back."""
        return cls._by_token.get(token)

    def done(self, token: int) -> None:
        """A receiver in this process is done with a block."""
        with self._mutex:
            is_over = self._has_done(token)
        if is_over:
            self._take_back({token})

    def _lend(self, fd: int, token: int, size: int, receivers: int | None) -> Block:
        now_ns = self._now_ns()
        with self._mutex:
            if self._pipe is None:
                self._pipe = DonePipe()
            pipe = self._pipe
            self._lent[token] = _Lent(fd, size, receivers, None if now_ns is None else now_ns + self._lease_ns)
        self._by_token[token] = self
        return Block(size, b"", os.getpid(), fd, pipe.fd, pipe.inode, token)

    def _has_done(self, token: int) -> bool:
        lent = self._lent.get(token)
        if lent is None or lent.left is None:
            return False
        lent.left -= 1
        return lent.left <= 0

    def _take_back(self, tokens: set[int]) -> None:
        for token in tokens:
            with self._mutex:
                lent = self._lent.pop(token, None)
                if lent is not None:
                    self._lent_bytes -= lent.size
            if lent is not None:
                self._by_token.pop(token, None)
                os.close(lent.fd)

    def _now_ns(self) -> int | None:
        dispatcher = self._dispatcher
        return None if dispatcher is None or dispatcher._hosted_by is None else dispatcher._hosted_by.now_ns()

    def _look_soon(self) -> None:
        dispatcher = self._dispatcher
        if self._timer is not None or not self._is_running or dispatcher is None:
            return
        try:
            timer = dispatcher._platform.later(
                dispatcher, f"{dispatcher.component_name}.blocks", LOOK_NS, LOOK_NS, self._look
            )
        except Busy:
            return  # `make` collects, too
        with self._mutex:
            is_first = self._timer is None
            if is_first:
                self._timer = timer
        if not is_first:
            timer.cancel()

    def _look(self) -> Action | None:
        """Timer callback: called by the scheduler, with the lead."""
        self.collect()
        with self._mutex:
            timer = None
            if not self._lent:
                timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return None
