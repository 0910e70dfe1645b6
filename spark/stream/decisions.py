"""Decisions: what the stream tells, numbered, and complete before any of it is told.

A decision is made of a micro-batch, or of the news that there was nothing to read. It holds all that is to be told and all that
must be known to go on, so whoever has it kept can be killed: what was decided is told again under the same number, which
the receiver knows (observation/applied.py of the runtime), and the batch that it was made of is not decided a second time.
Decides only; ledger.py keeps it. Size: rows and open windows, 1 KB each, at most some 20 MB.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from appbackplane.transport.errors import FailedPrecondition

from .alerts import Alerts, Call, Rule, Watch, Watched
from .windows import Key, Sums, Windows

#: Of what is kept: whoever changes its shape counts one up.
VERSION: Final = 1
#: Alerts that could not be told yet; beyond, the oldest are given up, and counted.
PENDING_MAX: Final = 1_000


class BadCheckpoint(FailedPrecondition):
    """A checkpoint that cannot be gone on from. One line."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One, with all that there is to know after it."""

    version: int = VERSION
    #: Whose batches these are for the receiver: made up once for each checkpoint.
    group: str
    #: Which of its backplanes remembers what it has had: the one that was the first when the checkpoint was begun.
    backplane: str
    size_ns: int
    number: int = 0
    #: The last micro-batch that is in it; -1: none.
    batch: int = -1
    closed: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    calls: list[Call] = []
    closed_until_ns: int = 0
    looked_ns: int = 0
    open: list[tuple[Key, Sums]] = []
    watched: list[tuple[Watched, Watch]] = []


class Decisions:
    """One after the other."""

    def __init__(self, last: Decision, lateness_ns: int, rules: Iterable[Rule]) -> None:
        """`last`: where to go on from; a new one to begin."""
        self.last = last
        self._windows = Windows(last.size_ns, lateness_ns)
        self._windows.open = dict(last.open)
        self._windows.closed_until_ns, self._windows.looked_ns = last.closed_until_ns, last.looked_ns
        self._alerts = Alerts(rules, last.size_ns)
        self._alerts.restore(dict(last.watched))
        #: Alerts that could not be told, and never will be.
        self.given_up_count = 0

    def has(self, batch: int) -> bool:
        """Whether this micro-batch is decided. Raises `BadCheckpoint` for one that is neither the last nor the next."""
        if not self.last.batch <= batch <= self.last.batch + 1:
            raise BadCheckpoint(
                f"Spark is at batch {batch}, and what was decided at {self.last.batch}: these checkpoints do not belong "
                "together; begin with a new folder (--checkpoint)"
            )
        return batch == self.last.batch

    def of_batch(
        self,
        batch: int,
        partials: Iterable[tuple[Key, Sums]],
        now_ns: int,
        *,
        has_read_all: bool,
        untold: Iterable[Call],
    ) -> Decision:
        """The next one. `untold`: alerts of the last one that could not be told."""
        assert not self.has(batch), "decided twice"
        return self._decide(batch, partials, now_ns, has_read_all, untold)

    def of_silence(self, now_ns: int, untold: Iterable[Call]) -> Decision | None:
        """There was nothing to read. None: and nothing to say."""
        if now_ns <= self._windows.looked_ns:
            return None  # news that are older than what was read since
        before = self.last
        decision = self._decide(before.batch, (), now_ns, True, untold)
        if decision.closed or decision.calls:
            return decision
        self.last = before
        return None

    def _decide(
        self, batch: int, partials: Iterable[tuple[Key, Sums]], now_ns: int, has_read_all: bool, untold: Iterable[Call]
    ) -> Decision:
        windows, alerts = self._windows, self._alerts
        told = windows.step(partials, now_ns, has_read_all=has_read_all)
        number = self.last.number + 1
        fresh = enumerate(alerts.after(told.closed, windows.closed_until_ns))
        calls = [*untold, *(replace(call, id=f"{self.last.group}/{number}/{index}") for index, call in fresh)]
        self.given_up_count += max(0, len(calls) - PENDING_MAX)
        for row in (*told.closed, *told.open):
            row["step"] = number
        self.last = Decision(
            group=self.last.group, backplane=self.last.backplane, size_ns=self.last.size_ns, number=number, batch=batch,
            closed=told.closed, changed=told.open, calls=calls[-PENDING_MAX:],
            closed_until_ns=windows.closed_until_ns, looked_ns=windows.looked_ns,
            open=list(windows.open.items()), watched=list(alerts.watched.items()),
        )  # fmt: skip
        return self.last
