"""What a request finds at once: the thing that it may use, and the last published value of its property."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from appbackplane.runtime.permissions.permission_file import Permissions, change
from appbackplane.runtime.permissions.table import Permission
from appbackplane.runtime.process_config import PermissionPolicy
from appbackplane.runtime.things.catalogue import CatalogueEntry
from appbackplane.runtime.things.web.access import Access
from appbackplane.runtime.things.web.mirror import Mirror
from appbackplane.transport.directory import Directory, Place

MODEL = {"properties": {"level": {"observable": True}, "serial": {}}, "actions": {"fade": {}}}
LAMP = CatalogueEntry("urn:lamp", "hall", None, "hall", 1, "p1", (), MODEL, {})


class KnownDirectory:
    """In the place of a client of the system."""

    known_directory: Directory | None = Directory("s", 1, {"hall": Place(1, "x", True)}, {}, {})


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    """Ben may read the level of the lamp, and Ada everything."""
    policy = PermissionPolicy(file=str(tmp_path / "p.json"), operators=("ada",), audit=str(tmp_path / "p.audit"))
    permission = Permission(id="1", who="ben", access=("read:level",), things=(LAMP.id,))
    change(Path(policy.file), lambda _: (Permissions(permissions=(permission,)), None))
    access = Access(policy, lambda: 1_000.0)
    mirror = Mirror(cast(Any, KnownDirectory()), access)
    mirror.catalogue.things = {LAMP.id: LAMP}

    async def publish() -> None:
        for name in MODEL["properties"]:
            mirror.take(
                {"thing": LAMP.id, "kind": "property", "name": name, "process": "p1", "is_known": True, "data": 7}
            )

    asyncio.run(publish())
    yield mirror
    access.close()


@pytest.mark.parametrize(
    ("asked", "is_usable"),
    [
        (("urn:lamp", "ben", "properties", "read", "level"), True),
        (("urn:lamp", "ada", "actions", "invoke", "fade"), True),
        (("urn:lamp", "ben", "properties", "write", "level"), False),
        (("urn:lamp", "ben", "properties", "read", "serial"), False),
        (("urn:lamp", "eve", "properties", "read", "level"), False),
        (("urn:lamp", "ada", "properties", "read", "fade"), False),
        (("urn:lamp", "ada", "events", "observe", "level"), False),
        (("urn:door", "ada", "properties", "read", "level"), False),
    ],
)
def test_a_thing_is_found_at_once_by_those_who_may_use_it(
    asked: tuple[str, str, str, str, str], is_usable: bool, mirror: Mirror
) -> None:
    """All others get a refusal, which is found with more care."""
    assert mirror.usable(*asked) == (LAMP if is_usable else None)


@pytest.mark.parametrize(
    "directory", [None, Directory("s", 2, {"hall": Place(2, "x", True)}, {}, {}), Directory("s", 2, {}, {}, {})]
)
def test_a_thing_whose_process_has_changed_is_looked_up(directory: Directory | None, mirror: Mirror) -> None:
    """Its successor may have other things."""
    assert mirror.usable("urn:lamp", "ada", "properties", "read", "level") is LAMP
    cast(Any, mirror.client).known_directory = directory
    assert mirror.usable("urn:lamp", "ada", "properties", "read", "level") is None


@pytest.mark.parametrize(
    ("entry", "name", "value"),
    [
        (LAMP, "level", b"7"),
        (LAMP, "serial", None),
        (LAMP, "fade", None),
        (replace(LAMP, process="p2"), "level", None),
        (replace(LAMP, is_cached=False), "level", None),
        (replace(LAMP, node="other", home_id="urn:lamp"), "level", None),
    ],
)
def test_a_published_value_answers_for_its_own_process_alone(
    entry: CatalogueEntry, name: str, value: bytes | None, mirror: Mirror
) -> None:
    """That of a replica, or of a process that has ended, may be another than the thing would answer."""
    assert mirror.cached(entry, name) == value


@pytest.mark.parametrize(
    ("entry", "name", "value"),
    [
        (replace(LAMP, is_cached=False), "level", b"7"),
        (replace(LAMP, node="other", home_id="urn:lamp"), "level", b"7"),
        (replace(LAMP, process="p2"), "level", None),
        (LAMP, "serial", None),
        (LAMP, "none", None),
    ],
)
def test_a_search_finds_what_was_published_last(
    entry: CatalogueEntry, name: str, value: bytes | None, mirror: Mirror
) -> None:
    """Wherever the thing lives, unless its process has ended."""
    assert mirror.published(entry, name) == value
