"""Requests: bulk work that splits into sub-requests, runs on many workers, and joins again (seed 001, Domino eXplorer).

A request is posted with a runnable that executes it, waits in the ready pool, is executed by a worker, and rejoins its owner.
`ledger.py` and the parts beside it (`lanes.py`, `ready_pool.py`, `owners.py`, `stall.py`) are pure and decide which step may
happen when. `synchronized_ledger.py` puts a mutex around the ledger and notifies waiters. `executor.py` is the port behind
which workers are threads of this backplane (`threads.py`), backplanes of their own (`processes.py`), or a cluster (spark/).
This package never interprets a request. Read `ledger.py` first, then `kernel.py`.
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
from .request_worker import RequestWorker
from .resource import Resource
from .runnable import Runnable

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
