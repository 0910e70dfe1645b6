"""Descriptors: what a client has open beside its link, and what is said of a process that may open no more.

A client is closed by its owner. One that is dropped instead is collected at some time: then its descriptors are closed, too,
and a ResourceWarning names it, as for a file (its link lets go by itself, link.py). Python shows these with `-X dev`.
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

#: What a client has open when it is connected: its link (7), what wakes it, and what tells that the system has gone.
CLIENT: Final = 9
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)


class Descriptors:
    """Of one client. Whoever opens one notes it here, and closes it by `close`."""

    def __init__(self, name: str) -> None:
        """`name`: how the client is called in a warning. Only the client may hold this object: it is collected with it."""
        self._open: set[int] = set()
        self._finalizer = weakref.finalize(self, _left_behind, self._open, name, os.getpid())
        self._finalizer.atexit = False  # a program that ends closes everything

    def note(self, fd: int) -> int:
        """One more."""
        self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        """One less. Out of the list first: a number that is closed twice may be another's by then."""
        self._open.discard(fd)
        os.close(fd)

    def end(self) -> None:
        """The client has been closed as it should."""
        self._finalizer.detach()


def _left_behind(fds: set[int], name: str, pid: int) -> None:
    while fds:
        os.close(fds.pop())
    if os.getpid() == pid:  # of a fork's copy the parent takes care
        warnings.warn(f"unclosed {name}: close it, or use it in a `with`", ResourceWarning, stacklevel=2)


@contextmanager
def opening(count: int = 0) -> Iterator[None]:
    """Raises `FailedPrecondition` with the remedy where a process, or its host, may open no more descriptors; at once, where it
    may not open `count` more: ZeroMQ aborts the process in which one of its threads finds none (epoll.cpp).
    """
    try:
        _try_to_open(count)
        yield
    except OSError as error:
        if error.errno not in _NONE_LEFT:
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
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
