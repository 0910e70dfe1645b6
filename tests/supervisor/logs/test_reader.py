"""Reading a log: the last lines, those since an instant, and those to come; across files, and while it is written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appbackplane.runtime.observation.log_line import LogLine, encode
from appbackplane.supervisor.logs import reader as log_reader
from appbackplane.supervisor.logs.file import LogFile
from appbackplane.supervisor.logs.filter import LogFilter
from appbackplane.supervisor.logs.folder import name_of
from appbackplane.supervisor.logs.reader import Found, LogPosition, LogReader, end_of, last, start_of

BEGAN = datetime(2025, 7, 1, tzinfo=UTC)
ALL = LogFilter()


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that every line crosses the end of one sooner or later."""
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", 700)


def raw(number: int, level: str = "INFO") -> bytes:
    """A line a minute."""
    time = BEGAN + timedelta(minutes=number)
    return encode(LogLine(time=time, level=level, backplane=f"b{number % 3}", message=f"line {number}")) + b"\n"


def fill(folder: Path, numbers: Iterable[int], bytes_max: int = 2_000, files: int = 1_000) -> None:
    """As a supervisor does."""
    file = LogFile(folder, bytes_max, files)
    for number in numbers:
        file.write(raw(number, "ERROR" if number % 50 == 0 else "INFO"))
    file.close()


def told(found: list[Found]) -> list[int]:
    """The numbers of the lines."""
    return [int(line.message.split()[1]) for _, line in found if line is not None]


def read_all(reader: LogReader) -> list[int]:
    """Until there is no more."""
    found = []
    while more := reader.read():
        found += told(more)
    return found


def test_the_last_lines_are_found_from_the_end(tmp_path: Path) -> None:
    """Across files, whole, in order; fewer where there are fewer."""
    fill(tmp_path, range(200))
    assert told(last(tmp_path, ALL, 40, end_of(tmp_path))) == list(range(160, 200))
    assert told(last(tmp_path, ALL, 1_000, end_of(tmp_path))) == list(range(200))
    assert told(last(tmp_path, ALL, 0, end_of(tmp_path))) == []


def test_the_last_lines_that_match(tmp_path: Path) -> None:
    """However far back they are."""
    fill(tmp_path, range(200))
    assert told(last(tmp_path, LogFilter(level="ERROR"), 3, end_of(tmp_path))) == [50, 100, 150]
    assert told(last(tmp_path, LogFilter(backplane="b1"), 2, end_of(tmp_path))) == [196, 199]
    late = LogFilter(level="ERROR", since=BEGAN + timedelta(minutes=90))
    assert told(last(tmp_path, late, 10, end_of(tmp_path))) == [100, 150]


@pytest.mark.parametrize("minute", [-5, 0, 1, 77, 150, 199, 300])
def test_since_an_instant(tmp_path: Path, minute: int) -> None:
    """Nothing that is wanted is jumped over, and no more than a little is read in vain."""
    fill(tmp_path, range(200))
    since = BEGAN + timedelta(minutes=minute)
    reader = LogReader(tmp_path, LogFilter(since=since), start_of(tmp_path, since))
    assert read_all(reader) == list(range(max(0, minute), 200))
    reader.close()


def test_since_an_instant_reads_little_of_what_was_before(tmp_path: Path) -> None:
    """A week's log, of which the last minute is wanted."""
    fill(tmp_path, range(2_000), bytes_max=20_000)
    place = start_of(tmp_path, BEGAN + timedelta(minutes=1_990))
    end = end_of(tmp_path)
    assert place.number == end.number
    assert end.offset - place.offset < 3_000


def test_a_log_of_nothing_is_no_error(tmp_path: Path) -> None:
    """A system that has just come up."""
    assert end_of(tmp_path) == LogPosition(0, 0)
    assert last(tmp_path, ALL, 10, end_of(tmp_path)) == []
    reader = LogReader(tmp_path, ALL, start_of(tmp_path, BEGAN))
    assert reader.read() == []
    fill(tmp_path, range(3))
    assert read_all(reader) == [0, 1, 2]
    reader.close()


@given(st.lists(st.integers(0, 12), max_size=25), st.integers(300, 3_000))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_follower_misses_nothing_and_tells_nothing_twice(
    tmp_path_factory: pytest.TempPathFactory, bursts: list[int], bytes_max: int
) -> None:
    """Whenever the files turn, and however much came meanwhile; after the last lines it goes on where those ended."""
    folder = tmp_path_factory.mktemp("log")
    file, number = LogFile(folder, bytes_max, 1_000), 0
    for _ in range(5):
        file.write(raw(number))
        number += 1
    end = end_of(folder)
    found = told(last(folder, ALL, 1_000, end))
    reader = LogReader(folder, ALL, end)
    for burst in bursts:
        for _ in range(burst):
            file.write(raw(number))
            number += 1
        found += read_all(reader)
    assert found == list(range(number))
    assert reader.missed_count == 0
    reader.close()
    file.close()


def test_what_was_written_just_before_the_next_file_began_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower has read to the end, the supervisor writes once more and turns, and only then the follower looks."""
    file = LogFile(tmp_path, 2 * len(raw(0)), 1_000)
    file.write(raw(0))
    reader = LogReader(tmp_path, ALL, LogPosition(1, 0))
    assert told(reader.read()) == [0]
    look = os.listdir

    def just_then(folder: Path) -> list[str]:
        monkeypatch.setattr(os, "listdir", look)
        file.write(raw(1))
        file.write(raw(2))
        return look(folder)

    monkeypatch.setattr(os, "listdir", just_then)
    assert read_all(reader) == [1, 2]
    assert (tmp_path / name_of(2)).exists()
    reader.close()
    file.close()


def test_a_line_is_told_once_it_is_whole(tmp_path: Path) -> None:
    """The kernel may show a write before all of it is there."""
    fill(tmp_path, [0])
    whole = raw(1)
    path = tmp_path / name_of(1)
    with path.open("ab", buffering=0) as file:
        file.write(whole[:20])
        end = end_of(tmp_path)
        assert told(last(tmp_path, ALL, 10, end)) == [0]
        reader = LogReader(tmp_path, ALL, end)
        assert reader.read() == []
        file.write(whole[20:])
    assert told(reader.read()) == [1]
    reader.close()


def test_a_follower_who_is_too_slow_is_told_what_he_missed(tmp_path: Path) -> None:
    """Files that have had their turn are gone; the count is not."""
    fill(tmp_path, range(5))
    reader = LogReader(tmp_path, ALL, end_of(tmp_path))
    fill(tmp_path, range(5, 300), files=2)
    found = read_all(reader)
    assert found[-1] == 299
    assert reader.missed_count > 0
    reader.close()


def test_what_cannot_be_understood_is_shown_where_nothing_was_asked_for(tmp_path: Path) -> None:
    """The half line of a supervisor that was killed; it matches no filter."""
    fill(tmp_path, [0])
    with (tmp_path / name_of(1)).open("ab") as file:
        file.write(b'{"time":"2025-07-\n')
    end = end_of(tmp_path)
    assert last(tmp_path, ALL, 10, end)[-1] == (b'{"time":"2025-07-', None)
    assert told(last(tmp_path, LogFilter(backplane="b0"), 10, end)) == [0]
