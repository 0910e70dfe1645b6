"""Registered things: their times and bounds, and the file in which they outlive their process."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime import FailedPrecondition
from appbackplane.runtime.things.directory import registered_things as registered_things_module
from appbackplane.runtime.things.directory.registered_things import (
    DISCOVERY_CONTEXT,
    Change,
    DirectoryFull,
    RegisteredThing,
    RegisteredThings,
    enriched,
)
from appbackplane.runtime.things.directory.registration_file import RegistrationFile, registration_path

S = 1_000_000_000
V1 = "https://www.w3.org/2019/wot/td/v1"


def td(**members: Any) -> dict[str, Any]:
    """A description as its producer sends it; validation is another's part."""
    return {"@context": V1, "title": "Lamp"} | members


def put(registrations: RegisteredThings, id: str, document: dict[str, Any], now_ns: int) -> RegisteredThing:
    """Register it, and return what is kept."""
    change = registrations.planned(id, document, now_ns)
    registrations.apply(change)
    assert change.after is not None
    return change.after


def test_a_registration_has_times() -> None:
    """Those that its producer cannot set are the directory's own, whatever he sends."""
    registrations = RegisteredThings()
    sent = td(registration={"created": "1999-01-01T00:00:00Z", "retrieved": "1999-01-01T00:00:00Z", "ttl": 60})
    first = put(registrations, "urn:dev:1", sent, 100 * S)
    assert first.description()["registration"] == {
        "created": "1970-01-01T00:01:40.000Z",
        "modified": "1970-01-01T00:01:40.000Z",
        "ttl": 60,
        "expires": "1970-01-01T00:02:40.000Z",
    }
    second = put(registrations, "urn:dev:1", td(title="Dim lamp"), 130 * S)
    assert second.description()["registration"] == {
        "created": "1970-01-01T00:01:40.000Z",
        "modified": "1970-01-01T00:02:10.000Z",
    }
    assert second.description()["id"] == "urn:dev:1" and "registration" not in second.td


def test_a_registration_expires_unless_it_is_renewed() -> None:
    """After its ttl, counted from its last change; or at its time, if it has no ttl."""
    registrations = RegisteredThings()
    put(registrations, "urn:dev:ttl", td(registration={"ttl": 60, "expires": "2100-01-01T00:00:00Z"}), 100 * S)
    put(registrations, "urn:dev:time", td(registration={"expires": "1970-01-01T00:03:00Z"}), 100 * S)
    put(registrations, "urn:dev:ever", td(), 100 * S)
    assert registrations.by_id["urn:dev:ttl"].expires_ns == 160 * S
    assert registrations.expired(160 * S - 1) == []
    renewed = registrations.by_id["urn:dev:ttl"]
    put(registrations, "urn:dev:ttl", renewed.document(), 150 * S)
    assert [change.before.id for change in registrations.expired(180 * S) if change.before] == ["urn:dev:time"]
    for change in registrations.expired(210 * S):
        assert change.after is None
        registrations.apply(change)
    assert list(registrations.by_id) == ["urn:dev:ever"]


def test_a_patch_of_the_document_may_take_the_time_away() -> None:
    """What it applies to has those times alone that a producer may set."""
    registrations = RegisteredThings()
    assert put(registrations, "urn:dev:1", td(), 0).document() == td(id="urn:dev:1")
    assert put(registrations, "urn:dev:1", td(registration={"ttl": 5}), 0).document()["registration"] == {"ttl": 5}
    kept = put(registrations, "urn:dev:1", td(registration={"expires": "1970-01-01T00:00:05Z"}), 0)
    assert kept.document()["registration"] == {"expires": "1970-01-01T00:00:05.000Z"}


def test_a_plan_changes_nothing() -> None:
    """The file may refuse it: then nothing has happened."""
    registrations = RegisteredThings()
    registrations.planned("urn:dev:1", td(), 0)
    assert registrations.by_id == {}


