"""Components: the state of each component of a backplane, and of its hooks."""

from __future__ import annotations

from dataclasses import dataclass

from appbackplane.runtime.objects.module_state import ModuleState


@dataclass(slots=True)
class HookFailure:
    """A component's hook that failed, or has not ended in time."""

    to: ModuleState
    reason: str
    since_ns: int
    #: When it is retried; None: the retry is running, or it has been given up.
    retry_ns: int | None = None
    #: It is not retried automatically.
    is_given_up: bool = False
