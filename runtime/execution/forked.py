"""Forked: what becomes of a child that an operation has forked, once it comes back from the operation: it ends.

It has one thread, which believes itself to be a worker, and its parent's sockets, which no longer work in it (TRAPS 11); yet
it would read wake-ups from descriptors that both share, so that its parent misses them. A child that executes another
program or ends by itself, as those of `subprocess` and `multiprocessing` do, comes to nothing of this.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from .engine import Engine

#: EX_SOFTWARE of sysexits.h, as for other bugs.
EXIT_FORKED = 70
_WORDS = (
    b"a child that an operation has forked has come back from it: it ends here "
    b"(fork only to execute another program, or end the child with os._exit)\n"
)


class _Nothing:
    """In the place of the link: the first use ends the process."""

    def __getattr__(self, name: str) -> Any:
        _end()


def end_children_of(engine: Engine) -> None:
    """From now on."""

    def in_child() -> None:
        engine.link = _Nothing()
        engine.endings.recorder = None  # whose memory is the parent's, too
        engine.publishing.records = {}
        engine.lead._at_fork_reinit()  # type: ignore[attr-defined]  # another thread, which is not here, may have had it

    os.register_at_fork(after_in_child=in_child)


def _end() -> NoReturn:
    os.write(2, _WORDS)
    os._exit(EXIT_FORKED)
