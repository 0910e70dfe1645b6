"""KernelBase: what the parts of a request kernel (executors, services, commands, the optimiser) may ask of it.

They know this class, and the kernel knows them. Names with an underscore are not for users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..objects.action import Action
from ..objects.app_object import AppObject
from ..objects.component import Component
from .executing.action_records import RequestNames
from .executing.executor import Executor
from .executing.thread_resources import ThreadResources
from .ledger.figures import Figures
from .ledger.synchronized_ledger import SynchronizedLedger
from .policy import KernelPolicy


class KernelBase(Component):
    #: The default policy; the component's setting `policy` takes its place.
    policy: KernelPolicy = KernelPolicy()

    _ledger: SynchronizedLedger
    #: None: it does not run.
    _executor: Executor | None
    _names: RequestNames
    _resources: ThreadResources
    #: The number of priorities of its backplane.
    _priorities: int

    def figures(self) -> Figures:
        raise NotImplementedError

    def workers_up(self) -> int:
        """How many workers can execute requests now."""
        raise NotImplementedError

    def _change(self, settings: Mapping[str, Any], reason: str = "asked for") -> tuple[KernelPolicy, KernelPolicy]:
        raise NotImplementedError

    def _object(self, key: str, make: Callable[[], AppObject]) -> AppObject:
        raise NotImplementedError

    def _serve(self, action: Action) -> None:
        raise NotImplementedError
