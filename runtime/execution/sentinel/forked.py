"""Forked: ends a child process that an operation has forked, once it returns from the operation.

Its one thread would continue as a worker, with its parent's sockets, which do not work in the child (TRAPS 11). It would also
read wake-ups from shared descriptors, so that its parent misses them. A child that executes another program or ends by
itself, as those of `subprocess` and `multiprocessing` do, is not affected.
"""

from __future__ import annotations

import os
from typing import Any

from ..loop.engine import Engine

#: EX_SOFTWARE of sysexits.h, as for other bugs.
EXIT_FORKED = 70
_WORDS = (
    b"a child that an operation has forked has come back from it: it ends here "
    b"(fork only to execute another program, or end the child with os._exit)\n"
)


class _Nothing:
    """Replaces the link in a child: the first use ends the process."""

    def __getattr__(self, name: str) -> Any:
        os.write(2, _WORDS)
        os._exit(EXIT_FORKED)


def end_children_of(engine: Engine) -> None:
    """Install the fork hook that ends forked children at their first use of the link."""
    lead, stop_recording = engine.lead, engine.stop_recording

    def in_child() -> None:
        engine.link = _Nothing()
        stop_recording()  # its memory is shared with the parent
        lead._at_fork_reinit()  # type: ignore[attr-defined]  # another thread, which is not here, may have had it

    os.register_at_fork(after_in_child=in_child)
