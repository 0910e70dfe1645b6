"""Fairness: the key of a request's share (`fair_by`), the weight of that key, and the scheduler that keeps to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...process_config import ProcessConfig
from ...scheduling.deadline_order import DeadlineScheduler
from ...scheduling.fair_order import FairScheduler
from ...scheduling.scheduler import Policy, Scheduler
from ...scheduling.time_shares import ShareScheduler

#: `fair_by` with this prefix names an argument of the call, such as a tenant.
ARGUMENTS: Final = "arguments."
#: Keys whose weight is remembered; and characters of one, since a caller may send any text.
_KEYS_MAX: Final = 4_096
_KEY_CHARS_MAX: Final = 256


class FairKeys:
    """Whose share a request takes, by the configuration."""

    def __init__(self, fair_by: str, weights: Mapping[str, int]) -> None:
        """`fair_by`: "source", "principal" or "arguments.NAME". `weights`: by pattern, in which `*` stands for any text."""
        self._by = fair_by
        self._argument = fair_by.removeprefix(ARGUMENTS) if fair_by.startswith(ARGUMENTS) else None
        self._weights = weights
        self._known: dict[str, int] = {}

    def key_of(self, source: str, principal: str | None, body: Any) -> str:
        """The key of a request. Requests that have none share one, the empty one."""
        if self._argument is not None:
            value = body.get(self._argument) if isinstance(body, dict) else None
            return str(value)[:_KEY_CHARS_MAX] if isinstance(value, (str, int)) else ""
        return source if self._by == "source" else principal or ""

    def weight_of(self, key: str) -> int:
        """The weight of a key: that of the first pattern that fits, or 1."""
        if key not in self._known:
            from fnmatch import fnmatchcase  # only where there are weights: a process starts without it

            if len(self._known) >= _KEYS_MAX:
                self._known.clear()
            fits = (weight for pattern, weight in self._weights.items() if fnmatchcase(key, pattern))
            self._known[key] = next(fits, 1)
        return self._known[key]


def scheduler_of(config: ProcessConfig, fair_keys: FairKeys | None, now_ns: int) -> Scheduler:
    """The scheduler that a backplane is configured to have."""
    policy = Policy(
        priorities=config.priorities,
        quotas=config.quotas,
        tick_ns=config.tick_ns,
        cpu_limit=config.cpu_limit,
        cpu_exempt=config.cpu_exempt,
    )
    if fair_keys is not None:
        return FairScheduler(policy, now_ns, fair_keys.weight_of)
    if config.order == "shares":
        return ShareScheduler(policy, now_ns, config.shares, config.max_starvation_ns)
    return DeadlineScheduler(policy, now_ns) if config.order == "deadline" else Scheduler(policy, now_ns)
