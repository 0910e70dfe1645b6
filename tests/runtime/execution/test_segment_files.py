"""Segment files: made whole, sealed when they are full, removed when they are too old or too many, continued after a death."""

from __future__ import annotations

import mmap
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appbackplane.runtime.execution.records.segment_files import RETRY_NS, TURN_NS, SegmentFiles
from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.message_log import MessageLog
from appbackplane.runtime.observation.segments import (
    ACTIONS_SUFFIX,
    HEADER_BYTES,
    MESSAGES_SUFFIX,
    NAMES_END,
    RECORD_BYTES,
    SegmentHeader,
    unpack_message,
)
from appbackplane.runtime.process_config import RecordPolicy

SEGMENT = 64 << 10
HEADER = SegmentHeader(
    kind="messages", system="shop", node="here", backplane="web", generation=1, pid=7, number=0, created_ns=0, topic="sold"
)  # fmt: skip


class Time:
    """Virtual, and what makes Unix time of it the machine's: files bear the machine's."""

    def __init__(self, unix_ns: int) -> None:
        self.now_ns, self.unix_ns = 10**12, unix_ns - 10**12

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def time(tmp_path: Path) -> Time:
    return Time(tmp_path.stat().st_mtime_ns)


@pytest.fixture
def files(tmp_path: Path, time: Time) -> SegmentFiles:
    return open_files(tmp_path, time)


def open_files(
    folder: Path, time: Time, size: int = 4 * SEGMENT, wake: Callable[[], None] = lambda: None
) -> SegmentFiles:
    policy = RecordPolicy(size=size, age_ns=10 * TURN_NS, segment=SEGMENT)
    return SegmentFiles(folder / "sold", HEADER, MESSAGES_SUFFIX, policy, time, lambda: time.unix_ns, wake)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "sold").iterdir()) if (folder / "sold").exists() else []


def messages(path: Path) -> list[bytes]:
    """All that are whole, from the beginning."""
    data, at, found = path.read_bytes(), HEADER_BYTES, []
    while (message := unpack_message(data, at)) is not None:
        number, _, body, at = message
        assert number == len(found)
        found.append(bytes(body))
    return found


def test_nothing_is_made_before_something_is_recorded(tmp_path: Path, files: SegmentFiles) -> None:
    """A topic that is never published on costs an empty folder: whoever reads it sees that it is recorded."""
    files.tend()
    assert (tmp_path / "sold").is_dir()
    assert names(tmp_path) == []


def test_what_is_written_is_read_and_a_sealed_file_has_no_more_bytes_than_that(
    tmp_path: Path, files: SegmentFiles, time: Time
) -> None:
    """The rest of the disk is given back."""
    log = MessageLog(files)
    assert all(log.append(b"body %d" % number, time.now_ns) for number in range(3))
    path = tmp_path / "sold" / "00000001.messages"
    assert messages(path) == [b"body 0", b"body 1", b"body 2"]
    header, sealed = segments.unpack_header(path.read_bytes())
    assert (header.number, header.created_ns, sealed) == (1, time.now_ns + time.unix_ns, -1)
    log.close()
    files.tend()
    assert messages(path) == [b"body 0", b"body 1", b"body 2"]
    assert segments.unpack_header(path.read_bytes())[1] == 3
    assert path.stat().st_size < SEGMENT


def test_the_next_file_is_there_before_it_is_needed(tmp_path: Path, time: Time) -> None:
    """A worker that has to make it itself stands still for milliseconds, and everybody with it."""
    woken: list[int] = []
    files = open_files(tmp_path, time, wake=lambda: woken.append(1))
    log = MessageLog(files)
    while not woken:
        log.append(bytes(5_000), time.now_ns)
    assert names(tmp_path) == ["00000001.messages"]
    files.tend()
    assert names(tmp_path) == ["00000001.messages", "next.tmp"]
    while log.count * 5_000 < SEGMENT:
        log.append(bytes(5_000), time.now_ns)
    assert names(tmp_path) == ["00000001.messages", "00000002.messages"]


