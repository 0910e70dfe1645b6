"""Batches from outside become messages once, whoever is killed, at whatever moment, and however often they are sent again."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from appbackplane.runtime.backplane import Backplane
from appbackplane.runtime.backplane_operations import batches
from appbackplane.runtime.execution.records import applying
from appbackplane.runtime.execution.records.applying import Applying
from appbackplane.runtime.execution.records.recording import Recording
from appbackplane.runtime.execution.records.segment_files import SegmentFiles
from appbackplane.runtime.execution.workers.clock import RealClock
from appbackplane.runtime.loading import DeclarationFault
from appbackplane.runtime.observation import segments
from appbackplane.runtime.observation.applied import GROUPS_MAX, IDLE_NS, Applied, LedgerEntry, pack, unpack
from appbackplane.runtime.observation.message_log import MessageLog
from appbackplane.runtime.observation.segments import SegmentHeader
from appbackplane.runtime.process import record
from appbackplane.runtime.process_config import ProcessConfig, RecordPolicy
from appbackplane.runtime.testing.memory_link import MemoryLink
from appbackplane.transport.errors import Busy, FailedPrecondition, InvalidArgument, Unavailable
from tests.profiles import examples

TOPIC = "some.news"


class Killed(BaseException):
    """The process has ended, here."""


class Process:
    """One generation of a backplane: its recorded topic and its ledger, in files; it ends at its `lives`-th write."""

    def __init__(self, run_dir: Path, generation: int, lives: int = -1) -> None:
        self.lives = lives
        self.told: list[Any] = []
        header = SegmentHeader(
            kind="messages", system="s", node="n", backplane="b", generation=generation, pid=1, number=0, created_ns=0,
            topic=TOPIC,
        )  # fmt: skip
        policy = RecordPolicy(size=1 << 20, age_ns=1 << 60, segment=4096 + 200)  # of which each holds a few
        folder = segments.messages_folder(run_dir, "b", TOPIC)
        files = SegmentFiles(folder, header, segments.MESSAGES_SUFFIX, policy, lambda: 1, lambda: 0, lambda: None)
        self.log = MessageLog(files)
        append = self.log.append
        self.log.append = lambda body, now_ns: self.at_a_write() or append(body, now_ns)  # type: ignore[method-assign]
        parts: dict[str, Any] = {
            "clock": SimpleNamespace(now_ns=lambda: 5),
            "sender": SimpleNamespace(encoder=SimpleNamespace(pack=msgpack.packb)),
            "publishing": SimpleNamespace(
                records={TOPIC: self.log}, tell=lambda _topic, row, _trace, _now: self.tell(row)
            ),
            "poll_leader": SimpleNamespace(notify=lambda: None),
        }
        self.applying = Applying("b", run_dir, generation, lead=threading.RLock(), **parts)
        write = self.applying._write
        self.applying._write = lambda told: self.at_a_write() or write(told)  # type: ignore[func-returns-value,method-assign]
        self.applying.recover()

    def at_a_write(self) -> None:
        """Whether it lives to see it."""
        if self.lives == 0:
            raise Killed
        self.lives -= 1

    def tell(self, row: Any) -> None:
        self.at_a_write()
        self.told.append(row)

    def apply(self, batch: int, rows: list[int], first: int = 0, group: str = "g") -> dict[str, int]:
        """Rows of one batch."""
        return self.applying.apply(TOPIC, group, batch, first, [{"n": row} for row in rows])

    def say(self, number: int) -> None:
        """Somebody else's message on the same topic."""
        assert self.log.append(msgpack.packb({"n": number}), 1)

    def close(self) -> None:
        self.applying.close()


def recorded(run_dir: Path) -> Iterator[int]:
    """What is in the topic's segments, in order."""
    for path in sorted(segments.messages_folder(run_dir, "b", TOPIC).glob("*.messages")):
        data, at = path.read_bytes(), segments.HEADER_BYTES
        while (found := segments.unpack_message(data, at)) is not None:
            _, _, body, at = found
            yield msgpack.unpackb(body)["n"]


