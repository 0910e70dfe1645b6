"""The optimiser's policy: its bounds, and the least difference that counts.

Validated as a whole when it is made, so that a wrong number is refused at start and not met an hour later.
"""

from __future__ import annotations

import msgspec

from .sample import Setting


class OptimiserPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds. Raises `ValueError` that names the setting and the remedy.

    `ready_max` and `rejoin_max` bound growth: a pool that somebody has made larger stays so, because requests may need it.
    """

    workers_min: int = 1
    workers_max: int = 64
    ready_min: int = 16
    ready_max: int = 10_000
    rejoin_min: int = 16
    rejoin_max: int = 20_000
    #: Least difference that counts: settings whose throughput is within this share of the best are as good as the best, and
    #: the smallest of them is taken. Below 0.01 noise decides; above 0.2 no step would count.
    significance: float = 0.03

    def __post_init__(self) -> None:
        for name in ("workers", "ready", "rejoin"):
            least, most = getattr(self, f"{name}_min"), getattr(self, f"{name}_max")
            for bound, value in ((f"{name}_min", least), (f"{name}_max", most)):
                if type(value) is not int:
                    raise ValueError(f"{bound} = {value!r}: expected a whole number")
            if least < 1:
                raise ValueError(f"{name}_min = {least}: expected 1 or more")
            if most < least:
                raise ValueError(f"{name}_max = {most}: expected {name}_min ({least}) or more")
        if type(self.significance) is not float or not 0.01 <= self.significance <= 0.2:
            raise ValueError(f"significance = {self.significance!r}: expected 0.01 to 0.2, a share of the throughput")

    def within(self, setting: Setting) -> Setting:
        """The nearest setting that is within the bounds; no pool becomes smaller."""
        return Setting(
            min(max(setting.workers, self.workers_min), self.workers_max),
            max(setting.ready, self.ready_min),
            max(setting.rejoin, self.rejoin_min),
        )
