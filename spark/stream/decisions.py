"""Decisions: the output of the stream, numbered, and complete before any of it is sent.

A decision is made for a micro-batch, or when there was nothing to read. It holds all output and all state needed to go on, so
a process may be killed once the decision is stored. The next one sends it again under the same number, which the receiver
recognises (observation/applied.py of the runtime), and does not decide that micro-batch again. Decides only; ledger.py stores
it. Size: rows and open windows, 1 KB each, at most some 20 MB.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from appbackplane.transport.errors import FailedPrecondition

from .alerts import Alerts, Call, Rule, RuleWatch, Watched
from .windows import Key, Sums, Windows

#: Version of the stored form; increase it with each change of the form.
VERSION: Final = 1
#: Alerts waiting to be sent; beyond this, the oldest are given up, and counted.
PENDING_MAX: Final = 1_000


class BadCheckpoint(FailedPrecondition):
    """A checkpoint that cannot be resumed. One line."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, with the complete state after it."""

    version: int = VERSION
    #: Name of this stream for the receiver: generated once for each checkpoint.
    group: str
    #: Backplane that stores the numbers received: the first one of the system when the checkpoint was begun.
    backplane: str
    size_ns: int
    number: int = 0
    #: The last micro-batch included; -1: none.
    batch: int = -1
    closed: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    calls: list[Call] = []
    closed_until_ns: int = 0
    looked_ns: int = 0
    open: list[tuple[Key, Sums]] = []
    watched: list[tuple[Watched, RuleWatch]] = []


class Decisions:
    """Makes decisions, one after the other."""

    def __init__(self, last: Decision, lateness_ns: int, rules: Iterable[Rule]) -> None:
        """`last`: the decision to go on from; a new one to begin."""
        self.last = last
        self._windows = Windows(last.size_ns, lateness_ns)
        self._windows.open = dict(last.open)
        self._windows.closed_until_ns, self._windows.looked_ns = last.closed_until_ns, last.looked_ns
        self._alerts = Alerts(rules, last.size_ns)
        self._alerts.restore(dict(last.watched))
        #: Number of alerts given up.
        self.given_up_count = 0

    def has(self, batch: int) -> bool:
        """Whether this micro-batch is decided. Raises `BadCheckpoint` if it is neither the last nor the next."""
        if not self.last.batch <= batch <= self.last.batch + 1:
            raise BadCheckpoint(
                f"Spark is at batch {batch}, and the decisions are at {self.last.batch}: these checkpoints do not belong "
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
        """Decide a micro-batch. `untold`: alerts of the last decision that could not be sent."""
        assert not self.has(batch), "decided twice"
        return self._decide(batch, partials, now_ns, has_read_all, untold)

    def of_silence(self, now_ns: int, untold: Iterable[Call]) -> Decision | None:
        """Decide after a trigger without records; None: there is no output, and no decision is made."""
        if now_ns <= self._windows.looked_ns:
            return None  # older than the last micro-batch
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
