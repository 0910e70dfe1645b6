"""Descriptors: a client's descriptors beside its link's, and the error for a process that may open no more.

A client is closed by its owner. If it is dropped instead, the garbage collector closes its descriptors at some time, and a
ResourceWarning names it, as for a file (its link closes by itself, link.py). Python shows these with `-X dev`.
"""

import errno
import os
import resource
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .errors import FailedPrecondition

#: Descriptors of a connected client: its link (7), its wake-up eventfd, and its lifeline.
CLIENT: Final = 9
#: Errors when no descriptor is left.
NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)


class Descriptors:
    """The descriptors of one client: `note` each after opening it, and close it by `close`."""

    def __init__(self, name: str) -> None:
        """`name`: the client's name in a warning. Only the client may hold this object, so that both are collected together."""
        self._open: set[int] = set()
        self._finalizer = weakref.finalize(self, _left_behind, self._open, name, os.getpid())
        self._finalizer.atexit = False  # a program that ends closes everything

    def note(self, fd: int) -> int:
        """Register an open descriptor; returns it."""
        self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor. Removed from the set first: a number that is closed twice may belong to others by then."""
        self._open.discard(fd)
        os.close(fd)

    def end(self) -> None:
        """The client has been closed properly: no warning."""
        self._finalizer.detach()


def _left_behind(fds: set[int], name: str, pid: int) -> None:
    while fds:
        os.close(fds.pop())
    if os.getpid() == pid:  # a forked copy belongs to the parent
        warnings.warn(f"unclosed {name}: close it, or use it in a `with`", ResourceWarning, stacklevel=2)


@contextmanager
def opening(count: int = 0) -> Iterator[None]:
    """Raises `FailedPrecondition`, with the remedy, if the process or its host may open no more descriptors. Checks at once
    that `count` can be opened: ZeroMQ aborts the process in which one of its threads finds none (epoll.cpp).
    """
    try:
        _try_to_open(count)
        yield
    except OSError as error:
        if error.errno not in NONE_LEFT:
            raise
        limit = descriptors_max()
        raise FailedPrecondition(
            f"no file descriptor is left for a connection ({os.strerror(error.errno)}): a client takes {CLIENT}, and one for "
            f"each backplane that it calls; close those that are not needed, or raise the limit of {limit} (ulimit -n)"
        ) from error


def _try_to_open(count: int) -> None:
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.eventfd(0, os.EFD_CLOEXEC))
    finally:
        for fd in opened:
            os.close(fd)


def descriptors_max() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def open_count(limit: int) -> int:
    """Open descriptors of this process; `limit` if that cannot be found out, as when none is left to look."""
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))  # 0 before Linux 6.2
    except OSError:
        return limit