def test_a_batch_that_is_sent_again_is_applied_once(tmp_path: Path) -> None:
    """A driver that was killed does not know whether its batch arrived, and sends it again."""
    process = Process(tmp_path, 1)
    assert process.apply(7, [1, 2, 3]) == {"applied": 3, "done": 3}
    assert process.apply(7, [1, 2, 3]) == {"applied": 0, "done": 3}
    assert process.apply(7, [4, 5], first=3) == {"applied": 2, "done": 5}
    assert process.apply(9, [6]) == {"applied": 1, "done": 1}, "batches without rows are never sent"
    process.close()
    again = Process(tmp_path, 2)
    assert again.apply(9, [6]) == {"applied": 0, "done": 1}
    assert list(recorded(tmp_path)) == [1, 2, 3, 4, 5, 6]
    assert [row["n"] for row in process.told + again.told] == [1, 2, 3, 4, 5, 6]
    again.close()


def test_rows_behind_a_gap_are_not_applied_before_what_is_missing(tmp_path: Path) -> None:
    """A backplane that has lost its run directory is sent a batch from the middle: it says where to go on."""
    process = Process(tmp_path, 1)
    assert process.apply(7, [3, 4], first=2) == {"applied": 0, "done": 0}
    assert list(recorded(tmp_path)) == []
    process.close()


def test_an_earlier_batch_is_an_error_and_not_swallowed(tmp_path: Path) -> None:
    """A new checkpoint begins with batch 0 again: to answer that it had been applied would lose everything it says."""
    process = Process(tmp_path, 1)
    process.apply(7, [1])
    with pytest.raises(FailedPrecondition, match=r"has had batch 7, this is 0.*group of its own"):
        process.apply(0, [2])
    assert process.apply(0, [2], group="other") == {"applied": 1, "done": 1}
    process.close()


def test_the_ledger_is_written_anew_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has an entry for every slice: in a year it would fill the disk."""
    monkeypatch.setattr(applying, "LEDGER_BYTES_MAX", 1000)
    process = Process(tmp_path, 1)
    for batch in range(100):
        process.apply(batch, [batch], group=f"g{batch % 3}")
    process.close()
    ledger = tmp_path / "records" / "b" / applying.LEDGER
    assert len(unpack(ledger.read_bytes())) < 30
    again = Process(tmp_path, 2)
    assert [again.apply(batch, [batch], group=f"g{batch % 3}")["applied"] for batch in (97, 98, 99)] == [0, 0, 0]
    assert list(recorded(tmp_path)) == list(range(100))
    again.close()


def test_a_topic_that_cannot_be_recorded_now_is_not_told_either(tmp_path: Path) -> None:
    """What was told to subscribers and is missing in the record could never be made good."""
    process = Process(tmp_path, 1)
    process.apply(1, [1])
    process.log.append = lambda body, now_ns: False  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match=r"some\.news cannot be recorded now"):
        process.apply(2, [2])
    assert [row["n"] for row in process.told] == [1]
    process.close()


def test_where_there_is_no_room_for_a_group_it_is_refused(tmp_path: Path) -> None:
    """To forget a group that is at work would apply its batch twice."""
    known = Applied()
    for number in range(GROUPS_MAX):
        known.begin(_entry(f"g{number}", 1))
    with pytest.raises(Busy, match="use the same group again"):
        known.begin(_entry("one more", IDLE_NS))
    known.begin(_entry("one more", IDLE_NS + 1))
    assert len(known.entries()) == GROUPS_MAX


def test_half_an_entry_at_the_end_is_left_out() -> None:
    """Kill -9 may tear a write; what is before it holds."""
    whole = [_entry("a", 1), _entry("b", 2)]
    told = b"".join(map(pack, whole))
    for length in range(len(told)):
        assert unpack(told[:length] + bytes(200)) == whole[: 1 if length >= len(pack(whole[0])) else 0]
    assert unpack(told + bytes(200)) == whole


def _entry(group: str, time_ns: int) -> LedgerEntry:
    return LedgerEntry(TOPIC, group, 1, 0, 0, 1, 1, 0, time_ns)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    deaths=st.lists(st.integers(0, 25), max_size=6),
    part=st.integers(1, 7),
    slice_=st.integers(1, 5),
    strangers=st.booleans(),
)
def test_killed_at_any_write_it_has_every_row_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    deaths: list[int],
    part: int,
    slice_: int,
    strangers: bool,
) -> None:
    """The promise itself: every entry, row and message may be the last thing that a process does, and the sender begins the
    batch again each time, as a driver does that was killed as well.
    """
    run_dir = tmp_path_factory.mktemp("run")
    before, applying.SLICE = applying.SLICE, slice_
    try:
        batches, number = [], 0
        for size in sizes:
            batches.append(list(range(number, number + size)))
            number += size
        generation, stranger = 1, 1000
        process = Process(run_dir, generation, deaths.pop() if deaths else -1)
        at = 0
        while at < len(batches):
            try:
                if strangers:
                    stranger += 1
                    process.say(stranger)
                done = 0
                while done < len(batches[at]):
                    done = process.apply(at, batches[at][done : done + part], first=done)["done"]
                at += 1
            except Killed:
                process.close()
                generation += 1
                process = Process(run_dir, generation, deaths.pop() if deaths else -1)
        process.close()
        assert [n for n in recorded(run_dir) if n < 1000] == list(range(number))
    finally:
        applying.SLICE = before


def test_the_longest_topic_and_group_leave_the_ledger_readable() -> None:
    """An entry that no reader takes hides all behind it: every other group's batches would be applied twice."""
    longest = replace(_entry("\U0001f600" * 255, 2**62), topic="\U0001f600" * 255)
    told = b"".join(map(pack, [longest, _entry("behind", 1)]))
    assert [entry.group for entry in unpack(told)] == [longest.group, "behind"]
    take = batches(None, 8).apply  # type: ignore[arg-type,attr-defined]
    with pytest.raises(InvalidArgument, match="a topic of 256 characters: at most 255"):
        take("x" * 256, "g", 0, 0, [{}])


