"""Current: the action that the calling thread runs, and the services of its backplane.

Lets module-level functions (`checkpoint`, `should_yield`) and methods of objects find the running action without a parameter
in every signature. Thread-local; only the worker is stored, once a thread, and the action is read from it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...objects.action import Action
    from .worker import Worker, WorkerHost


class Current(threading.local):
    """The worker of the calling thread, its action, and its host."""

    worker: Worker | None = None

    @property
    def action(self) -> Action | None:
        """The running action; None between two actions, and in a thread that is no worker."""
        worker = self.worker
        return worker.action if worker is not None and worker.started_ns else None

    @property
    def host(self) -> WorkerHost | None:
        """The services of the backplane whose worker this thread is; None in any other thread."""
        return None if self.worker is None else self.worker.host


current = Current()
