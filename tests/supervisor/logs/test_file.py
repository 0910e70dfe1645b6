"""The files of a log: whole lines, in turns, one writer; and what the disk does not take is counted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appbackplane.supervisor.commands.up import _open_last_words
from appbackplane.supervisor.logs.file import LogFile
from appbackplane.supervisor.logs.folder import NAMES, default_folder, name_of, names_in, numbers, outdated
from appbackplane.transport.addressing import default_run_dir
from appbackplane.transport.errors import FailedPrecondition

Open = Callable[..., LogFile]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Open]:
    """Opens the log of this test."""
    opened: list[LogFile] = []

    def start(bytes_max: int = 1_000, files: int = 3) -> LogFile:
        opened.append(LogFile(tmp_path / "log", bytes_max, files))
        return opened[-1]

    yield start
    for file in opened:
        file.close()


def kept(folder: Path) -> list[str]:
    """All lines, in order."""
    return [
        line
        for number in numbers(os.listdir(folder / "log"))
        for line in (folder / "log" / name_of(number)).read_text().splitlines()
    ]


def test_files_take_turns_and_the_oldest_goes(begin: Open, tmp_path: Path) -> None:
    """A disk that is full stops more than a system; a number is never used twice, so nobody reads another file."""
    file = begin()
    for number in range(100):
        file.write(b"%04d %s\n" % (number, b"x" * 94))
    present = numbers(os.listdir(tmp_path / "log"))
    assert present == [8, 9, 10]
    assert [line[:4] for line in kept(tmp_path)] == [f"{number:04}" for number in range(70, 100)]
    assert all(entry.stat().st_size <= 1_000 for entry in (tmp_path / "log").iterdir())


@given(st.sets(st.integers(1, 200)), st.integers(1, 200), st.integers(1, 20))
def test_as_many_files_are_kept_as_were_asked_for(present: set[int], current: int, files: int) -> None:
    """The one that is written among them."""
    present = {number for number in present if number <= current} | {current}
    left = present - set(outdated(present, current, files))
    assert current in left
    assert len(left) <= files
    assert all(number > current - files for number in left)


def test_the_next_writer_goes_on_where_the_last_one_was_killed(begin: Open, tmp_path: Path) -> None:
    """In the middle of a line, perhaps: it must not be glued to the next one."""
    file = begin()
    file.write(b"one\n")
    os.write(file._fd, b"two, but only ha")
    file.close()
    again = begin()
    again.write(b"three\n")
    assert kept(tmp_path) == ["one", "two, but only ha", "three"]


def test_two_systems_do_not_write_into_one_log(begin: Open) -> None:
    """Each would take away the other's files."""
    first = begin()
    with pytest.raises(FailedPrecondition, match="another system writes there"):
        begin()
    first.close()
    begin().write(b"x\n")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Before anything starts."""
    (tmp_path / "log").write_text("a file")
    with pytest.raises(FailedPrecondition, match="cannot be written: "):
        LogFile(tmp_path / "log", 1_000, 3)


@pytest.mark.parametrize("mode", [0o770, 0o703])
def test_a_folder_that_others_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    """Whoever writes there puts a link in the place of the next file, and has us write over what it leads to."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log").chmod(mode)
    with pytest.raises(FailedPrecondition, match="can be changed by others: chmod go-w"):
        LogFile(tmp_path / "log", 1_000, 3)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("planted", ["folder", "link", "link to another's"])
def test_another_users_folder_is_refused(tmp_path: Path, planted: str) -> None:
    """Beside a run directory in a shared folder anybody may have put one, or a link to one of ours."""
    folder, elsewhere = tmp_path / "log", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if planted == "folder":
        folder.mkdir(mode=0o700)
    else:
        folder.symlink_to(elsewhere)
    os.chown(elsewhere if planted == "link to another's" else folder, 12_345, -1, follow_symlinks=False)
    with pytest.raises(FailedPrecondition, match="not a folder of yours: remove it, or choose another"):
        LogFile(folder, 1_000, 3)
    with pytest.raises(FailedPrecondition, match="not a folder of yours"):
        _open_last_words(folder)
    assert not any(elsewhere.iterdir())


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    """To a disk that has room for it."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    LogFile(tmp_path / "log", 1_000, 3).close()
    assert (tmp_path / "elsewhere" / name_of(1)).exists()


def test_a_planted_link_is_not_written_through(begin: Open, tmp_path: Path) -> None:
    """It was: with `names.new` leading to it, a private file was overwritten."""
    private = tmp_path / "private"
    private.write_text("of value")
    file = begin()
    for name in ("names.json.new", name_of(1), "names.json"):
        (tmp_path / "log" / name).unlink(missing_ok=True)
        (tmp_path / "log" / name).symlink_to(private)
    file.put("names.json", b"{}")
    file.close()
    with pytest.raises(FailedPrecondition, match="cannot be written"):
        begin()
    assert private.read_text() == "of value"
    assert (tmp_path / "log" / "names.json").read_text() == "{}"


def test_what_the_disk_does_not_take_is_counted(begin: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a line of which it took a part does not spoil the next."""
    file, write, room = begin(), os.write, [9]

    def full(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(fd, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", full)
    file.write(b"one\ntwo\nthree\n")  # "one", "two", and a letter of "three"
    file.write(b"four\nfive\n")
    assert (file.lost_count, file.problem) == (3, "No space left on device")
    monkeypatch.setattr(os, "write", write)
    file.write(b"six\n")
    assert file.lost_count == 3
    assert kept(tmp_path) == ["one", "two", "t", "six"]


def test_nobody_else_may_read_it(begin: Open, tmp_path: Path) -> None:
    """What a system says may be secret."""
    begin()
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "log" / name_of(1)).stat().st_mode & 0o777 == 0o600


def test_where_a_log_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It outlives its run directory, which is in memory and vanishes; beside it where that was chosen."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_folder("shop", default_run_dir("shop")) == Path("/state/appbackplane/shop")
    assert default_folder("shop", Path("/srv/run/shop")) == Path("/srv/run/shop.log")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the specification: to be ignored
    monkeypatch.setenv("HOME", "/somebody")
    assert default_folder("shop", default_run_dir("shop")) == Path("/somebody/.local/state/appbackplane/shop")


@pytest.mark.parametrize("text", [None, "not JSON", "[]"])
def test_names_that_nobody_has_written_down_are_none(tmp_path: Path, text: str | None) -> None:
    """A wrong name is then not told from one that has said nothing, and that is all."""
    if text is not None:
        (tmp_path / NAMES).write_text(text)
    assert names_in(tmp_path) == {}
