"""Requests: bulk work that splits into sub-requests, runs on many workers, and joins again (seed 001, Domino eXplorer).

A request is posted with a runnable that executes it, waits in the ready pool, is executed by a worker, and rejoins its owner.
What may happen when is decided in `ledger.py`, pure, with the parts of it beside: `lanes.py`, `ready_pool.py`, `owners.py`,
`stall.py`. `desk.py` puts a mutex around it and tells who waits; `executor.py` is the port behind which workers are threads
of this backplane (`threads.py`), backplanes of their own (`processes.py`), or a cluster (spark/). Never here: what a request
means. Read `ledger.py` first, then `kernel.py`.
"""

from .command import command
from .commands import CommandHandler
from .context import Context
from .element import Element, Failure, State
from .errors import RequestFailed
from .figures import Figures
from .kernel import RequestKernel
from .owners import Rejoin
from .policy import KernelPolicy
from .resource import Resource
from .runnable import Runnable
from .seat import RequestWorker

__all__ = [
    "CommandHandler",
    "Context",
    "Element",
    "Failure",
    "Figures",
    "KernelPolicy",
    "Rejoin",
    "RequestFailed",
    "RequestKernel",
    "RequestWorker",
    "Resource",
    "Runnable",
    "State",
    "command",
]
