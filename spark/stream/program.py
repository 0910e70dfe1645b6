"""Program: `pipeline stream`. Spark reads what a running system records, batch by batch; what is decided goes back to it.

Each second, or `trigger`: a micro-batch is made small in Spark's tasks (partials.py), decided upon (decisions.py), kept
(ledger.py) and told: rows of windows that are closed on `telemetry.window`, of those that are open and have changed on
`telemetry.window.open`, alerts by their route. Told again after a restart, it is known by its number. From an event to its
row on `telemetry.window.open`: at most a trigger and 0.3 s (scripts/bench spark_latency).
"""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from appbackplane.transport.errors import BackplaneError, DeadlineExceeded, PeerError

from ..delivery import PATIENCE_S, Delivery
from .alerts import BadRules, Call, read_rules
from .decisions import Decision, Decisions
from .ledger import Ledger
from .partials import COLUMNS, SCHEMA, partials, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of closed windows, each once; and of those that are open, as far as they have come.
TOPIC: Final = "telemetry.window"
TOPIC_OPEN: Final = "telemetry.window.open"
WINDOW_NS: Final = 10_000_000_000
TRIGGER_NS: Final = 1_000_000_000
#: An action is recorded by the thread that ran it, once that has the lead: on an overloaded machine some 100 ms late.
LATENESS_NS: Final = 2_000_000_000
#: Of a micro-batch: half a second of work. A program that was away has more to read, and closes no window until it is there.
RECORDS_MAX: Final = 1_000_000
#: Alerts must not keep windows waiting: what is not answered by then is told with the next decision.
CALL_LIMIT_S: Final = 1.0
#: Between looks at the query, whose end nobody announces to this thread.
LOOK_S: Final = 0.5


def stream(
    where: Path,
    master: str,
    *,
    window_ns: int = WINDOW_NS,
    trigger_ns: int = TRIGGER_NS,
    lateness_ns: int = LATENESS_NS,
    rules: Path | None = None,
    checkpoint: Path | None = None,
    backplane: str | None = None,
    patience_s: float = PATIENCE_S,
    is_loss_fatal: bool = True,
    as_json: bool = False,
) -> None:
    """Until SIGTERM or Ctrl-C. `where`: the run directory of a running system; `checkpoint`: by default a folder in it.
    `is_loss_fatal`: whether records that were removed before they were read end it.

    Raises `BackplaneError`: `BadRules`, `BadCheckpoint`, and what tells that the system does not run.
    """
    known = [] if rules is None else _read(rules)
    folder = checkpoint or where / "pipeline" / "stream"
    ledger = Ledger(folder, window_ns)
    delivery = Delivery(where.absolute(), ledger.last.group, backplane=backplane, patience_s=patience_s)
    try:
        delivery.check()
        telling = Telling(
            Decisions(ledger.last, lateness_ns, known), ledger, delivery, _tell_json if as_json else _tell
        )
        telling.again()
        _run(where, master, folder, telling, trigger_ns, is_loss_fatal=is_loss_fatal)
    finally:
        delivery.close()
        ledger.close()


