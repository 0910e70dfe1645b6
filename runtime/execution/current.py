"""Current: the action that the calling thread runs, and its engine.

Lets module-level functions (`checkpoint`, `should_yield`) and methods of objects find the running action without a parameter
in every signature. Thread-local; only the worker is stored, once a thread, and the action is read from it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..objects.action import Action
    from .engine import Engine
    from .worker import Worker


class Current(threading.local):
    """The worker, action and engine of the calling thread."""

    worker: Worker | None = None

    @property
    def action(self) -> Action | None:
        """The running action; None between two actions, and in a thread that is no worker."""
        worker = self.worker
        return worker.action if worker is not None and worker.started_ns else None

    @property
    def engine(self) -> Engine | None:
        """The engine whose worker this thread is; None in any other thread."""
        return None if self.worker is None else self.worker.engine


current = Current()
