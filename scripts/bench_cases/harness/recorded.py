"""Recorded: a run directory full of segments, made without a system, as fast as the disk takes them.

As of a busy system: 24 operations of 6 components on 200 objects, of which some are called far more often than others,
durations log-normal around a median of each operation's own, from 8 us to 3 ms; segments of the size that `[record]` has.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.segments import CHECK_WORD, NO_DEADLINE, SALT, SHIFTED, WORDS, SegmentHeader

if TYPE_CHECKING:
    import numpy as np
    from pyspark.sql import SparkSession

OPERATIONS, COMPONENTS, OBJECTS = 24, 6, 200
SEGMENT_BYTES = 8 << 20
#: 2026-01-01, Unix time.
EPOCH_NS = 1_767_225_600_000_000_000
_LIMITS = {"threads": 4, "priorities": 8, "quotas": [8, 4, 2, 1, 1, 1, 1, 1], "cpu_limit": None, "nice": 0}


def make_run_dir(run_dir: Path, count: int, backplanes: tuple[str, ...] = ("north", "south")) -> None:
    """Segments of `count` records in all, the same for each backplane."""
    room = (SEGMENT_BYTES - segments.NAMES_END) // segments.RECORD_BYTES
    import numpy as np  # an extra, which the other cases do without

    random = np.random.default_rng(1)
    for backplane in backplanes:
        left, number, start = count // len(backplanes), 0, EPOCH_NS
        segments.actions_folder(run_dir, backplane).mkdir(parents=True)
        while left:
            number, rows = number + 1, min(left, room)
            words = _words(rows, number, start, random)
            start = int(words[-1, 0])
            _write(run_dir, backplane, number, words)
            left -= rows


@contextmanager
def as_parquet_too(name: str, count: int) -> Iterator[tuple[SparkSession, Path]]:
    """So many records in a folder: segments in `run`, the same as Parquet in `parquet`; and a session called `name`."""
    if importlib.util.find_spec("pyspark") is None:
        raise RuntimeError("pyspark is not installed: pip install '.[spark]'")
    from appbackplane.spark.compaction import compact
    from appbackplane.spark.session import session

    with tempfile.TemporaryDirectory(prefix="abp-spark-") as text:
        folder = Path(text)
        spark = session(f"local[{len(os.sched_getaffinity(0))}]", name)
        try:
            make_run_dir(folder / "run", count)
            compact(spark, folder / "run", folder / "parquet")
            yield spark, folder
        finally:
            spark.stop()


def _words(count: int, number: int, start: int, random: np.random.Generator) -> np.ndarray:
    import numpy as np

    weights = 1.0 / np.arange(1, OPERATIONS + 1)
    operation = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(count, np.float32)).clip(
        max=OPERATIONS - 1
    )
    median_ns = np.exp(np.linspace(9.0, 15.0, OPERATIONS)).astype(np.float32)
    run = (np.exp(random.standard_normal(count, np.float32)) * median_ns[operation]).astype(np.int64)
    priority = operation % 8
    words = np.zeros((count, WORDS), dtype=np.int64)
    words[:, 0] = start + np.cumsum(random.integers(0, 200_000, count))
    words[:, 1] = np.exp(2 * random.standard_normal(count, np.float32)) * 20_000
    words[:, 2] = words[:, 4] = run
    words[:, 3] = run * random.random(count, np.float32)
    words[:, 5] = np.where(operation % 2, 10**9 - run, NO_DEADLINE)
    words[:, 7] = words[:, 8] = np.arange(number << 20, (number << 20) + count)
    whose = OPERATIONS + (operation % COMPONENTS) + COMPONENTS * random.integers(0, OBJECTS // COMPONENTS, count)
    words[:, 10] = operation | (whose << 32)
    failed = np.where(random.random(count, np.float32) < 0.01, 13 << 24, 0)
    words[:, 11] = priority | (priority << 8) | failed
    check = np.bitwise_xor.reduce(words[:, :CHECK_WORD], axis=1)
    for word, bits in SHIFTED:
        check ^= words[:, word] >> bits  # none of them is below 0
    words[:, CHECK_WORD] = check ^ np.arange(count) ^ SALT
    return words


def _write(run_dir: Path, backplane: str, number: int, words: np.ndarray) -> None:
    header = SegmentHeader(
        kind="actions", system="bench", node="here", backplane=backplane, generation=1, pid=1, number=number,
        created_ns=int(words[0, 0]), limits=_LIMITS,
    )  # fmt: skip
    head = bytearray(segments.pack_header(header))
    head[segments.SEAL_OFFSET : segments.SEAL_OFFSET + 8] = len(words).to_bytes(8, "little")
    head += bytes(segments.HEADER_BYTES - len(head))
    for n in range(OPERATIONS):
        head += segments.pack_name("", f"part{n % COMPONENTS}.work{n}")
    for n in range(OBJECTS):
        head += segments.pack_name(f"part{n % COMPONENTS}", f"part{n % COMPONENTS}/object-{n}")
    head += bytes(segments.NAMES_END - len(head))
    path = segments.actions_folder(run_dir, backplane) / segments.file_name(number, segments.ACTIONS_SUFFIX)
    with path.open("wb") as file:
        file.write(head)
        file.write(words)  # type: ignore[arg-type]
