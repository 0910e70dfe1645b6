"""Evaluate the recorded reports of the field by Spark: climate of the zones, lost messages, days of battery left.

    python aggregate.py [--run FOLDER] [--json]

Needs the extra: pip install 'appbackplane[spark]'. The system may run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from sensornet import aggregates

from appbackplane.spark.datasource import register
from appbackplane.spark.session import SHORT_LIVED, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUN_DIR = Path(__file__).with_name("run")
#: Lines of each table that are printed; `--json` has them all.
ROWS_MAX = 5


def main() -> None:
    """Read the records once."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--run", default=str(RUN_DIR), help="the run directory of the system (default: %(default)s)")
    asked.add_argument("--json", action="store_true", help="print one JSON document with all rows")
    given = asked.parse_args()
    # Spark's processes write there; a task that ends early says that its pipe is broken. Errors are raised here.
    with tempfile.TemporaryFile() as said:
        spark = session("local[*]", "sensors", stderr=said, **SHORT_LIVED)
        register(spark)
        evaluate(aggregates.reports(spark, given.run).cache(), is_json=given.json)
        spark.stop()


def evaluate(reports: DataFrame, *, is_json: bool) -> None:
    """Print the three tables."""
    tables = {
        "zones": aggregates.by_zone_and_minute(reports).orderBy("run", "minute", "zone"),
        "losses": aggregates.losses(reports).orderBy(F.desc("share"), "run", "node"),
        "batteries": aggregates.batteries(reports).orderBy("days_left", "run", "node"),
    }
    if is_json:
        print(json.dumps({name: [row.asDict() for row in table.collect()] for name, table in tables.items()}))
    else:
        print(f"{reports.count():,} reports of {reports.select('run', 'node').distinct().count():,} nodes")
        for table in tables.values():
            table.select(
                *(F.round(name, 2).alias(name) if kind == "double" else name for name, kind in table.dtypes)
            ).show(ROWS_MAX)


if __name__ == "__main__":
    main()