def test_their_number_and_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that registers without end harms itself alone; to replace and to delete is always possible."""
    monkeypatch.setattr(registered_things_module, "REGISTRATIONS_MAX", 2)
    monkeypatch.setattr(registered_things_module, "BYTES_MAX", 400)
    registrations = RegisteredThings()
    put(registrations, "urn:dev:1", td(), 0)
    second = put(registrations, "urn:dev:2", td(), 0)
    with pytest.raises(DirectoryFull, match="has 2 registrations: delete some"):
        registrations.planned("urn:dev:3", td(), 0)
    with pytest.raises(DirectoryFull, match="delete some, or give them a ttl"):
        registrations.planned("urn:dev:2", td(title="x" * 400), 0)
    put(registrations, "urn:dev:2", td(title="x" * 100), 0)
    put(registrations, "urn:dev:2", td(), 0)
    registrations.apply(Change(second, None))
    put(registrations, "urn:dev:3", td(title="x" * 100), 0)
    with pytest.raises(DirectoryFull):
        RegisteredThings(registrations.by_id.values()).planned("urn:dev:1", td(title="x" * 200), 0)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (V1, [V1, DISCOVERY_CONTEXT]),
        ([V1, {"a": "urn:a"}], [V1, DISCOVERY_CONTEXT, {"a": "urn:a"}]),
        ([V1, "urn:v11", {"a": "urn:a"}], [V1, "urn:v11", DISCOVERY_CONTEXT, {"a": "urn:a"}]),
        ([V1, DISCOVERY_CONTEXT], [V1, DISCOVERY_CONTEXT]),
    ],
)
def test_the_context_defines_the_registration(context: Any, expected: list[Any]) -> None:
    """Behind those of Thing Descriptions, which must be first; and once."""
    assert enriched({"@context": context}, 0, 0)["@context"] == expected


# -- the file ---------------------------------------------------------------------------------------------------------


def filled(path: Path, count: int) -> tuple[RegistrationFile, RegisteredThings]:
    """An open file with registrations, each in a transaction of its own."""
    file, registrations = RegistrationFile(path), RegisteredThings()
    for number in range(count):
        change = registrations.planned(f"urn:dev:{number}", td(registration={"ttl": 60 + number}), number * S)
        file.write(change)
        registrations.apply(change)
    return file, registrations


def test_registrations_outlive_their_process(tmp_path: Path) -> None:
    """All their times, too, and that some are gone."""
    file, registrations = filled(tmp_path / "things" / "gateway.sqlite3", 3)
    gone = Change(registrations.by_id["urn:dev:1"], None)
    file.write(gone)
    registrations.apply(gone)
    file.close()
    again = RegistrationFile(tmp_path / "things" / "gateway.sqlite3")
    assert again.things.by_id == registrations.by_id
    again.close()
    assert (tmp_path / "things" / "gateway.sqlite3").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("torn_bytes", [1, 100, 4_000])
def test_a_torn_tail_costs_the_last_write_alone(tmp_path: Path, torn_bytes: int) -> None:
    """As after a power cut: the log ends within the last transaction. What was written before it is there."""
    path = tmp_path / "gateway.sqlite3"
    file, registrations = filled(path, 5)
    torn = tmp_path / "torn.sqlite3"
    shutil.copy(path, torn)
    log = path.with_name(f"{path.name}-wal").read_bytes()
    torn.with_name(f"{torn.name}-wal").write_bytes(log[:-torn_bytes])
    file.close()
    again = RegistrationFile(torn)
    assert list(again.things.by_id.values()) == list(registrations.by_id.values())[:-1]
    again.close()


def test_a_file_that_is_none_of_ours_is_told_with_the_remedy(tmp_path: Path) -> None:
    """It is not overwritten: somebody may want to save what is in it."""
    path = tmp_path / "gateway.sqlite3"
    path.write_bytes(b"not a database" * 1_000)
    with pytest.raises(FailedPrecondition, match="move it away to begin anew"):
        RegistrationFile(path)
    assert path.read_bytes() == b"not a database" * 1_000


def test_a_file_of_another_version_is_told_with_the_remedy(tmp_path: Path) -> None:
    """Its table may mean something else."""
    path = tmp_path / "gateway.sqlite3"
    filled(path, 1)[0].close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(FailedPrecondition, match="is of version 7: this program knows 1"):
        RegistrationFile(path)


def test_a_row_that_is_damaged_is_told_with_the_remedy(tmp_path: Path) -> None:
    """And does not end in half a list."""
    path = tmp_path / "gateway.sqlite3"
    filled(path, 1)[0].close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE registration SET td = '{'")
    database.close()
    with pytest.raises(FailedPrecondition, match="move it away to begin anew"):
        RegistrationFile(path)


def test_two_gateways_do_not_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one would not learn what the first one registers."""
    monkeypatch.setattr("appbackplane.runtime.things.directory.registration_file._LOCK_S", 0.0)
    path = tmp_path / "gateway.sqlite3"
    file, _ = filled(path, 1)
    with pytest.raises(FailedPrecondition, match="give each gateway a name of its own"):
        RegistrationFile(path)
    file.close()


def test_the_file_lies_where_the_log_does(tmp_path: Path) -> None:
    """The run directory is gone when the system is."""
    run, log = tmp_path / "run", tmp_path / "state"
    assert registration_path(str(run), "gateway") is None
    run.mkdir()
    assert registration_path(str(run), "gateway") == run / "things" / "gateway.sqlite3"
    log.mkdir()
    (run / "log").symlink_to(log)
    assert registration_path(str(run), "gateway") == log / "things" / "gateway.sqlite3"


def test_without_a_file_nothing_is_kept() -> None:
    """Under a virtual clock there is no run directory."""
    file = RegistrationFile(None)
    file.write(RegisteredThings().planned("urn:dev:1", td(), 0))
    assert file.things.by_id == {}
    file.close()
