"""Requests: bulk work that splits into sub-requests, runs on many workers, and joins again (seed 001, Domino eXplorer).

A request is posted with a runnable that executes it, waits in the ready pool, is executed by a worker, and rejoins its owner.
`contexts/` is where code posts and rejoins. `ledger/` decides which step may happen when; all of it is pure but
`synchronized_ledger.py`, which puts a mutex around it and notifies waiters. `executing/` has the port behind which workers are
threads of this backplane, backplanes of their own, or a cluster (spark/). `operating/` is for people: status, commands and
schedules. This package never interprets a request. Read `ledger/ledger.py` first, then `kernel.py`.
"""

from .contexts.context import Context
from .errors import RequestFailed
from .executing.request_worker import RequestWorker
from .kernel import RequestKernel
from .ledger.element import Element, Failure, State
from .ledger.figures import Figures
from .ledger.owners import Rejoin
from .operating.command import command
from .operating.commands import CommandHandler
from .policy import KernelPolicy
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
