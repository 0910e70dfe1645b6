"""KernelPolicy: the settings of one request kernel, validated together; replaceable while the kernel runs.

The source's ThreadManagerPolicy (seed 001, section 2). Written in the TOML as `[backplane.NAME.settings.CLASS.policy]`; times
are in seconds. An invalid value is refused at start, and at each change before anything has changed. The error is one sentence
that names the setting and the expected value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from appbackplane.transport.directory import nearest

from .ledger.element import LANES
from .ledger.lanes import shares
from .operating.schedule import lines_of
from .optimiser.policy import OptimiserPolicy

#: Threads beyond a few dozen wait for each other's GIL; processes take 30 MB each. No backplane may have more threads.
WORKERS_MAX: Final = 256
#: An entry takes 700 bytes and its request: a pool this full is 0.7 GB.
POOL_MAX: Final = 1_000_000
#: Longest age of records, seconds: ten years.
_AGE_MAX: Final = 10 * 366 * 86_400
#: Settings that select the kind of kernel: changing one needs a restart.
FIXED: Final = ("kernel", "kind", "pool", "spark")
#: Allowed values of each setting.
CHOICES: Final = {
    "kernel": ("local", "spark"),
    "kind": ("threads", "processes"),
    "mode": ("plain", "lanes"),
    "fair_by": ("none", "owner"),
    "on_stall": ("report", "fail"),
}


class KernelPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one kernel. Raises ValueError that names the invalid setting."""

    #: Executor of the requests: workers of this system, or a Spark cluster.
    kernel: Literal["local", "spark"] = "local"
    #: Kind of workers in this system: threads of the kernel's own backplane, or backplanes of their own.
    kind: Literal["threads", "processes"] = "threads"
    #: Requests executing at a time, at most.
    workers: int = 4
    #: With `kind = "processes"`: the component whose replicas are the workers.
    pool: str = "request_worker"
    #: Entries of the ready pool.
    ready: int = 100
    #: Entries of the rejoin pool: posters wait while so many ended requests have not been rejoined.
    rejoin: int = 1000
    #: "lanes": constrained multi-lane scheduling; "plain": any worker takes any request.
    mode: Literal["plain", "lanes"] = "plain"
    #: Percent of workers and of ready entries for lanes 0, 1 and 2; the rest is lane 3's, which is never constrained.
    lanes: tuple[int, int, int] = (0, 20, 20)
    #: "owner": requests of one priority leave the ready pool in turns of their owners, however many each has there.
    fair_by: Literal["none", "owner"] = "none"
    #: Whether requests in the ready pool become more urgent by 1 at each interval: their priority, where 0 is the most urgent,
    #: falls by 1.
    ageing: bool = False
    #: How much more urgent requests posted with `boost` become in addition at each of these intervals.
    boost: int = 10
    #: Seconds between two steps of ageing.
    interval: float = 0.1
    #: Seconds between two records of the kernel's work; the optimiser moves at most once in the same time.
    record_interval: float = 1.0
    #: Whether these records are also written to files (instrumentation/). Off: a run directory may lie in memory, and an
    #: operator who wants files also chooses how long to keep them. The topic and the statistics have the records anyway.
    record: bool = False
    #: Folder of the files, below it BACKPLANE/COMPONENT.interval; "": `records` in the run directory. Bounds: bytes, seconds.
    record_dir: str = ""
    record_size: int = 16 << 20
    record_age: float = 7 * 86_400.0
    #: Whether the kernel searches for the worker count and pool sizes with the highest throughput.
    optimise: bool = False
    #: Bounds of that search.
    optimiser: OptimiserPolicy = OptimiserPolicy()
    #: Backplane priority of requests of the default priority (100), or of a larger number; None: the lowest. Each `step` below
    #: the default is one backplane priority higher (priority_mapping.py).
    base: int | None = None
    step: int = 10
    #: When no request can make progress: log it and keep waiting; or also end the waits, with that reason.
    on_stall: Literal["report", "fail"] = "report"
    #: Commands that run by themselves (schedule.py): at `"every 30s"`, `"22:00"` or `"mon-fri 22:00"` one line, or several.
    schedule: dict[str, str | list[str]] = {}
    #: With `kernel = "spark"`: settings of its executor.
    spark: dict[str, str | int] = {}

    def __post_init__(self) -> None:
        # The TOML loader has checked these types already; values from a program are checked only here.
        for name, choices in CHOICES.items():
            if (chosen := getattr(self, name)) not in choices:
                raise ValueError(f"{name} = {chosen!r}: expected {_alternatives(name)}")
        for name in ("ageing", "optimise", "record"):
            if type(switch := getattr(self, name)) is not bool:
                raise ValueError(f"{name} = {switch!r}: expected True or False")
        _check("workers", self.workers, 1, WORKERS_MAX)
        _check("ready", self.ready, 1, POOL_MAX)
        _check("rejoin", self.rejoin, 1, POOL_MAX)
        _check("boost", self.boost, 0, 1_000_000)
        _check("step", self.step, 1, 1_000_000)
        for name, seconds in (("interval", self.interval), ("record_interval", self.record_interval)):
            if type(seconds) not in (int, float) or not 0.001 <= seconds <= 3600:
                raise ValueError(f"{name} = {seconds!r}: expected seconds, 0.001 to 3600")
        _check("record_size", self.record_size, 1 << 16, 1 << 40)
        if type(self.record_age) not in (int, float) or not 1 <= self.record_age <= _AGE_MAX:
            raise ValueError(f"record_age = {self.record_age!r}: expected seconds, 1 to {_AGE_MAX:,}")
        _check_folder("record_dir", self.record_dir)
        if not isinstance(self.optimiser, OptimiserPolicy):
            raise ValueError(f"optimiser = {self.optimiser!r:.100}: expected an OptimiserPolicy, its bounds")
        for name, most in (("workers", WORKERS_MAX), ("ready", POOL_MAX), ("rejoin", POOL_MAX)):
            if (
                bound := getattr(self.optimiser, f"{name}_max")
            ) > most:  # otherwise it would keep asking for an impossible value
                raise ValueError(f"optimiser.{name}_max = {bound}: expected at most {most:,}")
        if self.base is not None:
            _check("base", self.base, 1, 255)  # 0 is not for requests (priority_mapping.py)
        if not isinstance(self.pool, str) or not self.pool:
            raise ValueError(f"pool = {self.pool!r}: expected the component whose replicas are the workers")
        self._check_lanes()
        if not isinstance(self.schedule, dict):
            raise ValueError(f"schedule = {self.schedule!r:.100}: expected a table of times and commands")
        try:
            lines_of(self.schedule)
        except ValueError as error:
            raise ValueError(f"schedule: {error}") from None
        # The executor checks the values: only it knows its settings.
        if not isinstance(self.spark, dict) or not all(isinstance(each, str | int) for each in self.spark.values()):
            raise ValueError(f"spark = {self.spark!r:.100}: expected a table of settings, texts or whole numbers")

    def changed(self, **settings: Any) -> KernelPolicy:
        """A copy with other settings. Raises ValueError, and TypeError for a setting that is unknown or fixed."""
        for name in settings:
            if name in FIXED:
                raise TypeError(f"{name} cannot change while the kernel runs: write it in the TOML and restart")
        known = {each.name for each in msgspec.structs.fields(self)}
        if unknown := sorted(set(settings) - known):
            near = nearest(unknown[0], known)
            meant = f" (did you mean {near!r}?)" if near else ""
            raise TypeError(
                f"no setting {unknown[0]!r}{meant}: expected one of {', '.join(sorted(known - set(FIXED)))}"
            )
        try:
            return msgspec.convert({**msgspec.to_builtins(self), **settings}, KernelPolicy)
        except msgspec.ValidationError as error:
            raise ValueError(_explained(str(error), settings)) from error

    def _check_lanes(self) -> None:
        if not isinstance(self.lanes, tuple) or len(self.lanes) != LANES - 1:
            raise ValueError(f"lanes = {self.lanes!r}: expected the percentages of lanes 0, 1 and 2")
        for lane, percent in enumerate(self.lanes):
            if type(percent) is not int or not 0 <= percent <= 100:
                raise ValueError(f"lanes = {self.lanes}: lane {lane} has {percent} %, expected 0 to 100")
        if sum(self.lanes) >= 100:
            raise ValueError(
                f"lanes = {self.lanes}: {sum(self.lanes)} % leave nothing to lane 3: expected less than 100 together"
            )
        if self.mode == "plain":
            return
        for what, total in (("workers", self.workers), ("ready", self.ready)):
            together = shares(self.lanes, total)[-1]
            if together >= total:
                raise ValueError(
                    f"{what} = {total} with lanes = {self.lanes}: lanes 0 to 2 may have {together} of them, which leaves "
                    f"none to lane 3: expected {what} above {together}"
                )