def test_groups_of_before_the_machine_started_again_make_room_after_an_hour() -> None:
    """Its clock begins at zero: they would be in the way for as long as it ran before, a year perhaps."""
    known = Applied()
    year_ns = 365 * 24 * IDLE_NS
    known.recover([_entry(f"g{number}", year_ns) for number in range(GROUPS_MAX)], lambda entry: 0, 5)
    with pytest.raises(Busy):
        known.begin(_entry("one more", 4 + IDLE_NS))
    known.begin(_entry("one more", 5 + IDLE_NS))


def recording_backplane(run_dir: Path, policy: RecordPolicy) -> tuple[ProcessConfig, Backplane]:
    """One that is about to begin to record."""
    config = ProcessConfig(
        system="s", backplane="b", generation=2, run_dir=str(run_dir), components=(), recorded_topics={TOPIC: policy}
    )  # fmt: skip
    link: Any = MemoryLink()
    return config, Backplane(config, [], clock=RealClock(), link=link)


@pytest.mark.parametrize("in_the_way", [applying.LEDGER, f"{TOPIC}/next.tmp"])
def test_a_folder_in_the_place_of_a_file_is_one_clear_line(tmp_path: Path, in_the_way: str) -> None:
    """Whoever restored a backup wrongly is told where; a traceback at each start tells him nothing."""
    (tmp_path / "records" / "b" / in_the_way).mkdir(parents=True)
    config, backplane = recording_backplane(tmp_path, RecordPolicy(size=1 << 20, age_ns=1 << 60, segment=8192))
    with pytest.raises(DeclarationFault, match=rf"cannot record: .*/{in_the_way}: Is a directory"):
        record(config, backplane)


def test_what_a_killed_process_has_left_is_looked_at_before_retention_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were removed before they were counted would be applied again, however long the system was down."""
    rows = list(range(12))
    process = Process(tmp_path, 1, lives=1 + 2 * len(rows))  # the entry, and each row, but not the end of the entry
    with pytest.raises(Killed):
        process.apply(1, rows)
    process.close()
    assert len(list((tmp_path / "records" / "b" / TOPIC).iterdir())) > 1
    for path in (tmp_path / "records" / "b" / TOPIC).iterdir():
        os.utime(path, (0, 0))
    policy = RecordPolicy(size=1 << 20, age_ns=1, segment=8192)
    config, backplane = recording_backplane(tmp_path, policy)
    monkeypatch.setattr(Recording, "start", lambda self: [files.tend() for _, files in self._written])
    record(config, backplane)
    try:
        assert backplane.applying.apply(TOPIC, "g", 1, 0, [{"n": row} for row in rows]) == {"applied": 0, "done": 12}
    finally:
        assert backplane.recording is not None
        backplane.recording.close()
        backplane.applying.close()
