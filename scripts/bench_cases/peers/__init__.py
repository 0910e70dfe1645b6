"""Peers: other programs that do the same work, where they are installed (the extra `[peers]`). Shown, never judged.

One a file, `NAME_peer.py`, each with `serving()`: a context manager that yields a `Peer`, a client of a server process that
runs one piece of work at a time, as a backplane with one thread does. Bulk and urgent calls come from threads of this process.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..harness.bulk import OUTSTANDING, Window, new_tally, rate
from ..harness.case import Figures
from ..harness.timing import periodic_us, summary


class Pending(Protocol):
    def result(self) -> Any: ...


class Peer(Protocol):
    """The client's end. Any thread may use it."""

    def submit(self, text: str) -> Pending:
        """Echo, and do not wait."""

    def submit_work(self, seconds: float) -> Pending:
        """So much pure computation, and do not wait."""


def echo_peer(name: str) -> AbstractContextManager[Peer]:
    module = importlib.import_module(f".{name.lower()}_peer", __name__)
    serving: AbstractContextManager[Peer] = module.serving()
    return serving


def urgent_figures(name: str, bulk_s: float, seconds: float) -> Figures:
    """Calls each 20 ms beside a bulk window that another thread keeps full."""
    with echo_peer(name) as peer, new_tally() as (tally, _):
        window = Window(lambda: peer.submit_work(bulk_s), tally, OUTSTANDING)
        window.fill()
        taken: list[float] = []
        per_s = rate(tally, lambda: taken.extend(periodic_us(lambda: peer.submit("x").result(), seconds)))
        window.stop()
        return summary(taken) | {"bulk_per_s": per_s}
