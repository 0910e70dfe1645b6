"""BlockMemory: sealed memfds, mapped where they are needed. No other file maps memory for messages.

A block is opened as /proc/PID/fd/FD, as any process of the same user may. It is accepted only if its name bears the block's
token and it is sealed: then nobody can change or truncate it under the reader, which would kill the reader (SIGBUS). A receiver
that has mapped a block keeps it, even if the owner dies. A receiver that is done writes the token into the owner's pipe, which
it finds the same way (/proc/PID/fd), with its inode checked. If the pipe is full or gone, the block is freed when the owner's
lease expires.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import stat
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from appbackplane.transport.errors import InvalidArgument

from .block import VIEWS, Block, BlockGone

#: Nobody can write it, resize it or unseal it.
SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_TOKEN: Final = struct.Struct("=Q")

log = logging.getLogger("appbackplane.runtime")


def make(size: int, fill: Callable[[memoryview], object]) -> tuple[int, int]:
    """New memory, filled and sealed: (descriptor, token). Raises OSError, and the errors of `fill`."""
    token = 0
    while not token:
        (token,) = _TOKEN.unpack(os.urandom(_TOKEN.size))
    fd = os.memfd_create(_name(token), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        memory = mmap.mmap(fd, size)
        view = memoryview(memory)
        try:
            fill(view)
        finally:
            view.release()
            try:
                memory.close()
            except BufferError:
                raise InvalidArgument(
                    "the function that filled a block has kept a part of its view: a block is sealed, and cannot be written "
                    "again"
                ) from None
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd, token


class _Mapped:
    __slots__ = ("count", "memory")

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        #: Its users: deliveries, and messages queued for eavesdroppers.
        self.count = 1


class Mappings:
    """The blocks mapped in this process: each once, for any number of messages that refer to it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._mapped: dict[int, _Mapped] = {}
        #: Blocks that stayed mapped because a handler kept a part of their view.
        self.kept_count = 0

    def __len__(self) -> int:
        return len(self._mapped)

    def map(self, block: Block) -> None:
        """Map a block, or add a user to its mapping. Raises `BlockGone`."""
        with self._mutex:
            found = self._mapped.get(block.token)
            if found is not None:
                if len(found.memory) != block.size:
                    raise _gone(block, "its size or its seals do not match the reference")
                found.count += 1
                return
            memory = _open(block)
            self._mapped[block.token] = _Mapped(memory)
            VIEWS[block.token] = memoryview(memory)

    def unmap(self, block: Block) -> None:
        """Remove a user of a block; the last one unmaps it."""
        with self._mutex:
            found = self._mapped[block.token]
            found.count -= 1
            if found.count:
                return
            del self._mapped[block.token]
            try:
                VIEWS.pop(block.token).release()
                found.memory.close()
                return
            except BufferError:
                self.kept_count += 1
        log.warning(
            "a handler has kept a part of a block of %d bytes: its memory stays allocated until that part is freed; copy "
            "data to keep them",
            block.size,
        )


#: The mappings of this process.
MAPPINGS = Mappings()


def _open(block: Block) -> mmap.mmap:
    try:
        fd = os.open(f"/proc/{block.pid:d}/fd/{block.fd:d}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        raise _gone(block, error) from None
    try:
        if f"/memfd:{_name(block.token)} " not in os.readlink(f"/proc/self/fd/{fd}") + " ":
            raise _gone(block, "its descriptor is another file's now")
        if os.fstat(fd).st_size != block.size or fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS != SEALS:
            raise _gone(block, "its size or its seals do not match the reference")
        return mmap.mmap(fd, block.size, prot=mmap.PROT_READ)
    except OSError as error:
        raise _gone(block, error) from None
    finally:
        os.close(fd)


def _gone(block: Block, because: object) -> BlockGone:
    return BlockGone(f"a block of {block.size:,} bytes of process {block.pid} is gone: {because}")


def _name(token: int) -> str:
    return f"appbackplane-block-{token:016x}"


def say_done(block: Block) -> bool:
    """Notify a block's owner, in another process, that a receiver is done; False: the owner cannot be reached."""
    try:
        fd = os.open(f"/proc/{block.pid:d}/fd/{block.pipe:d}", os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        found = os.fstat(fd)
        if not stat.S_ISFIFO(found.st_mode) or found.st_ino != block.pipe_inode:
            return False
        return os.write(fd, _TOKEN.pack(block.token)) == _TOKEN.size
    except OSError:
        return False
    finally:
        os.close(fd)


class DonePipe:
    """The pipe by which receivers in other processes report that they are done."""

    def __init__(self) -> None:
        """Raises OSError if no descriptors are left."""
        self._read_fd, self.fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.inode = os.fstat(self.fd).st_ino

    def read(self) -> list[int]:
        """The tokens received since the last call."""
        data = b""
        with suppress(BlockingIOError):
            # Writes up to PIPE_BUF are atomic (pipe(7)), so no token is cut.
            while chunk := os.read(self._read_fd, 512 * _TOKEN.size):
                data += chunk
        whole = len(data) - len(data) % _TOKEN.size
        return [token for (token,) in _TOKEN.iter_unpack(data[:whole])]

    def close(self) -> None:
        """Close both ends; reports of receivers fail from then on."""
        os.close(self._read_fd)
        os.close(self.fd)
