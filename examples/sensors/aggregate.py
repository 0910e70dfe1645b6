"""Evaluate the recorded reports of the field by Spark: climate of the zones, lost messages, days of battery left.

    python aggregate.py [--run FOLDER] [--json]

Needs the extra: pip install 'appbackplane[spark]'. The system may run meanwhile.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import functions as F
from sensornet import aggregates

from appbackplane.spark.datasource import register
from appbackplane.spark.session import session

RUN_DIR = Path(__file__).with_name("run")
#: Lines of each table that are printed; `--json` has them all.
ROWS_MAX = 5


def main() -> None:
    """Read once, aggregate three times, and print."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--run", default=str(RUN_DIR), help="the run directory of the system (default: %(default)s)")
    asked.add_argument("--json", action="store_true", help="print one JSON document with all rows")
    given = asked.parse_args()
    spark = session(name="sensors")
    register(spark)
    reports = aggregates.reports(spark, given.run).cache()
    tables = {
        "zones": aggregates.by_zone_and_minute(reports).orderBy("run", "minute", "zone"),
        "losses": aggregates.losses(reports).orderBy(F.desc("share"), "run", "node"),
        "batteries": aggregates.batteries(reports).orderBy("days_left", "run", "node"),
    }
    if given.json:
        print(json.dumps({name: [row.asDict() for row in table.collect()] for name, table in tables.items()}))
    else:
        print(f"{reports.count():,} reports of {reports.select('run', 'node').distinct().count():,} nodes")
        for table in tables.values():
            table.select(
                *(F.round(name, 2).alias(name) if kind == "double" else name for name, kind in table.dtypes)
            ).show(ROWS_MAX)
    spark.stop()


if __name__ == "__main__":
    main()