class Telling:
    """Has it decided, kept and told, in this order. Called from Spark's threads, one at a time."""

    def __init__(
        self,
        decisions: Decisions,
        ledger: Ledger,
        delivery: Delivery,
        say: Callable[[list[dict[str, Any]]], None],
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._decisions, self._ledger, self._delivery = decisions, ledger, delivery
        self._say, self._unix_ns = say, unix_ns
        self._lock = threading.Lock()
        self._untold: list[Call] = []
        self._is_stopped = False
        self.problem: Exception | None = None

    def again(self) -> None:
        """What was decided before this process began, and may have been told in part."""
        self._tell(self._decisions.last)

    def on_batch(self, frame: DataFrame, batch: int) -> None:
        """Called by Spark with each micro-batch; an error ends the query."""
        with self._lock:
            if self._is_stopped or self._decisions.has(batch):
                return
            try:
                kernel = functools.partial(partials, size_ns=self._decisions.last.size_ns)
                found, read = unpack(frame.mapInArrow(kernel, SCHEMA).toArrow())
                is_all = read < RECORDS_MAX // 2  # less than half of the records are damaged
                now_ns = self._unix_ns()
                decision = self._decisions.of_batch(batch, found, now_ns, has_read_all=is_all, untold=self._untold)
                self._ledger.keep(decision)
                self._tell(decision)
            except Exception as error:
                self.problem = self.problem or error
                raise

    def on_silence(self, at_ns: int) -> None:
        """Spark has looked, and there was nothing to read; it had finished by then."""
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
        """Once what is being told is told; nothing is decided any more."""
        with self._lock:
            self._is_stopped = True

    def _tell(self, decision: Decision) -> None:
        self._delivery.to_topic(TOPIC, decision.number, decision.closed)
        self._delivery.to_topic(TOPIC_OPEN, decision.number, decision.changed)
        self._say(decision.closed)
        self._untold = []
        for call in decision.calls:
            try:
                self._delivery.try_call(call.route, call.key, call.arguments, call.id, CALL_LIMIT_S)
            except (PeerError, DeadlineExceeded) as error:
                _warn(f"alert {call.arguments['alert']!r} is told later: {error}")
                self._untold.append(call)
            except BackplaneError as error:
                _warn(f"alert {call.arguments['alert']!r} cannot be told: {error}")


def _run(where: Path, master: str, folder: Path, telling: Telling, trigger_ns: int, *, is_loss_fatal: bool) -> None:
    """Raises what ended it, unless it was asked to."""
    from ..datasource import register
    from ..session import session

    is_to_end = threading.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in signals}

    def hear() -> None:
        for number in signals:
            signal.signal(number, lambda *_: is_to_end.set())

    hear()
    silence = str(trigger_ns // 2_000_000)  # ms: each trigger that finds nothing is told of
    spark = session(master, "pipeline stream", spark_sql_streaming_noDataProgressEventInterval=silence)
    hear()  # again: Spark has a handler of its own for Ctrl-C
    try:
        register(spark)
        spark.streams.addListener(_listener(telling))
        query = (
            spark.readStream.format("backplane")
            .schema(COLUMNS)
            .option("maxRecordsPerTrigger", str(RECORDS_MAX))
            .option("failOnDataLoss", str(is_loss_fatal).lower())
            .load(str(where.absolute()))
            .writeStream.foreachBatch(telling.on_batch)
            .option("checkpointLocation", str(folder / "spark"))
            .trigger(processingTime=f"{trigger_ns // 1_000_000} milliseconds")
            .start()
        )
        while not is_to_end.wait(LOOK_S) and telling.problem is None and query.isActive:
            pass
        telling.stop()
        with contextlib.suppress(*_deaths()):  # as below
            query.stop()
        if telling.problem is not None:
            raise telling.problem
        if not is_to_end.is_set() and (why := query.exception()) is not None:
            raise why
    finally:
        # Whoever ends us may have ended the JVM as well, and then there is nobody to be told: all that counts is kept.
        with contextlib.suppress(*_deaths()):
            spark.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def _deaths() -> tuple[type[Exception], ...]:
    """What a JVM that is gone, or going, makes of a question."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return OSError, Py4JError, PySparkException


def _listener(telling: Telling) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Hears when a trigger found nothing."""

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None:
            telling.on_silence(ns_of(event.timestamp))

    return Listener()


def ns_of(timestamp: str) -> int:
    """Unix time of what Spark writes: "2026-01-01T00:00:00.000Z"."""
    from datetime import datetime

    return round(datetime.fromisoformat(timestamp).timestamp() * 1_000) * 1_000_000


def _read(rules: Path) -> Any:
    try:
        return read_rules(rules.read_text())
    except OSError as error:
        raise BadRules(f"{rules}: {error.strerror}") from error
    except (BadRules, UnicodeDecodeError) as error:
        raise BadRules(f"{rules}: {error}") from error


def _tell(closed: list[dict[str, Any]]) -> None:
    for window_ns in sorted({row["window_ns"] for row in closed}):
        rows = [row for row in closed if row["window_ns"] == window_ns]
        clock = time.strftime("%H:%M:%S", time.localtime(window_ns / 1e9))
        actions, errors = (sum(row[figure] for row in rows) for figure in ("count", "errors"))
        late = " (late)" if all(row["late"] for row in rows) else ""
        click.echo(f"{clock}  {len(rows)} operations, {actions:,} actions, {errors:,} errors{late}")


def _tell_json(closed: list[dict[str, Any]]) -> None:
    for row in closed:
        click.echo(json.dumps(row))


def _warn(line: str) -> None:
    click.echo(f"pipeline stream: {line}", err=True)
