"""Program: `pipeline stream`: Spark reads the records of a running system, batch by batch; the results go back to the system.

Each second, or `trigger`, a micro-batch is reduced in Spark's tasks (partials.py), decided (decisions.py), stored (ledger.py)
and published (telling.py): rows of closed windows on `telemetry.window`, of changed open ones on `telemetry.window.open`,
alerts by their routes. After a restart, repeated output is recognised by its number. Delay from an event to its row on
`telemetry.window.open`: at most a trigger and 0.3 s (scripts/bench spark_latency).
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from appbackplane.transport.errors import InvalidArgument, PeerError

from ..delivery import PATIENCE_S, SystemDelivery, first_backplane
from .alerts import BadRules, read_rules
from .decisions import Decisions
from .ledger import CheckpointLedger
from .partials import COLUMNS
from .said import Said
from .telling import RECORDS_MAX, AlertPublisher

WINDOW_NS: Final = 10_000_000_000
TRIGGER_NS: Final = 1_000_000_000
#: Shortest window and trigger: a micro-batch takes about so long.
SHORTEST_NS: Final = 100_000_000
#: Time to wait for late records: the thread that ran an action records it when it next leads, some 100 ms late under overload.
LATENESS_NS: Final = 2_000_000_000
#: Time between polls of the query, which does not notify this thread of its end.
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
    """Run until SIGTERM or Ctrl-C, in the run directory `where` of a running system; `checkpoint`: by default a folder in it.

    `is_loss_fatal`: end if records were removed before they were read. Raises `BackplaneError`: `BadRules`, `BadCheckpoint`,
    and the errors of a system that does not run.
    """
    for what, ns in (("window", window_ns), ("trigger", trigger_ns)):
        if ns < SHORTEST_NS:
            raise InvalidArgument(f"a {what} of {ns / 1e9:g} s: {SHORTEST_NS / 1e9:g} s is the minimum")
    known = [] if rules is None else _read(rules)
    system, folder = where.absolute(), checkpoint or where / "pipeline" / "stream"
    is_to_end = threading.Event()
    ledger = CheckpointLedger(folder, window_ns, lambda: backplane or first_backplane(system))
    whose = ledger.last
    delivery = SystemDelivery(
        system, whose.group, backplane=whose.backplane, patience_s=patience_s, is_to_end=is_to_end.is_set
    )
    try:
        delivery.check()
        telling = AlertPublisher(
            Decisions(whose, lateness_ns, known), ledger, delivery, _tell_json if as_json else _tell
        )
        with _heard(is_to_end) as hear:
            telling.again()
            _run(system, master, folder, telling, is_to_end, hear, trigger_ns, is_loss_fatal=is_loss_fatal)
    except PeerError:
        if not is_to_end.is_set():  # ending: the next start sends it
            raise
    finally:
        delivery.close()
        ledger.close()


@contextlib.contextmanager
def _heard(is_to_end: threading.Event) -> Iterator[Callable[[], None]]:
    """Set `is_to_end` on SIGTERM and Ctrl-C. Yields a function that installs these handlers again."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in signals}

    def hear() -> None:
        for number in signals:
            signal.signal(number, lambda *_: is_to_end.set())

    hear()
    try:
        yield hear
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(
    where: Path,
    master: str,
    folder: Path,
    telling: AlertPublisher,
    is_to_end: threading.Event,
    hear: Callable[[], None],
    trigger_ns: int,
    *,
    is_loss_fatal: bool,
) -> None:
    """Run the query until the end is requested. Raises the error that ended it otherwise."""
    from ..datasource import register
    from ..session import session

    silence = str(trigger_ns // 2_000_000)  # ms: Spark reports each trigger that finds nothing
    said = Said()
    spark = session(
        master, "appbackplane pipeline stream", stderr=said.file,
        spark_sql_streaming_noDataProgressEventInterval=silence,
    )  # fmt: skip
    hear()  # again: Spark has installed its own handler for Ctrl-C
    try:
        register(spark)
        spark.streams.addListener(_listener(telling))
        query = (
            spark.readStream.format("backplane")
            .schema(COLUMNS)
            .option("maxRecordsPerTrigger", str(RECORDS_MAX))
            .option("failOnDataLoss", str(is_loss_fatal).lower())
            .load(str(where))
            .writeStream.foreachBatch(telling.on_batch)
            .option("checkpointLocation", str(folder / "spark"))
            .trigger(processingTime=f"{trigger_ns // 1_000_000} milliseconds")
            .start()
        )
        said.is_passed_on = True
        while not is_to_end.wait(LOOK_S) and telling.problem is None and query.isActive:
            pass
        telling.stop()
        said.close()
        with contextlib.suppress(*_deaths()):
            query.stop()
        if telling.problem is not None:
            raise in_our_words(telling.problem)
        if not is_to_end.is_set() and (why := query.exception()) is not None:
            raise in_our_words(why)
    except _deaths():
        # The signal may have ended the JVM as well, which then answers no call; all important state is stored.
        if not is_to_end.is_set():
            raise
    finally:
        said.close()
        with contextlib.suppress(*_deaths()):
            spark.stop()


def _deaths() -> tuple[type[Exception], ...]:
    """Exceptions of calls to a JVM that is gone or ending."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return OSError, Py4JError, PySparkException


def _listener(telling: AlertPublisher) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Reports each trigger that found nothing."""

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None:
            telling.on_silence(ns_of(event.timestamp))

    return Listener()


def in_our_words(why: Exception) -> Exception:
    """The error that ended the query. `DataLoss` gets another remedy, since the user of this program has no options."""
    from ..session import in_a_line
    from ..source.stream import REMEDY, DataLoss

    what, is_loss, _ = in_a_line(why).partition(f"; {REMEDY}")
    if not is_loss:
        return why
    return DataLoss(f"{what}; name a new folder with --checkpoint to begin with the records that are left")


def ns_of(timestamp: str) -> int:
    """Convert Spark's timestamp, "2026-01-01T00:00:00.000Z", to Unix ns."""
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
