"""Lines: how far segments reach while they grow, without Spark: a writer in steps, a reader that looks at any moment."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from appbackplane.spark.offsets import Position
from appbackplane.spark.records.found import Found
from appbackplane.spark.records.pieces import read_all
from appbackplane.spark.source.lines import BackplaneActions, lines_of, missing, ranges, walk
from tests.spark.made import names_of, traffic, words_of, write_actions

#: What a recorder does next: so many records more, begin the next segment (sealing this one or being killed), or nothing.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 40)),
        st.tuples(st.just("seal"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("read"), st.one_of(st.none(), st.integers(1, 30))),
        st.tuples(st.just("forget"), st.just(0)),
    ),
    max_size=14,
)


def positions_read(line: BackplaneActions, start: Position, end: Position) -> list[tuple[int, int]]:
    """What tasks would read."""
    found = Found()
    read = []
    for number, low, high in ranges(line, start, end):
        for actions in read_all([line.piece(number, low, high)], ["index"], found):
            read += [(number, index) for index in actions["index"].tolist()]
    assert not found.skipped and not found.unreadable
    return read


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_happens_each_record_is_read_once_and_in_order(steps: list[tuple[str, int | None]]) -> None:
    """Rotation, kill -9, a limit, a restart of the reader: exactly what was written, and the same when it is repeated."""
    with TemporaryDirectory() as folder:
        where = Path(folder)
        counts = [0]

        def write(*, sealed: bool = False) -> None:
            words = words_of(counts[-1], traffic(counts[-1]))
            write_actions(where, "one", len(counts), words, names_of(), room=3, sealed=sealed)

        write()
        line = lines_of(where)["one"]
        at, read, batches = Position(1, 0), [], []
        for step, amount in [*steps, ("read", None)]:
            if step == "write":
                counts[-1] += amount or 0
                write()
            elif step in ("seal", "kill") and counts[-1]:
                write(sealed=step == "seal")
                counts.append(0)
                write()
            elif step == "forget":
                line = lines_of(where)["one"]
            elif step == "read":
                to, records = walk(line, at, amount)
                batch = positions_read(line, at, to)
                assert len(batch) == records and (amount is None or records <= amount)
                batches.append((at, to, batch))
                at, read = to, read + batch
        assert read == [(n, index) for n, count in enumerate(counts, 1) for index in range(count)]
        for start, end, batch in batches:
            assert positions_read(line, start, end) == batch


def test_what_is_missing_is_told_but_not_what_was_read_to_its_end(tmp_path: Path) -> None:
    """Retention takes what was read, too: that is no loss."""
    for number in (1, 2, 3):
        write_actions(tmp_path, "one", number, words_of(10, traffic(10)), names_of(), sealed=number < 3)
    line = lines_of(tmp_path)["one"]
    assert walk(line, Position(1, 0), 10).to[:2] == (2, 0)
    assert walk(line, Position(1, 0), 15).to[:2] == (2, 5)
    line.path(1).unlink()
    assert missing(line, Position(1, 10), Position(3, 4)) == []
    assert missing(line, Position(2, 0), Position(3, 4)) == []
    assert missing(line, Position(1, 9), Position(3, 4)) == [1]
    line.path(2).unlink()
    assert missing(line, Position(1, 0), Position(3, 4)) == [1, 2]
    assert missing(line, Position(3, 0), Position(3, 4)) == []
