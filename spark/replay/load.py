"""Load: recorded work, one column per fact. Times in ns, all on the recorder's clock.

`run` is how long an action had a worker, `cpu` the part of it that it computed. For the rest of `run` it was blocked, and
others could compute. While an action awaited a reply, it had no worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

#: The deadline of work without one: in 146 years.
NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Load:
    """Columns of one length. `operation` and `object` are arbitrary numbers."""

    arrival: Sequence[int]
    operation: Sequence[int]
    object: Sequence[int]
    priority: Sequence[int]
    run: Sequence[int]
    cpu: Sequence[int]
    #: Time from start to end beyond `run`: waits for replies, and queues after they had come.
    awaited: Sequence[int]
    #: Points in time, not durations; NEVER: none.
    deadline: Sequence[int]
    #: Recorded total time in queues, for comparison.
    wait: Sequence[int]
    #: Empty: all in lane 0.
    lane: Sequence[int] = ()

    def __post_init__(self) -> None:
        count = len(self.arrival)
        for field in fields(self):
            column = getattr(self, field.name)
            if len(column) != count and not (field.name == "lane" and not column):
                raise ValueError(f"{field.name}: {len(column)} values for {count} actions")

    def __len__(self) -> int:
        return len(self.arrival)

    def changed(self, **columns: Sequence[int]) -> Load:
        """A copy with some columns replaced."""
        return replace(self, **columns)

    def first(self, count: int) -> Load:
        """The `count` actions that arrived first."""
        if count >= len(self):
            return self
        chosen = sorted(sorted(range(len(self)), key=self.arrival.__getitem__)[:count])
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return Load(**{name: [column[i] for i in chosen] if column else column for name, column in columns.items()})
