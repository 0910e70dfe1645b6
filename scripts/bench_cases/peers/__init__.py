"""Peers: other programs that do the same work, where they are installed (the extra `[peers]`). Shown, never judged.

One a file, each with `echo()` and `busy()`: context managers that yield a `Peer`.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Pending(Protocol):
    """A call that has begun."""

    def result(self) -> Any: ...


class Peer(Protocol):
    """The client's end of a server with one worker. Any thread may use it."""

    def call(self, text: str) -> Any:
        """Echo."""

    def submit(self, text: str) -> Pending:
        """Echo, and do not wait."""

    def submit_work(self, seconds: float) -> Pending:
        """So much pure computation, and do not wait."""


def echo_peer(name: str) -> AbstractContextManager[Peer]:
    """One that is up."""
    module = importlib.import_module(f".{name.lower()}_peer", __name__)
    return module.serving()


def urgent_figures(name: str, bulk_s: float, seconds: float) -> dict[str, float]:
    """Urgent calls beside a bulk window that a thread of this process keeps full."""
    raise NotImplementedError
