"""Watch a running system: whenever searches are slow while the host is busy, tell it, by calling `alerts.show`.

    python watch.py [--window "2 seconds"] [--p99-ms 1] [--cpu 80]

Two streams of what the system records, its actions and the messages on `host.sample`, are summed up in windows, joined, and
what is left of them is written back into the system. Ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from pathlib import Path

import windows

from appbackplane.spark.datasource import register
from appbackplane.spark.session import session

RUN = Path(__file__).with_name("run")


def main() -> None:
    """Until it is told to end."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--run", default=str(RUN), help="the run directory of the system (default: %(default)s)")
    asked.add_argument("--window", default="2 seconds", help="(default: %(default)s)")
    asked.add_argument("--p99-ms", type=float, default=1.0, help="what is slow (default: %(default)s)")
    asked.add_argument("--cpu", type=float, default=80.0, help="what is busy, in percent (default: %(default)s)")
    given = asked.parse_args()

    spark = session(name="watch")
    register(spark)
    actions = spark.readStream.format("backplane").schema(windows.ACTION)
    samples = spark.readStream.format("backplane").schema(windows.SAMPLE).option("topic", "host.sample")
    searches = windows.searches(actions.option("startingOffsets", "latest").load(given.run), given.window)
    cpu = windows.cpu(samples.option("startingOffsets", "latest").load(given.run), given.window)
    both = windows.both(searches, cpu)
    with tempfile.TemporaryDirectory(prefix="watch-", ignore_cleanup_errors=True) as checkpoint:
        query = (
            windows.alerts(both, given.p99_ms, given.cpu)
            .writeStream.format("backplane")
            .option("route", "alerts.show")
            .option("group", Path(checkpoint).name)  # whose batches these are: a repeated one is not shown twice
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="1 second")
            .start(given.run)
        )
        print(
            f"watching {given.run}: p99 of {given.p99_ms:g} ms or more at {given.cpu:g} % CPU is an alert", flush=True
        )
        is_to_end = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):  # Spark's own handler gives up in the middle of what it does
            signal.signal(number, lambda *_: is_to_end.set())
        while not is_to_end.is_set():
            query.awaitTermination(1)  # raises what has ended it, if it was not us
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
