"""Current: which action the calling thread is running, and for which engine.

Lets module-level functions (`checkpoint`, `should_yield`) and the methods of objects know whose work they are part of,
without a parameter in every signature. Thread-local, and set once a thread: what it runs is asked of its worker.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..objects.action import Action
    from .engine import Engine
    from .worker import Worker


class Current(threading.local):
    """What this thread is doing."""

    worker: Worker | None = None

    @property
    def action(self) -> Action | None:
        """What runs now; None between two actions, and in a thread that is no worker."""
        worker = self.worker
        return worker.action if worker is not None and worker.started_ns else None

    @property
    def engine(self) -> Engine | None:
        """The engine whose worker this thread is."""
        return None if self.worker is None else self.worker.engine


current = Current()