def _alternatives(name: str) -> str:
    return " or ".join(map(repr, CHOICES[name]))


def _explained(said: str, settings: Mapping[str, Any]) -> str:
    """msgspec's message, reworded like the checks here if it ends in a setting's path, as in "got `str` - at `$.workers`"."""
    problem, _, where = said.partition(" - at `$.")
    name = re.match(r"\w*", where)[0]  # type: ignore[index]
    if name in CHOICES and name in settings:
        return f"{name} = {settings[name]!r:.100}: expected {_alternatives(name)}"
    if name == "lanes" and name in settings and problem.startswith("Expected `array`"):
        return f"lanes = {settings[name]!r:.100}: expected the percentages of lanes 0, 1 and 2"
    return f"{name} = {settings[name]!r:.100}: {problem[0].lower()}{problem[1:]}" if name in settings else said


def _check_folder(name: str, path: str) -> None:
    """Raises ValueError unless `path` is "" or begins with / or ~. Whether the folder can be made shows at the first write."""
    if not isinstance(path, str) or (path and not path.startswith(("/", "~"))):
        raise ValueError(f"{name} = {path!r}: expected a path from / or from ~")
    try:
        folder = os.fsencode(Path(path).expanduser())
    except (RuntimeError, UnicodeError) as error:
        raise ValueError(f"{name} = {path!r}: there is no such folder: {error}") from error
    if b"\0" in folder:
        raise ValueError(f"{name} = {path!r}: there is no such folder: a path has no null character")


def _check(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int:
        raise ValueError(f"{name} = {value!r}: expected a whole number, {least} to {most:,}")
    if not least <= value <= most:
        raise ValueError(f"{name} = {value}: expected {least} to {most:,}")
