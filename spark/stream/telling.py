"""Telling: decide each micro-batch, store the decision, and publish it, in this order.

Spark calls this from two threads: with each micro-batch, and after each trigger without records. The order makes the stream
exact (docs/decisions/exactly_once.md): stored before published, published before the next is stored.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from appbackplane.transport.errors import BackplaneError, DeadlineExceeded, PeerError

from ..delivery import SystemDelivery
from .alerts import Call
from .decisions import PENDING_MAX, Decision, Decisions
from .ledger import CheckpointLedger
from .partials import SCHEMA, partials, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of closed windows, each once; and of open windows, as far as they have come.
TOPIC: Final = "telemetry.window"
TOPIC_OPEN: Final = "telemetry.window.open"
#: Records of a micro-batch: half a second of work. After a downtime, no window closes until all backlog is read.
RECORDS_MAX: Final = 1_000_000
#: Alerts must not delay windows: a call not answered within this is repeated with the next decision.
CALL_LIMIT_S: Final = 1.0


class AlertPublisher:
    """Decides, stores and publishes. Called from Spark's threads, one at a time."""

    def __init__(
        self,
        decisions: Decisions,
        ledger: CheckpointLedger,
        delivery: SystemDelivery,
        say: Callable[[list[dict[str, Any]]], None],
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._decisions, self._ledger, self._delivery = decisions, ledger, delivery
        self._say, self._unix_ns = say, unix_ns
        self._lock = threading.Lock()
        self._untold: list[Call] = []
        self._given_up_told = 0
        self._is_stopped = False
        self.problem: Exception | None = None

    def again(self) -> None:
        """Publish the last decision of an earlier process again, of which a part may have been sent."""
        self._tell(self._decisions.last)

    def on_batch(self, frame: DataFrame, batch: int) -> None:
        """Called by Spark with each micro-batch; an exception ends the query."""
        with self._lock:
            if self._is_stopped or self._decisions.has(batch):
                return
            try:
                kernel = functools.partial(partials, size_ns=self._decisions.last.size_ns)
                found, read = unpack(frame.mapInArrow(kernel, SCHEMA).toArrow())
                is_all = read < RECORDS_MAX // 2  # assuming that fewer than half of the records are damaged
                now_ns = self._unix_ns()
                decision = self._decisions.of_batch(batch, found, now_ns, has_read_all=is_all, untold=self._untold)
                self._ledger.keep(decision)
                self._tell(decision)
            except Exception as error:
                self.problem = self.problem or error
                raise

    def on_silence(self, at_ns: int) -> None:
        """Called after a trigger without records, which had finished by `at_ns`."""
        with self._lock:
            if self._is_stopped or self.problem is not None:
                return
            try:
                decision = self._decisions.of_silence(at_ns, self._untold)
                if decision is not None:
                    self._ledger.keep(decision)
                    self._tell(decision)
            except Exception as error:
                self.problem = self.problem or error

    def stop(self) -> None:
        """Wait for the publication in progress; nothing is decided after this."""
        with self._lock:
            self._is_stopped = True

    def _tell(self, decision: Decision) -> None:
        self._delivery.to_topic(TOPIC, decision.number, decision.closed)
        self._delivery.to_topic(TOPIC_OPEN, decision.number, decision.changed)
        self._say(decision.closed)
        if given_up := self._decisions.given_up_count - self._given_up_told:
            self._given_up_told += given_up
            what = "an alert is" if given_up == 1 else f"{given_up:,} alerts are"
            _warn(f"{what} dropped, the oldest first: at most {PENDING_MAX:,} wait for delivery")
        before = {call.id for call in self._untold}
        self._untold = []
        end_s = time.monotonic() + CALL_LIMIT_S
        deaf: set[str] = set()
        for call in decision.calls:
            if call.route in deaf or time.monotonic() > end_s:
                self._untold.append(call)
                continue
            try:
                self._delivery.try_call(call.route, call.key, call.arguments, call.id, CALL_LIMIT_S)
            except (PeerError, DeadlineExceeded) as error:
                deaf.add(call.route)
                self._untold.append(call)
                if call.id not in before:
                    _warn(f"alert {call.arguments['alert']!r} is delayed and will be sent again: {error}")
            except BackplaneError as error:
                _warn(f"alert {call.arguments['alert']!r} cannot be delivered: {error}")


def _warn(line: str) -> None:
    click.echo(f"pipeline stream: {line}", err=True)