def test_a_file_is_made_with_its_pages_in_place_and_nobody_waits_meanwhile(
    tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault for every page is half a microsecond that who leads waits; MAP_POPULATE takes the GIL for all of them at once."""
    flags: list[int] = []
    real = mmap.mmap

    def mapped(*arguments: int, **options: int) -> mmap.mmap:
        flags.append(options["flags"])
        return real(*arguments, **options)

    monkeypatch.setattr("appbackplane.runtime.execution.records.segment_files.mmap.mmap", mapped)
    room = open_files(tmp_path, time).take(least=64 * SEGMENT)
    assert room is not None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for at in range(0, room.size, mmap.PAGESIZE):
        room.buffer[at] = 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < room.size // mmap.PAGESIZE // 4
    assert not any(each & mmap.MAP_POPULATE for each in flags)


def test_a_calendar_that_is_set_right_holds_from_the_next_segment_on(
    tmp_path: Path, files: SegmentFiles, time: Time
) -> None:
    """A machine whose clock is set after its start would write of 1970 until somebody restarts it."""
    log = MessageLog(files)
    log.append(b"before", time.now_ns)
    time.unix_ns += 10**15
    log.turn()
    log.append(b"after", time.now_ns)
    first, second = ((tmp_path / "sold" / f"0000000{number}.messages").read_bytes() for number in (1, 2))
    at = HEADER_BYTES
    assert unpack_message(second, at)[1] - unpack_message(first, at)[1] == 10**15  # type: ignore[index]


def test_the_next_generation_goes_on_behind_the_last_and_never_writes_to_it(
    tmp_path: Path, files: SegmentFiles, time: Time
) -> None:
    """What a killed process has left is the end of its records, whatever it was about to write."""
    MessageLog(files).append(b"last words", time.now_ns)
    (tmp_path / "sold" / "next.tmp").write_bytes(b"half made")
    next_files = open_files(tmp_path, time)
    MessageLog(next_files).append(b"first words", time.now_ns)
    assert names(tmp_path) == ["00000001.messages", "00000002.messages"]
    assert messages(tmp_path / "sold" / "00000001.messages") == [b"last words"]


def test_a_body_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path, files: SegmentFiles, time: Time) -> None:
    """It may travel, so it may be recorded."""
    log = MessageLog(files)
    assert log.append(bytes(3 * SEGMENT), time.now_ns)
    assert log.append(b"small", time.now_ns)
    assert [len(body) for body in messages(tmp_path / "sold" / "00000001.messages")] == [3 * SEGMENT]
    assert messages(tmp_path / "sold" / "00000002.messages") == [b"small"]


def test_retention_keeps_to_its_size_and_removes_the_oldest_first(
    tmp_path: Path, files: SegmentFiles, time: Time
) -> None:
    """The bound that the TOML names; what is being written is never removed."""
    log = MessageLog(files)
    while log.count < 60:
        log.append(bytes(10_000), time.now_ns)
        files.tend()
        assert sum(path.stat().st_size for path in (tmp_path / "sold").glob("*.messages")) <= 5 * SEGMENT
    assert len(messages(tmp_path / "sold" / [name for name in names(tmp_path) if name[0] == "0"][-1])) > 0
    assert names(tmp_path)[0] != "00000001.messages"


def test_retention_removes_what_is_too_old(tmp_path: Path, files: SegmentFiles, time: Time) -> None:
    """By when it was written last; and a segment that does not fill is turned, so that it can become old."""
    log = MessageLog(files)
    log.append(b"old", time.now_ns)
    assert not files.tend()
    time.now_ns += TURN_NS
    assert files.tend(), "it has become old"
    log.turn()
    log.append(b"new", time.now_ns)
    files.tend()
    assert names(tmp_path) == ["00000001.messages", "00000002.messages"]
    time.now_ns += 10 * TURN_NS
    files.tend()
    assert names(tmp_path) == ["00000002.messages"]


@pytest.fixture
def full_disk() -> Iterator[Callable[[bool], None]]:
    """Files can be made no larger than nothing."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def set_full(is_full: bool) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0 if is_full else before[0], before[1]))

    yield set_full
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_counted_told_once_and_recorded_again_when_there_is_room(
    tmp_path: Path, files: SegmentFiles, time: Time, full_disk: Callable[[bool], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Allocated beforehand: what is mapped and has no room would end the process by a signal."""
    caplog.set_level("CRITICAL")  # pytest's own files are on the disk, too
    log = MessageLog(files)
    full_disk(True)
    assert not log.append(b"lost", time.now_ns)
    assert not log.append(b"lost", time.now_ns)
    full_disk(False)
    assert log.lost_count == 2
    assert files.problem is not None
    assert "large" in files.problem
    assert not log.append(b"lost", time.now_ns), "not tried again each time"
    time.now_ns += RETRY_NS
    assert log.append(b"kept", time.now_ns)
    assert (files.problem, messages(tmp_path / "sold" / "00000001.messages")) == (None, [b"kept"])


def test_somebody_who_removes_the_folder_does_not_end_the_recording(
    tmp_path: Path, files: SegmentFiles, time: Time
) -> None:
    """An operator at three in the morning with a full disk."""
    log = MessageLog(files)
    log.append(b"gone", time.now_ns)
    for path in (tmp_path / "sold").iterdir():
        path.unlink()
    os.rmdir(tmp_path / "sold")
    log.turn()
    assert log.append(b"kept", time.now_ns)
    files.tend()
    assert messages(tmp_path / "sold" / "00000002.messages") == [b"kept"]


def test_a_file_that_somebody_removes_while_retention_looks_is_no_problem(
    tmp_path: Path, files: SegmentFiles, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator who needs room removes files, too: a warning that nothing can be recorded would be untrue."""
    log = MessageLog(files)
    while log.count < 20:
        log.append(bytes(10_000), time.now_ns)
    removed, listed = tmp_path / "sold" / "00000000.messages", segments.files_in
    monkeypatch.setattr(segments, "files_in", lambda *where: [(0, removed), *listed(*where)])
    files.tend()
    assert files.problem is None


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, files: SegmentFiles, time: Time) -> None:
    """Its name is no number, whatever it looks like."""
    (tmp_path / "sold").mkdir()
    (tmp_path / "sold" / "\u00b2.messages").touch()
    assert MessageLog(open_files(tmp_path, time)).append(b"kept", time.now_ns)
    assert names(tmp_path) == ["00000001.messages", "\u00b2.messages"]


def test_processes_that_die_one_after_the_other_do_not_push_out_what_was_recorded_before(
    tmp_path: Path, files: SegmentFiles, time: Time
) -> None:
    """Each leaves a file that is allocated whole: 32 deaths would be 256 MiB, and what led to the first would be gone."""
    log = MessageLog(files)
    for _ in range(10):
        log.append(bytes(10_000), time.now_ns)
    log.close()
    files.tend()
    files.close()
    before = names(tmp_path)
    for _ in range(12):
        left = open_files(tmp_path, time)
        left.tend()
        MessageLog(left).append(bytes(100), time.now_ns)
    assert names(tmp_path)[: len(before)] == before
    for name in names(tmp_path)[len(before) :]:
        assert messages(tmp_path / "sold" / name) == [bytes(100)], "zeros are a body, too"


def test_what_a_killed_process_has_torn_stays_as_it_is(tmp_path: Path, files: SegmentFiles, time: Time) -> None:
    """Readers count it; and it is no younger than it was, or it would be kept longer than its age."""
    MessageLog(files).append(b"whole", time.now_ns)
    path = tmp_path / "sold" / "00000001.messages"
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 48] = 7  # of the next, which it did not finish
    path.write_bytes(data)
    os.utime(path, ns=(time.now_ns, 10**18))
    open_files(tmp_path, time).tend()
    told = path.stat()
    assert (told.st_size, told.st_mtime_ns) == (HEADER_BYTES + 56, 10**18)
    assert path.read_bytes() == bytes(data[: told.st_size])


def test_actions_of_a_killed_process_keep_their_room_up_to_the_last(tmp_path: Path, time: Time) -> None:
    """The last record whole, even where it ends in zeros; and one that has none is names and no more."""
    policy = RecordPolicy(size=1 << 30, age_ns=1 << 60, segment=NAMES_END + 40 * RECORD_BYTES)

    def opened() -> SegmentFiles:
        return SegmentFiles(tmp_path, HEADER, ACTIONS_SUFFIX, policy, time, lambda: time.unix_ns, lambda: None)

    for count in (0, 1, 7, 40):
        room = opened().take()
        assert room is not None
        for index in range(count):
            room.buffer[NAMES_END + index * RECORD_BYTES] = 1
        opened().tend()
        assert (tmp_path / segments.file_name(room.number, ACTIONS_SUFFIX)).stat().st_size == (
            NAMES_END + count * RECORD_BYTES
        )
