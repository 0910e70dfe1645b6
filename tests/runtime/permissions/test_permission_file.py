"""The file of permissions: changed whole or not at all; what cannot be read permits nothing. And the audit log beside it."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from appbackplane.runtime import FailedPrecondition
from appbackplane.runtime.permissions import audit, permission_file
from appbackplane.runtime.permissions.audit import AuditLog
from appbackplane.runtime.permissions.permission_file import (
    LOOK_AGAIN_S,
    PermissionFile,
    PermissionFileError,
    Permissions,
    change,
    read,
)
from appbackplane.runtime.permissions.table import Permission

ADAS = Permission(id="1", who="ada", access=("read",), things=("*",))


def add(each: Permission) -> Any:
    """A change that adds one."""
    return lambda contents: (msgspec.structs.replace(contents, permissions=(*contents.permissions, each)), each.id)


def may_read(file: PermissionFile, now_s: float) -> bool:
    """Whether Ada may."""
    return file.table(now_s).decide("ada", "urn:h:a", (), "read", "x", now_s).until_s > now_s


def test_a_change_is_seen_by_readers_within_their_interval(tmp_path: Path) -> None:
    """A revocation holds everywhere after it; before, nobody looks at the disk."""
    file = PermissionFile(tmp_path / "p.json")
    assert not may_read(file, 0.0)
    assert change(file.path, add(ADAS)) == "1"
    assert not may_read(file, LOOK_AGAIN_S / 2)
    assert may_read(file, LOOK_AGAIN_S)
    change(file.path, lambda contents: (Permissions(), None))
    assert not may_read(file, 2 * LOOK_AGAIN_S)


def test_a_clock_that_is_set_back_does_not_stop_the_looks(tmp_path: Path) -> None:
    """A revocation would not be seen for years."""
    file = PermissionFile(tmp_path / "p.json")
    assert not may_read(file, 1_000.0)
    change(file.path, add(ADAS))
    assert may_read(file, 5.0)


def test_the_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    """It says who may do what."""
    before = os.umask(0)
    try:
        change(tmp_path / "p.json", add(ADAS))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Input data was truncated"),
        ('{"permissions": [{"id": "1"}]}', "missing required field `who` - at `$.permissions[0]`"),
        ('{"permision": []}', "unknown field `permision`"),
        ('{"permissions": [{"id": "1", "who": "ada", "access": ["reed"], "things": ["*"]}]}', "permission '1': access 'reed'"),
        (
            '{"permissions": [{"id": "1", "who": "a", "access": ["read"], "things": ["*"]},'
            ' {"id": "1", "who": "b", "access": ["read"], "things": ["*"]}]}',
            "permission '1': another has the same id",
        ),
    ],
)  # fmt: skip
def test_a_broken_file_permits_nothing_and_says_where(
    tmp_path: Path, text: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log, however many calls there are; and it is not overwritten by the next change."""
    file = PermissionFile(tmp_path / "p.json")
    change(file.path, add(ADAS))
    assert may_read(file, -1.0)
    file.path.write_text(text)
    with caplog.at_level(logging.ERROR):
        for turn in range(3):
            assert not may_read(file, float(turn))
    (line,) = caplog.records
    assert words in line.getMessage() and str(file.path) in line.getMessage()
    with pytest.raises(PermissionFileError):
        change(file.path, add(ADAS))
    assert file.path.read_text() == text


def test_a_change_that_is_wrong_changes_nothing(tmp_path: Path) -> None:
    """Two with one id."""
    path = tmp_path / "p.json"
    change(path, add(ADAS))
    with pytest.raises(FailedPrecondition, match="another has the same id"):
        change(path, add(ADAS))
    assert read(path).permissions == (ADAS,)


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever made it: the file would permit nothing then, and could not be changed any more."""
    path = tmp_path / "p.json"
    change(path, add(ADAS))
    for wrong in (msgspec.structs.replace(ADAS, id="2", who=""), msgspec.structs.replace(ADAS, id="", access=())):
        with pytest.raises(FailedPrecondition):
            change(path, add(wrong))
    monkeypatch.setattr(permission_file, "FILE_BYTES_MAX", 300)
    with pytest.raises(FailedPrecondition, match="would have more than 300 bytes: revoke some"):
        change(path, add(msgspec.structs.replace(ADAS, id="2", things=("x" * 200,))))
    assert read(path).permissions == (ADAS,)


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A folder that is not there."""
    with pytest.raises(PermissionFileError, match=r"cannot be locked: No such file or directory"):
        change(tmp_path / "none" / "p.json", add(ADAS))


def lines(path: Path) -> list[dict[str, Any]]:
    """The audit log."""
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_a_flood_of_refusals_is_counted_and_does_not_fill_the_audit_log(tmp_path: Path) -> None:
    """What was permitted is written in any case."""
    log = AuditLog(tmp_path / "audit")
    for _ in range(500):
        log.called(7.5, "eve", "urn:h:a", "invoke", "open", is_permitted=False)
    log.called(7.6, "ada", "urn:h:a", "invoke", "open", is_permitted=True)
    log.called(8.0, "eve", "urn:h:a", "invoke", "open", is_permitted=False)
    found = lines(log.path)
    assert len(found) == audit.REFUSALS_MAX + 2
    assert found[-2] == {"at": 7.6, "who": "ada", "did": "invoke open", "thing": "urn:h:a", "permitted": True}
    assert found[-1]["refusals_omitted"] == 500 - audit.REFUSALS_MAX
    log.close()


def test_the_audit_log_is_bounded_and_two_processes_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before is kept; nobody goes on writing to it."""
    monkeypatch.setattr(audit, "FILE_BYTES_MAX", 1_000)
    logs = [AuditLog(tmp_path / "audit"), AuditLog(tmp_path / "audit")]
    for number in range(40):
        logs[number % 2].changed(float(number), "ada", "share", number)
    last = lines(tmp_path / "audit") if (tmp_path / "audit").exists() else []
    assert [each["subject"] for each in [*lines(tmp_path / "audit.1"), *last]][-1] == 39
    assert all(each.stat().st_size < 1_200 for each in tmp_path.iterdir())
    for log in logs:
        log.close()


def test_a_log_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Calls go on."""
    log = AuditLog(tmp_path / "none" / "audit")
    for _ in range(3):
        log.changed(0.0, "ada", "share", 1)
    assert [each.getMessage() for each in caplog.records] == [
        f"audit log {log.path}: No such file or directory: calls are not written down"
    ]
