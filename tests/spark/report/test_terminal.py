"""Terminal: the same as the page, in lines that fit, for persons and for awk."""

from __future__ import annotations

from datetime import UTC

import pytest

from appbackplane.spark.report.page import page
from appbackplane.spark.report.terminal import ROWS_MAX, show, skipped_lines

from . import made_contents
from .test_page import EVIL


def test_each_part_is_there_and_columns_stand_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A column that moves from row to row is read wrongly."""
    show(made_contents.million(), UTC)
    text = capsys.readouterr().out
    lines = text.splitlines()
    for begin in (
        "Backplanes",
        "Operations,",
        "Deadlines missed",
        "Priority inversions",
        "Slow actions",
        "Critical paths",
        "Slowest traces",
        "Advice: ",
    ):
        assert any(line.startswith(begin) for line in lines), begin
    at = lines.index("Backplanes")
    assert len({line.index("/s") for line in lines[at + 2 : at + 6]}) == 1
    assert [line.split()[0] for line in lines[at + 2 : at + 6]] == ["front", "query", "index", "mail"]
    assert f"and {50 - ROWS_MAX} more: --html and --json have them" in lines
    assert "threads = 4" in lines


def test_names_do_not_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """They are of whoever called."""
    show(made_contents.million(EVIL), UTC)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "<script>" in text


def test_little_is_told_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """A single action, and none."""
    show(made_contents.one(), UTC)
    show(made_contents.empty(), UTC)
    out = capsys.readouterr().out
    assert "1 action from 2026-01-01 00:00:00 UTC" in out.replace("2025-12-31 23:59:59", "2026-01-01 00:00:00")
    assert "shop: nothing was recorded yet" in out


def test_nothing_since_then_is_not_nothing_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks for the last hour of a system that was idle would look for what keeps it from recording."""
    made = made_contents.empty(made_contents.EPOCH_NS)
    show(made, UTC)
    assert capsys.readouterr().out.strip() == "shop: nothing recorded began since 2026-01-01 00:00:00 UTC"
    told = page(made, UTC)
    assert "All recorded actions began before 2026-01-01 00:00:00 UTC" in told
    assert "Nothing was recorded" not in told and "[record]" not in told


def test_what_was_left_out_is_counted() -> None:
    """And named; nothing is said where nothing was."""
    import msgspec

    made = made_contents.one()
    assert list(skipped_lines(made)) == []
    made = msgspec.structs.replace(made, skipped=["x: 1 record damaged, left out"], skipped_records=1)
    assert list(skipped_lines(made)) == ["1 record left out:", "  x: 1 record damaged, left out"]
