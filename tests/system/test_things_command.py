"""`appbackplane things`: use, share, try, revoke and audit, as an operator at a terminal does."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.waiting import wait_until

from .conftest import System
from .test_permissions import house_permitting
from .test_things import LAMP, Web

LAMP_ID = "urn:dev:lamp-1"


@pytest.fixture(scope="module")
def house(_no_ignored_interrupt: None) -> Iterator[System]:
    """One system for all; each test leaves the permissions as it found them."""
    with house_permitting() as system:
        yield system


def things(house: System, *words: str) -> subprocess.CompletedProcess[str]:
    """What a person types."""
    return house.command("things", *words)


def told(house: System, *words: str) -> Any:
    """The same, for a program."""
    done = things(house, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(house: System, *words: str) -> str:
    """The one line in which it is refused."""
    done = things(house, *words)
    assert done.returncode in (1, 2) and done.stdout == "" and done.stderr.count("\n") == 1, done
    return done.stderr


def test_things_are_used_by_name(house: System) -> None:
    """Listed, described, read, written and invoked."""
    assert LAMP_ID in [each["id"] for each in told(house, "list", "--type", "saref:LightSwitch")]
    assert told(house, "list", "--type", "saref:Door") == []
    assert told(house, "describe", LAMP_ID)["title"] == "Lamp"
    assert told(house, "write", LAMP_ID, "brightness", "42") is None
    assert told(house, "read", LAMP_ID, "brightness") == 42
    assert told(house, "invoke", LAMP_ID, "double", "number=21") == 42


def test_wrong_words_get_one_line_each(house: System) -> None:
    """With the name, and what to do."""
    assert "no thing 'urn:x': `appbackplane things list`" in refused(house, "read", "urn:x")
    assert "has no 'blink' in its actions: " in refused(house, "invoke", LAMP_ID, "blink")
    assert "property 'user' of urn:dev:lamp-1 is read only" in refused(house, "write", LAMP_ID, "user", "1")
    assert "access 'reed': expected one of" in refused(house, "share", "ben", LAMP_ID, "--access", "reed")
    assert "it names no thing" in refused(house, "share", "ben", "--access", "read")
    assert "--for 'soon'" in refused(house, "share", "ben", LAMP_ID, "--access", "read", "--for", "soon")
    assert "no permission or link 'nine' of yours" in refused(house, "revoke", "nine")


def test_a_guest_link_is_shared_tried_used_and_revoked(house: System) -> None:
    """Its token is shown once, and is nowhere in the file."""
    given = told(house, "share", "link", LAMP_ID, "--access", "invoke:double,read:brightness", "--for", "1d")
    guest = Web(house, given["token"])
    wait_until(lambda: guest.ask("POST", f"{LAMP}/actions/double", {"number": 4}).body == 8, "the guest may not double")
    assert guest.ask("POST", f"{LAMP}/actions/burst", {"count": 1}).status == 404
    assert told(house, "try", given["who"], "invoke:double", LAMP_ID) == {
        "is_permitted": True, "is_operator": False, "by": [given["id"]],
    }  # fmt: skip
    assert not told(house, "try", given["who"], "write", LAMP_ID)["is_permitted"]
    assert [each["id"] for each in told(house, "shared")] == [given["id"]]
    assert given["token"] not in (house.folder / "permissions.json").read_text()
    assert [each["id"] for each in told(house, "revoke", given["id"])] == [given["id"]]
    assert told(house, "shared") == []
    assert [each["did"] for each in told(house, "audit") if "subject" in each] == ["share", "revoke"]


def test_watch_prints_what_happens(house: System) -> None:
    """Of one thing, until there were so many."""
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(told, house, "watch", LAMP_ID, "--count", "1")
        web, levels = Web(house), itertools.cycle(range(100))

        def is_told() -> bool:
            assert web.ask("PUT", f"{LAMP}/properties/brightness", next(levels)).status == 204
            return watching.done()

        wait_until(is_told, "nothing is printed")  # it says nothing until then, nor when it has subscribed
    message = watching.result()
    assert (message["thing"], message["kind"], message["name"]) == (LAMP_ID, "property", "brightness")
