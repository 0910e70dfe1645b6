"""Here: the versions of Spark and Java on this machine, for `appbackplane doctor`. Imports nothing of Spark, writes nothing."""

from __future__ import annotations

import importlib.metadata
import json

from .java import NoJava, choose, found_here
from .session import missing


def told() -> str:
    """JSON with the versions of Spark and Java, or the reason why one is missing."""
    lacks = missing()
    spark = None if lacks else importlib.metadata.version("pyspark")
    try:
        java = choose(found_here())
    except NoJava as error:
        return json.dumps({"spark": spark, "missing": lacks, "java": None, "because": error.found})
    said = f"{java.version}, by {java.whence}: {java.path}"
    return json.dumps({"spark": spark, "missing": lacks, "java": said, "because": ""})
