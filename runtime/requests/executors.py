"""Executors: makes the executor that a policy asks for. Other packages provide theirs as entry points, imported only then."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from appbackplane.transport.errors import FailedPrecondition

from .executor import ENTRY_POINTS, Executor
from .policy import KernelPolicy
from .processes import ProcessExecutor
from .threads import ThreadExecutor


def executor_of(policy: KernelPolicy) -> Executor:
    """A new executor for this policy. Raises `FailedPrecondition` if it is not installed."""
    if policy.kernel == "local":
        if policy.kind == "threads":
            return ThreadExecutor()
        return ProcessExecutor()
    for entry in entry_points(group=ENTRY_POINTS, name=policy.kernel):
        make: Callable[[], Any] = entry.load()
        made: Executor = make()
        return made
    raise FailedPrecondition(
        f"kernel = {policy.kernel!r}: no such executor is installed: pip install 'appbackplane[{policy.kernel}]'"
    )
