"""Settings: the table `[… policy.spark]`, checked completely before Spark is started.

The kernel's policy carries it as a plain table and does not interpret it. Keys that begin with `spark.` are Spark's own
settings; only Spark knows whether they exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from appbackplane.transport.directory import nearest
from appbackplane.transport.errors import InvalidArgument

from ..master import LOCAL, parsed

#: Default number of requests of a job. Ending one in a job of 1,000 costs the kernel 11 us, in a job of 10,000 84 us, and none
#: of them can be overtaken any more. A cluster of hundreds of cores with requests of milliseconds needs more.
BATCH: Final = 1_000
BATCH_MAX: Final = 10_000
#: A job with so many tasks keeps Spark's scheduler busy for a minute.
SLICES_MAX: Final = 10_000
_OWN = "spark."


class SparkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one executor, checked on creation."""

    #: Master in Spark's notation: local[N], spark://HOST:PORT, k8s://…, yarn.
    master: str = LOCAL
    #: Requests of a job at most.
    batch: int = BATCH
    #: Tasks of a job; 0: chosen by how long requests take.
    slices: int = 0
    #: How workers on other machines get the user's modules: they are sent, or are installed there.
    code: Literal["sent", "installed"] = "sent"
    #: Spark's own settings, by full name.
    session: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= BATCH_MAX:
            raise ValueError(f"batch = {self.batch}: expected 1 to {BATCH_MAX:,} requests of a job")
        if not 0 <= self.slices <= SLICES_MAX:
            raise ValueError(
                f"slices = {self.slices}: expected 1 to {SLICES_MAX:,} tasks of a job, or 0 for as many as it takes"
            )


def settings_of(table: Mapping[str, Any]) -> SparkSettings:
    """Parse the table. Raises `InvalidArgument`, a sentence that names the setting."""
    own = {name: value for name, value in table.items() if not name.startswith(_OWN)}
    known = {field.name for field in msgspec.structs.fields(SparkSettings)} - {"session"}
    for name in own:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"expected {', '.join(sorted(known))}, or a Spark setting"
            raise InvalidArgument(f"policy.spark: no setting {name!r} ({hint})")
    session = {name: str(value) for name, value in table.items() if name.startswith(_OWN)}
    try:
        found = msgspec.convert({**own, "session": session}, SparkSettings)
        parsed(found.master)
    except (msgspec.ValidationError, InvalidArgument) as error:
        raise InvalidArgument(f"policy.spark: {error}") from error
    if "spark.master" in session:
        raise InvalidArgument("policy.spark: write master, not spark.master")
    return found
