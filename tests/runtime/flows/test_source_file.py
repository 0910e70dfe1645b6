"""Source file: what an earlier process has left is found again, whenever it died; and the pump that goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import FailedPrecondition, InvalidArgument, source
from appbackplane.runtime.flows.outlet import StageOutlet
from appbackplane.runtime.flows.pump import Pump
from appbackplane.runtime.flows.source_file import SLOT_BYTES, SourceFile, SourceRecord, file_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flows" / "ingest-main.source"


def test_the_last_record_is_found_again(path: Path) -> None:
    """By the next process; any number of records take two slots."""
    file = SourceFile(path)
    assert file.record == SourceRecord()
    for number in range(1, 6):
        file.write(SourceRecord(["log.1", number], number * 10, number, 2))
    file.close()
    assert SourceFile(path).record == SourceRecord(["log.1", 5], 50, 5, 2)
    assert path.stat().st_size <= 2 * SLOT_BYTES


@pytest.mark.parametrize("length", [0, 1, 15, 18])
def test_a_record_that_was_cut_off_leaves_the_one_before(path: Path, length: int) -> None:
    """As a power failure does."""
    file = SourceFile(path)
    file.write(SourceRecord(1, 1, 1, 0))
    file.write(SourceRecord(2, 2, 2, 0))
    content = bytearray(path.read_bytes())
    first = content[:SLOT_BYTES]  # the second record, of an even number
    content[:SLOT_BYTES] = bytes(first[:length]).ljust(SLOT_BYTES, b"\0")
    path.write_bytes(content)
    assert SourceFile(path).record == SourceRecord(1, 1, 1, 0)


def test_a_damaged_file_is_an_error_that_names_it(path: Path) -> None:
    """To begin anew without being told would be to send everything again."""
    path.parent.mkdir()
    path.write_text("not ours")
    with pytest.raises(FailedPrecondition, match=r"ingest-main\.source does not say where .* Remove it to begin anew"):
        SourceFile(path)


def test_a_folder_that_cannot_be_used_is_an_error(path: Path) -> None:
    """It names the file and the reason."""
    path.parent.write_text("a file")
    with pytest.raises(FailedPrecondition, match="the position of a source cannot be kept: File exists"):
        SourceFile(path)


@pytest.mark.parametrize(("position", "message"), [(object(), "cannot be kept"), ("x" * 5_000, "takes 5,0.. bytes")])
def test_a_position_that_cannot_be_kept_is_an_error(path: Path, position: Any, message: str) -> None:
    """At the first piece, and not after a death."""
    with pytest.raises(InvalidArgument, match=message):
        SourceFile(path).write(SourceRecord(position))


def test_it_lies_with_the_log_which_outlives_the_system(tmp_path: Path) -> None:
    """Each backplane has a file of its own; without a run directory there is none."""
    run_dir, log = tmp_path / "run", tmp_path / "state"
    run_dir.mkdir()
    assert file_of(str(run_dir), "ingest", "main") == run_dir / "flows" / "ingest-main.source"
    log.mkdir()
    (run_dir / "log").symlink_to(log)
    assert file_of(str(run_dir), "ingest", "main") == log / "flows" / "ingest-main.source"
    assert file_of("/nowhere", "ingest", "main") is None


def pump_on(path: Path, position_type: Any, *, is_repeating: bool) -> Pump:
    """A source with positions of this type, which has read the file."""

    def numbers(after: Any, wanted: int) -> list[tuple[Any, int]]:
        return []

    numbers.__annotations__["after"] = position_type
    pump = Pump(source(numbers), StageOutlet(8, [None]), lambda items, origin: True, is_repeating=is_repeating)
    pump.open(SourceFile(path))
    return pump


def test_what_died_with_a_source_is_lost_unless_it_is_given_again(path: Path) -> None:
    """Those given, and not ended: the next process counts them."""
    file = SourceFile(path)
    file.write(SourceRecord(99, 100, 60, 5))
    file.close()
    once = pump_on(path, int | None, is_repeating=False)
    assert (once.given_count, once.ended_count, once.lost_count) == (100, 100, 45)
    surely = pump_on(path, int | None, is_repeating=True)
    assert (surely.given_count, surely.ended_count, surely.lost_count) == (60, 60, 5)
