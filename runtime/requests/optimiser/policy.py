"""The optimiser's policy: how far it may go, how often it looks, and what counts as a difference.

Checked as a whole when it is made, so that a wrong number is refused at start and not met an hour later.
"""

from __future__ import annotations

import msgspec

from .sample import Setting


class OptimiserPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds and pace. Raises `ValueError` that names the setting and the remedy."""

    workers_min: int = 1
    workers_max: int = 64
    ready_min: int = 16
    ready_max: int = 10_000
    rejoin_min: int = 16
    rejoin_max: int = 20_000
    #: Seconds between two looks. Some dozens of requests should end in one: fewer are a gamble, and are added up.
    interval: float = 1.0
    #: What counts as a difference: settings whose throughput is within this share of the best are as good as the best, and
    #: the smallest of them is taken. Below 0.02 noise decides; above 0.2 nothing would be found.
    significance: float = 0.03

    def __post_init__(self) -> None:
        for name in ("workers", "ready", "rejoin"):
            least, most = getattr(self, f"{name}_min"), getattr(self, f"{name}_max")
            if least < 1:
                raise ValueError(f"{name}_min: {least} leaves nothing to work with: expected 1 or more")
            if most < least:
                raise ValueError(f"{name}_max: {most} is less than {name}_min = {least}: raise one or lower the other")
        if not 0.01 <= self.interval <= 3600:
            raise ValueError(f"interval: {self.interval} s: expected 0.01 to 3600 (seconds between two looks)")
        if not 0.02 <= self.significance <= 0.2:
            raise ValueError(f"significance: {self.significance}: expected 0.02 to 0.2 (a share of the throughput)")

    @property
    def interval_ns(self) -> int:
        """`interval` in nanoseconds."""
        return round(self.interval * 1e9)

    def within(self, setting: Setting) -> Setting:
        """The nearest setting that is within the bounds."""
        return Setting(
            min(max(setting.workers, self.workers_min), self.workers_max),
            min(max(setting.ready, self.ready_min), self.ready_max),
            min(max(setting.rejoin, self.rejoin_min), self.rejoin_max),
        )
