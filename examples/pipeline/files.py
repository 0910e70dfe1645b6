"""Files: what is in a source tree, in numbers. Arrow computes, a few dozen files at a time; nothing here knows of Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

#: By suffix; what has another one is not read.
LANGUAGES = {
    ".py": "Python", ".pyi": "Python", ".c": "C", ".h": "C", ".cpp": "C++", ".hpp": "C++", ".js": "JavaScript", ".json": "JSON",
    ".md": "Markdown", ".rst": "reStructuredText", ".txt": "text", ".toml": "TOML", ".html": "HTML",
}  # fmt: skip
#: What `measured` makes of each file. `done_ns`: Unix time, by which it can be joined with what was recorded.
SCHEMA = "path string, language string, bytes long, lines long, words long, distinct long, done_ns long"
#: Files that are in memory at a time, and how large they may be: larger ones are data.
FILES_MAX = 64
BYTES_MAX = 2 << 20


def paths(root: Path) -> Iterator[str]:
    """The files of known languages below a folder."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names) if Path(name).suffix in LANGUAGES)


def measured(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: batches with a column `path` in, rows of `SCHEMA` out. A file that cannot be read is left out."""
    for batch in batches:
        for start in range(0, len(batch), FILES_MAX):
            texts = dict(_texts(batch["path"].slice(start, FILES_MAX).to_pylist()))
            yield measure(list(texts), pa.array(texts.values(), pa.string()), time.time_ns())


def measure(paths: list[str], texts: pa.StringArray, done_ns: int) -> pa.RecordBatch:
    """Rows of `SCHEMA` of some files."""
    words = [_words(each.values) for each in pc.split_pattern_regex(texts, r"\W+")]
    columns = {
        "path": pa.array(paths, pa.string()),
        "language": pa.array([LANGUAGES[Path(path).suffix] for path in paths], pa.string()),
        "bytes": pc.binary_length(texts).cast(pa.int64()),
        "lines": pc.count_substring(texts, "\n").cast(pa.int64()),
        "words": pa.array([len(each) for each in words], pa.int64()),
        "distinct": pa.array([pc.count_distinct(each).as_py() for each in words], pa.int64()),
        "done_ns": pa.repeat(pa.scalar(done_ns, pa.int64()), len(paths)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _words(parts: pa.StringArray) -> pa.StringArray:
    return parts.filter(pc.not_equal(parts, ""))  # what is before a first and behind a last separator


def _texts(paths: list[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        try:
            if os.path.getsize(path) <= BYTES_MAX:
                yield path, Path(path).read_text("utf-8", "replace")
        except OSError:
            continue
