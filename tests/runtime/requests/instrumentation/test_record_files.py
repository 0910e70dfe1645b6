"""Record files: whole lines, bounded in bytes and in age, each process in files of its own; and disks that take nothing."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from appbackplane.runtime.requests.instrumentation.record_files import FILES, RecordFiles

SIZE = 64 << 10
DAY_NS = 86_400 * 10**9


@pytest.fixture
def now_ns(tmp_path: Path) -> int:
    """The machine's, as it stands on files."""
    return tmp_path.stat().st_mtime_ns


@pytest.fixture
def files(tmp_path: Path) -> Iterator[RecordFiles]:
    files = RecordFiles(tmp_path / "requests" / "main" / "index", SIZE, DAY_NS, tmp_path)
    yield files
    files.close()


def line(number: int) -> bytes:
    return json.dumps({"number": number, "more": "x" * 980}).encode()


def numbers(files: RecordFiles) -> list[int]:
    return [json.loads(each)["number"] for path in files.files() for each in path.read_bytes().splitlines()]


def test_what_is_kept_is_the_latest_and_within_the_bound(files: RecordFiles, now_ns: int) -> None:
    """A kernel that runs for a year fills no disk, and what is asked for is what happened last."""
    for number in range(500):
        files.write(line(number), now_ns)
        assert sum(path.stat().st_size for path in files.files()) <= SIZE
    kept = numbers(files)
    assert kept == list(range(500 - len(kept), 500))
    assert sum(path.stat().st_size for path in files.files()) > SIZE * (FILES - 2) / FILES
    assert files.folder.stat().st_mode & 0o777 == 0o700 and files.files()[0].stat().st_mode & 0o777 == 0o600


def test_what_is_too_old_goes_though_there_is_room(files: RecordFiles, now_ns: int) -> None:
    """A bound of time is a promise about data, not about disks."""
    for number in range(30):
        files.write(line(number), now_ns)
    old = files.files()
    for path in old:
        os.utime(path, ns=(now_ns - 2 * DAY_NS, now_ns - 2 * DAY_NS))
    files.write(
        line(30), now_ns + DAY_NS // FILES + 1
    )  # the present one has become old enough to be followed by the next
    assert numbers(files) == [30] and not any(path.exists() for path in old)


def test_each_process_begins_a_file_of_its_own(files: RecordFiles, now_ns: int) -> None:
    """A killed one may have left half a line; two overlap while one takes the other's place."""
    files.write(line(1), now_ns)
    with files.files()[0].open("ab") as torn:
        torn.write(b'{"number": 2, "mo')
    other = RecordFiles(files.folder, SIZE, DAY_NS)
    other.write(line(3), now_ns)
    files.write(line(4), now_ns)
    other.close()
    assert [path.name for path in files.files()] == ["00000001.jsonl", "00000002.jsonl"]
    assert json.loads(files.files()[1].read_bytes())["number"] == 3


def test_no_run_directory_is_made(tmp_path: Path, now_ns: int) -> None:
    """It is its supervisor's; a folder that a backplane makes in its place has the wrong owner and mode, and stays."""
    files = RecordFiles(tmp_path / "gone" / "requests", SIZE, DAY_NS, tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        files.write(line(1), now_ns)
    assert not (tmp_path / "gone").exists()


def test_a_full_disk_takes_no_part_of_a_line(files: RecordFiles, now_ns: int) -> None:
    """Behind half a line nothing can be read any more. Once there is room again it goes on."""
    files.write(line(1), now_ns)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, limits[1]))
        with pytest.raises(OSError) as caught:
            files.write(line(2), now_ns)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.errno == errno.EFBIG
    assert numbers(files) == [1]
    files.write(line(3), now_ns)
    assert numbers(files) == [1, 3]


def test_a_folder_that_is_removed_meanwhile_is_made_again(files: RecordFiles, now_ns: int) -> None:
    """Somebody tidies up."""
    files.write(line(1), now_ns)
    for path in files.files():
        path.unlink()
    files.folder.rmdir()
    for number in range(2, 40):
        files.write(line(number), now_ns)
    assert numbers(files)[-1] == 39
