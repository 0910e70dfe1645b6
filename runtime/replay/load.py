"""Load: recorded work, one column a fact. Times in ns, on one clock of the recorder's.

`run` is for how long an action had a worker, `cpu` the part of it that was computed; the rest of it, it was blocked, and others
could compute. One that awaited something in between had no worker meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

#: The deadline of work that has none: in 146 years.
NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Load:
    """Columns of one length. `operation` and `object` are numbers, whatever they stand for."""

    arrival: Sequence[int]
    operation: Sequence[int]
    object: Sequence[int]
    priority: Sequence[int]
    run: Sequence[int]
    cpu: Sequence[int]
    #: From its start to its end it took so much longer than it ran: the answers of others, and queues when they had come.
    awaited: Sequence[int]
    #: Moments, not durations; NEVER: none.
    deadline: Sequence[int]
    #: What was recorded, for comparison: all time in queues.
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
        """With other columns."""
        return replace(self, **columns)

    def first(self, count: int) -> Load:
        """The first of them to arrive."""
        if count >= len(self):
            return self
        chosen = sorted(sorted(range(len(self)), key=self.arrival.__getitem__)[:count])
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return Load(**{name: [column[i] for i in chosen] if column else column for name, column in columns.items()})
